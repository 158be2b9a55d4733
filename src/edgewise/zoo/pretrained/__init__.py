"""Trained networks from where people keep them: `timm:NAME`, `torchvision:NAME`, fetched and exported to ONNX once.

It imports PyTorch and reads files from elsewhere, so callers do this in a worker.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import tempfile
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from ...core.errors import InputError, Unavailable
from .network import Network

# What each source needs; a source is the file of that name.
SOURCES: Mapping[str, tuple[str, ...]] = {
    "timm": ("timm", "torchvision", "torch", "onnxscript"),
    "torchvision": ("torchvision", "torch", "onnxscript"),
}
RANDOM = "random"
_NAME = re.compile(r"([a-z]+):([A-Za-z0-9][A-Za-z0-9_.-]*)(?:@([A-Za-z0-9_]+))?")


def named(name: str) -> bool:
    """Whether `name` is meant for one of the sources."""
    return name.partition(":")[0] in SOURCES and ":" in name


def fetch(name: str, folder: str) -> str:
    """The ONNX file of `timm:NAME[.TAG]` or `torchvision:NAME[@WEIGHTS]` in `folder`; `@random` needs no download.

    Made once: the file's name says which versions of the packages and of this one made it.
    """
    match = _NAME.fullmatch(name)
    if not match or match[1] not in SOURCES:
        raise InputError(
            f"{name!r} does not name a pretrained network; expected timm:NAME, timm:NAME.TAG, torchvision:NAME or "
            "torchvision:NAME@WEIGHTS, each also with @random",
            "edgewise inspect torchvision:resnet18",
        )
    source, network, weights = match.groups()
    versions = _versions(name, source)
    key = hashlib.sha256(repr((name, sorted(versions.items()), _revision())).encode()).hexdigest()[:12]
    file = Path(folder) / f"{name.replace(':', '-')}-{key}.onnx"
    if file.is_file():
        return str(file)
    said = {"versions": ", ".join(f"{package} {version}" for package, version in versions.items())}
    with warnings.catch_warnings():
        # What these packages have to say about their own future is nothing the user could act on.
        warnings.simplefilter("ignore")
        _export(importlib.import_module(f".{source}", __name__).load(network, weights), file, said)
    return str(file)


def _export(network: Network, file: Path, said: Mapping[str, str]) -> None:
    from .export import write

    # A folder of its own, and the model renamed last: an export cut short, or found wrong, is never taken for one.
    with tempfile.TemporaryDirectory(dir=file.parent, ignore_cleanup_errors=True) as part:
        for made in write(network, Path(part) / file.name, said):
            os.replace(made, file.parent / made.name)


def _versions(name: str, source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in SOURCES[source]:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise Unavailable(
                f"{name} needs the package {package}, which is not installed", f"pip install 'edgewise[{source}]'"
            ) from None
    return found


def _revision() -> str:
    """Of this folder: a file made by an older exporter is not used."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()
