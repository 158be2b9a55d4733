"""The text in which ncnn writes a network down: one layer per line, with the blobs it takes and makes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import InputError

MAGIC = "7767517"
# The size of an Input layer's blob, outermost first, by the numbers of its parameters: channels, depth, height, width.
_SIZES = ("2", "11", "1", "0")
# Layers that may hold 8-bit weights, and the number of the parameter that says so where it is not zero.
_INT8_TERM = {
    "Convolution": "8", "ConvolutionDepthWise": "8", "InnerProduct": "8", "RNN": "8", "LSTM": "8", "GRU": "8",
    "Embed": "18", "Gemm": "18", "MultiHeadAttention": "18", "SDPA": "18",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layer:
    kind: str
    name: str
    takes: tuple[str, ...]
    makes: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]

    def shape(self) -> tuple[int, ...] | None:
        """Of an Input layer, where the file says it."""
        settings = dict(self.settings)
        sizes = [int(settings[key]) for key in _SIZES if re.fullmatch("[1-9][0-9]*", settings.get(key, ""))]
        return tuple(sizes) or None

    def grouped(self) -> bool:
        """A convolution in groups of more than one channel."""
        if "DepthWise" not in self.kind:
            return False
        settings = dict(self.settings)
        kernel = int(settings.get("1", 0))
        kernel *= 1 if self.kind.endswith("1D") else int(settings.get("11", kernel))
        groups = int(settings.get("7", 1))
        return (groups, groups * kernel) != (int(settings.get("0", 0)), int(settings.get("6", 0)))

    def quantized(self) -> bool:
        """Computes in 8-bit integers, or at least has its weights in them."""
        return dict(self.settings).get(_INT8_TERM.get(self.kind, ""), "0") != "0"


def parse(path: Path) -> tuple[Layer, ...]:
    """The layers of a .param file, or an InputError that says what is wrong with it."""
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {error}") from None
    if not lines or lines[0] != [MAGIC]:
        raise InputError(f"{path.name} is not ncnn's text format: it does not begin with {MAGIC}")
    try:
        count, _ = (int(number) for number in lines[1])
        layers = tuple(_layer(words) for words in lines[2:])
    except (ValueError, IndexError):
        raise InputError(f"{path.name} is damaged: a line is not a layer") from None
    if count != len(layers):
        raise InputError(f"{path.name} is cut short: it promises {count} layers and has {len(layers)}")
    made: set[str] = set()
    for layer in layers:
        if missing := set(layer.takes) - made:
            raise InputError(f"{path.name} is damaged: {layer.name!r} takes {min(missing)!r}, which nothing makes")
        made.update(layer.makes)
    return layers


def _layer(words: list[str]) -> Layer:
    takes, makes = int(words[2]), int(words[3])
    blobs = words[4 : 4 + takes + makes]
    if takes < 0 or makes < 0 or len(blobs) != takes + makes:
        raise ValueError
    settings = [tuple(word.split("=", 1)) for word in words[4 + takes + makes :]]
    return Layer(
        words[0], words[1], tuple(blobs[:takes]), tuple(blobs[takes:]), tuple((key, value) for key, value in settings)
    )


def results(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """The blobs that no layer takes."""
    taken = {blob for layer in layers for blob in layer.takes}
    return tuple(blob for layer in layers for blob in layer.makes if blob not in taken)


def batch_axes(script: str, inputs: int) -> list[int | None]:
    """Which axis of each input pnnx has dropped as the batch, from the script it writes beside the network.

    None: it kept them all, which it writes as 233. Older versions squeeze instead.
    """
    found: list[int | None] = []
    for number in range(inputs):
        match = re.search(rf"Mat\(in{number}\b(.*)$", script, re.MULTILINE)
        if match is None:
            raise ValueError(f"nothing is said of input {number}")
        axis = re.search(r"batch_index=(\d+)|squeeze\((\d+)\)", match[1])
        index = int(axis[1] or axis[2]) if axis else 233
        found.append(None if index == 233 else index)
    return found


def write(layers: Sequence[Layer]) -> str:
    lines = []
    for layer in layers:
        settings = " ".join(f"{key}={value}" for key, value in layer.settings)
        counts = f"{len(layer.takes)} {len(layer.makes)}"
        lines.append(" ".join((layer.kind, layer.name, counts, *layer.takes, *layer.makes, settings)))
    blobs = {blob for layer in layers for blob in layer.makes}
    return "\n".join((MAGIC, f"{len(lines)} {len(blobs)}", *lines)) + "\n"


def without_gelu(layers: Sequence[Layer]) -> list[Layer]:
    """GELU spelled out as x * (erf(x / sqrt 2) + 1) / 2: on Vulkan ncnn has a formula that is off by 2e-4.

    What asks for that formula (0=1) keeps it.
    """
    exact = {layer.name for layer in layers if layer.kind == "GELU" and dict(layer.settings).get("0") != "1"}
    return [step for layer in layers for step in (_spelled_out(layer) if layer.name in exact else [layer])]


def _spelled_out(gelu: Layer) -> list[Layer]:
    (taken,), (made,), name = gelu.takes, gelu.makes, gelu.name
    kept, x, erf, more, twice = (f"{name}.{part}" for part in ("kept", "x", "erf", "more", "twice"))

    def binary(kind: int, number: float) -> tuple[tuple[str, str], ...]:
        return ("0", str(kind)), ("1", "1"), ("2", repr(number))

    return [
        Layer("Split", f"{name}.split", (taken,), (kept, f"{x}0"), ()),
        Layer("BinaryOp", f"{name}.scale", (f"{x}0",), (x,), binary(2, 0.5**0.5)),
        Layer("Erf", f"{name}.erf", (x,), (erf,), ()),
        Layer("BinaryOp", f"{name}.add", (erf,), (more,), binary(0, 1.0)),
        Layer("BinaryOp", f"{name}.mul", (kept, more), (twice,), (("0", "2"),)),
        Layer("BinaryOp", f"{name}.half", (twice,), (made,), binary(2, 0.5)),
    ]
