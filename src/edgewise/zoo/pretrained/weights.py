"""Files of weights: fetched within a bounded time, checked against their names, and never unpickled as programs."""

from __future__ import annotations

import hashlib
import os
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...core.errors import CheckFailed, Unavailable

# For one answer of a server, not for a whole file.
_TIMEOUT_S = 15.0


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Inside, whatever calls `torch.load` gets tensors or an error, and no connection waits for ever."""
    # Most .pth files are pickles, and a pickle is a program; torchvision leaves the choice to torch.hub, which runs it.
    variables = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}
    before = {variable: os.environ.get(variable) for variable in variables}
    timeout = socket.getdefaulttimeout()
    os.environ.update(variables)
    socket.setdefaulttimeout(_TIMEOUT_S)
    try:
        yield
    except Exception as error:
        # By its name: the module that defines it is one nothing here imports.
        if type(error).__name__ != "UnpicklingError":
            raise
        reason = str(error).strip().splitlines()[0]
        raise CheckFailed(f"the weights of {name} hold more than weights, and were not loaded: {reason}") from None
    finally:
        socket.setdefaulttimeout(timeout)
        for variable, value in before.items():
            if value is None:
                del os.environ[variable]
            else:
                os.environ[variable] = value


def from_url(name: str, url: str) -> Path:
    """The file in PyTorch's cache, fetched where it is not there; its digest is what its name says."""
    from torch import hub

    folder = Path(hub.get_dir()) / "checkpoints"
    file = folder / Path(urllib.parse.urlparse(url).path).name
    said = hub.HASH_REGEX.search(file.name)
    begins = said[1] if said else ""
    if not file.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            hub.download_url_to_file(url, str(file), begins, progress=False)
        except OSError as error:  # URLError and time-outs are such
            raise missing(name, url, error, f"copy {file.name} to {folder}") from None
        except RuntimeError as error:
            raise CheckFailed(f"{url} did not give the weights of {name}: {error}", "try again later") from None
    # PyTorch checks what it downloads, but takes what lies in the cache as it is.
    elif not (found := _sha256(file)).startswith(begins):
        raise CheckFailed(
            f"{file} is not the file {name} asks for: its SHA-256 begins with {found[:8]}, expected {begins}",
            f"remove {file}, and run it again",
        )
    return file


def missing(name: str, url: str, reason: object, remedy: str) -> Unavailable:
    alone = name.partition("@")[0]
    return Unavailable(
        f"the weights of {name} are not on this machine, and {url} did not give them: {reason}",
        f"{remedy}, or use random weights: {alone}@random",
    )


def reachable(url: str) -> None:
    """Raise OSError where nobody answers. Any answer will do."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        error.close()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
