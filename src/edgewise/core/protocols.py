"""What the parts of edgewise ask of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


# In the place of who worked on a frame: all of them did.
EVERYBODY = -1


class Delivered(Protocol):
    """A frame that came out of a stream: its number, who worked on it (the place among the placement's targets, or
    EVERYBODY), what passed from when it and all before it were begun until it came out, and its outputs, valid until
    the next is asked for."""

    @property
    def number(self) -> int: ...

    @property
    def who(self) -> int: ...

    @property
    def delay_ns(self) -> int: ...

    @property
    def outputs(self) -> Outputs: ...


@runtime_checkable
class Spread(Executable, Protocol):
    """An executable with further processes: their numbers, and what they took together at the most."""

    @property
    def pids(self) -> Sequence[int]: ...

    @property
    def peak_bytes(self) -> int | None: ...


@runtime_checkable
class Streams(Spread, Protocol):
    """One that works on several frames at once, and delivers in their order. `lost` has the reason of each process it
    goes on without."""

    @property
    def window(self) -> int: ...

    @property
    def lost(self) -> Sequence[Exception]: ...

    def stream(self, frames: Iterable[Feeds]) -> Iterator[Delivered]: ...


@runtime_checkable
class Chooses(Executable, Protocol):
    """One that takes images, as files or arrays, and says of each what it shows, which model said so, and why."""

    @property
    def guaranteed(self) -> bool | None:
        """Whether what was promised of it still applies; None: nothing was."""

    def predict(self, image: Any, *, top: int = 5) -> Any: ...

    def settle(self) -> None:
        """There are no more images: what is asked of all of them together is asked now."""


@runtime_checkable
class Binds(Protocol):
    """An executable that reads and writes where it is told."""

    def bind(self, inputs: Feeds, outputs: Mapping[str, Array]) -> Callable[[], object]:
        """A run from these arrays into those, which must stay where they are."""


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
