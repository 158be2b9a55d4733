"""Every error edgewise raises on purpose, and the exit code it leaves behind.

EdgewiseError
├── InputError         2   what the user gave cannot be used
├── Unavailable        3   an engine, device or package is not here
├── Unsupported        4   it is here, and does not do this
├── EngineFailure      5   a native library failed while doing it
│   ├── WorkerCrashed      ... and took its process with it
│   └── WorkerTimeout      ... or never came back
├── CheckFailed        6   the answer is wrong
└── StoreError         7   the store cannot be read or written

A message says what was found and what was expected; the hint is the command to type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class EdgewiseError(Exception):
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(EdgewiseError):
    exit_code = 2


class Unavailable(EdgewiseError):
    exit_code = 3


class Unsupported(EdgewiseError):
    exit_code = 4


class EngineFailure(EdgewiseError):
    exit_code = 5


class WorkerCrashed(EngineFailure):
    """The worker process died; `signal` and the last lines it wrote say how."""

    def __init__(self, message: str, hint: str | None = None, *, signal: int | None = None, stderr: str = "") -> None:
        super().__init__(message, hint)
        self.signal = signal
        self.stderr = stderr


class WorkerTimeout(EngineFailure):
    pass


class CheckFailed(EdgewiseError):
    exit_code = 6


class StoreError(EdgewiseError):
    exit_code = 7


_LONGEST = 400


def _tree(root: type[EdgewiseError]) -> dict[str, type[EdgewiseError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


BY_NAME: Mapping[str, type[EdgewiseError]] = _tree(EdgewiseError)


def describe(error: BaseException, doing: str) -> dict[str, Any]:
    """The JSON form in which an error leaves a worker. Foreign exceptions are converted here and only here."""
    if isinstance(error, EdgewiseError):
        return {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    if isinstance(error, MemoryError) or "bad_alloc" in str(error):
        return {
            "error": "EngineFailure",
            "message": f"out of memory while {doing}",
            "hint": "raise the limit with --memory, or try a smaller --batch",
        }
    # The beginning carries the reason; what follows is usually a native stack, or a list of every tensor.
    text = " ".join(str(error).split()) or repr(error)
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
    return {
        "error": "EngineFailure",
        "message": f"{type(error).__name__} while {doing}: {text}",
        "hint": None,
    }


def rebuild(form: Mapping[str, Any]) -> EdgewiseError:
    """The error that `describe` put into JSON."""
    kind = BY_NAME.get(str(form["error"]), EngineFailure)
    return kind(str(form["message"]), form.get("hint"))
