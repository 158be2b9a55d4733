"""What the parts of edgewise ask of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .profile import OpTime, Spans
from .types import Device, Model, Ran, Target

Array = NDArray[Any]
Feeds = Mapping[str, Array]
Outputs = Mapping[str, np.ndarray[Any, Any]]


@runtime_checkable
class Executable(Protocol):
    """Anything that runs. `run` returns when the outputs are readable on the host; `close` is idempotent."""

    def run(self, feeds: Feeds) -> Outputs: ...

    def close(self) -> None: ...


@runtime_checkable
class Reports(Protocol):
    """An executable that can say what it is really running."""

    def ran(self) -> Ran: ...


@runtime_checkable
class Profiled(Executable, Protocol):
    """An instrumented executable: what each operator took, and whole runs, over all runs since it was opened."""

    def ops(self) -> Sequence[OpTime]: ...

    def spans(self) -> Spans: ...


class Engine(Protocol):
    """An engine is a module with these three functions; further functions are further abilities."""

    def version(self) -> str: ...

    def devices(self) -> Sequence[Device]: ...

    def load(self, model: Model, target: Target) -> Executable: ...
