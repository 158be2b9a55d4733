"""The files a model lies in, and a copy of it: parsed here, so for a worker."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..core.errors import InputError
from .load import external_files

# What a copy calls the weights that lie beside it.
DATA = ".data"


def files(path: str) -> list[str]:
    """The model's own file, and those its weights lie in."""
    import onnx

    own = Path(path)
    return [path, *map(str, external_files(onnx.load(path, load_external_data=False), own))]


def copy(source: str, path: str) -> None:
    """The model at `source` once more at `path`, under its name only when all of it is there. Weights that lie beside
    the one come to lie beside the other."""
    import onnx

    target = Path(path)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            part = Path(folder) / target.name
            if len(files(source)) == 1:
                shutil.copyfile(source, part)
            else:
                data = target.with_name(f"{target.name}{DATA}")
                onnx.save_model(onnx.load(source), str(part), save_as_external_data=True, location=data.name)
                if (written := part.with_name(data.name)).exists():
                    written.replace(data)
            part.replace(target)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}", "-o MODEL.onnx") from None
