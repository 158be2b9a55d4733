"""What a source hands over to be exported, and what the sources have in common."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from ...core.errors import InputError, Unavailable
from ...core.types import Preprocess

_SEED = 0
_FEW = 12


@dataclass(frozen=True, slots=True)
class Network:
    """A PyTorch module with weights, and what its makers say of its images and classes.

    `preprocess` is None where the record cannot say what they do.
    """

    source: str
    weights: str
    module: Any
    size: tuple[int, int, int]
    preprocess: Preprocess | None
    classes: tuple[str, ...] = ()


def library(package: str) -> Any:
    """Import a package that is installed, but may be made for another torch than the one that is."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError, RuntimeError) as error:
        pair = " and ".join(f"{name} {metadata.version(name)}" for name in ("torch", "torchvision"))
        raise Unavailable(
            f"{package} cannot be imported: {error}. Most often {pair} are not builds for each other, such as one for "
            "CPUs and one for CUDA",
            "pip install --force-reinstall torch torchvision (both from the same index)",
        ) from None


def unknown(what: str, name: str, known: Iterable[str], hint: str) -> InputError:
    names = sorted(known)
    near = names if len(names) <= _FEW else difflib.get_close_matches(name, names, 5)
    shown = f"; {'it has' if near is names else 'near it'}: {', '.join(near)}" if near else ""
    return InputError(f"{what} {name!r}{shown}", hint)


def seeded(build: Callable[[], Any]) -> Any:
    """A module with random weights, the same each time."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(_SEED)
        module = build()
        for name, weight in module.named_parameters():
            # Some layers begin at zero (the last scale of a residual block, the classifier), for the sake of training.
            # Left so, half the network would work on zeros, and the answer would be the same for every image.
            if name.endswith("weight") and not weight.any():
                weight.normal_(std=0.2 if weight.dim() < 2 else weight[0].numel() ** -0.5)
    return module
