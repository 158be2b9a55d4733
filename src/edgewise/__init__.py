"""Find the fastest way to run your model on this device, know that it is true, and run it that way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from .select.chooser import Chooser

__version__ = "0.1.0"


def load(path: str | os.PathLike[str], *, batch: int = 1) -> Chooser:
    """A plan, to be asked about images in this process: `load("chooser.plan.json").predict("image.jpg")`.

    Its models are loaded when they are first asked, for `batch` images at a time.
    """
    # Nothing is imported before: what only wants the version must not wait for it.
    from .study.choosers import load as opened

    return opened(path, batch=batch)
