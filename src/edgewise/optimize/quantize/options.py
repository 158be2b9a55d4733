"""How a model is quantized: the options of the step `quantize`, and what this processor gains from 8 bits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from ...core.errors import InputError
from ...core.types import Machine

# What each option may be; the first is what it is unless it is said. `keep` is a number.
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "precision": ("int8", "fp16"),
    "form": ("static", "dynamic"),
    "calibrate": ("minmax", "percentile", "entropy", "mse"),
    "correct": ("none", "bias"),
    "equalize": ("no", "yes"),
}
_KEEP = "a number of layers (keep=3), or the error of the outputs to stay below, between 0 and 1 (keep=0.01)"
# Sums of products of 8-bit numbers in one instruction; on x86 those without saturating on the way.
_INT8_X86 = ("avx512_vnni", "avx_vnni", "amx_int8")
_INT8_ARM = ("asimddp", "i8mm")
_X86 = ("sse4_2", "avx2", "avx512f")


@dataclass(frozen=True, slots=True)
class Quantizing:
    """`calibrate` is how ranges are taken from calibration inputs. `keep` leaves the layers that suffer most in float:
    that many, or, below 1, as many as it takes for the outputs' squared error to stay below this share of their
    variance."""

    precision: str = "int8"
    form: str = "static"
    calibrate: str = "minmax"
    correct: str = "none"
    equalize: str = "no"
    keep: float = 0

    @property
    def given(self) -> dict[str, str]:
        """What differs from the default, as it is written."""
        return {
            field.name: str(value) for field in fields(self) if (value := getattr(self, field.name)) != field.default
        }

    @property
    def plain(self) -> bool:
        return not self.given

    @property
    def calibrated(self) -> bool:
        """Whether it takes inputs to see what comes out."""
        return self.precision == "int8" and self.form == "static"

    def __str__(self) -> str:
        pairs = {"precision": self.precision} | self.given
        return f"quantize({', '.join(f'{key}={value}' for key, value in pairs.items())})"


# As it is where nothing is said.
PLAIN = Quantizing()


def quantizing(given: Mapping[str, str]) -> Quantizing:
    """The options of a step as they were written; what is unknown, or does not go together, is refused."""
    keep = 0.0
    for key, value in given.items():
        if key == "keep":
            keep = _keep(value)
        elif key not in ALLOWED:
            raise InputError(f"quantize has no {key!r}; it has {', '.join((*ALLOWED, 'keep'))}")
        elif key == "precision" and value == "bf16":
            raise InputError(
                "bf16 is no form of a file: it is what an engine computes in where the target asks for it",
                "--on openvino:cpu:bf16",
            )
        elif value not in ALLOWED[key]:
            raise InputError(f"{key} of quantize is one of {', '.join(ALLOWED[key])}, found {value!r}")
    found = Quantizing(**{key: value for key, value in given.items() if key != "keep"}, keep=keep)
    if not found.calibrated:
        why = "precision=fp16" if found.precision == "fp16" else "form=dynamic"
        own = ("precision",) if found.precision == "fp16" else ("form", "precision")
        unused = [key for key in found.given if key not in own]
        if unused:
            raise InputError(
                f"{unused[0]} has no meaning for {why}: no ranges are known beforehand", f"quantize({why})"
            )
    return found


def _keep(text: str) -> float:
    if re.fullmatch(r"[0-9]{1,6}", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise InputError(f"keep of quantize is {_KEEP}, found {text!r}")
    return value


def saturates(machine: Machine) -> bool:
    """Whether sums of 8-bit products are held in 16 bits on the way, so that weights must do with 7: x86 without
    VNNI."""
    return any(name in machine.isa for name in ("avx2", "avx512f")) and not any(
        name in machine.isa for name in ("avx512_vnni", "avx_vnni")
    )


def unprofitable(machine: Machine) -> str | None:
    """Why int8 will hardly be faster on this processor, in one sentence; None where it has instructions for it."""
    x86 = any(name in machine.isa for name in _X86)
    wanted, words = (_INT8_X86, "VNNI or AMX") if x86 else (_INT8_ARM, "dot products or I8MM")
    if not machine.isa or any(name in machine.isa for name in wanted):
        return None
    return (
        f"{machine.cpu} has no instructions for products of 8 bits ({words}): int8 makes a model smaller here, "
        "and rarely faster"
    )
