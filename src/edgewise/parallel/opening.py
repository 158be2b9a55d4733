"""Pieces of a model: the folder they lie in until all are loaded, and each on its target, in the process it runs in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import engines
from ..core import registry
from ..core.protocols import Executable
from ..core.types import Model, Target


@contextmanager
def pieces_of(executable: Executable) -> Iterator[Path]:
    """A folder for what is cut. It is gone when all is loaded, since a process that is ended from outside could not
    remove it any more; and what was opened of `executable` is closed if that fails."""
    try:
        with tempfile.TemporaryDirectory(prefix="edgewise-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except BaseException:
        executable.close()
        raise


def settle(target: Target) -> None:
    """What an engine reads from the environment when its library is imported: to be set before that."""
    engine = registry.find("engines", target.engine)
    if hasattr(engine, "environment"):
        os.environ.update(engine.environment(target))


def opened(model: Model, target: Target, *, among: bool = False) -> Executable:
    """Loaded, as one `among` several of this process or by itself; an engine that does not read ONNX gets the piece in
    its own format, in a folder beside it, which goes when whoever cut the model removes its own."""
    engine = registry.find("engines", target.engine)
    path = Path(model.path)
    if path.suffix == engines.ONNX and engines.ONNX not in engines.reads(engine):
        folder = tempfile.mkdtemp(prefix=f"{path.stem}-{target.engine}-", dir=path.parent)
        model = engines.converted(target.engine, model, target, folder)
    if among and hasattr(engine, "among"):
        target = engine.among(target)
    executable: Executable = engine.load(model, target)
    return executable
