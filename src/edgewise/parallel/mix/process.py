"""The parent's hold on the process of one target of a mix."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.errors import EdgewiseError, WorkerCrashed, WorkerTimeout, rebuild
from ...core.records import from_json, to_json
from ...core.types import Model, Target
from ..memory import Form
from ..part import ANSWER, COUNT, FAILED
from ..process import Child

_FAREWELL_S = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """A target and what it is to hold: of every network the model as it loads it, with the target completed for it; or
    the reason why it does not get it."""

    target: Target
    cores: tuple[int, ...]
    networks: tuple[tuple[Model, Target] | str, ...]


class MixProcess(Child):
    """Begun when it is made; `opened` waits until it has loaded what it can."""

    def __init__(
        self, place: Place, without: Sequence[int], handed: Sequence[int], seed: int, memory_bytes: int | None
    ) -> None:
        super().__init__("edgewise.parallel.mix.part", str(place.target), handed)
        self.asked = [
            None if isinstance(each, str) or network in without else {"model": to_json(each[0]), "target": str(each[1])}
            for network, each in enumerate(place.networks)
        ]
        self.tell({"networks": self.asked, "cores": list(place.cores), "seed": seed, "memory_bytes": memory_bytes})

    def opened(self, timeout_s: float) -> tuple[dict[int, tuple[list[Form], list[Form]]], dict[int, str]]:
        """The forms of the networks it serves; of the others the reason. One that dies while loading, or hangs, has
        that network for a reason, and is gone."""
        forms, reasons = dict[int, tuple[list[Form], list[Form]]](), dict[int, str]()
        for network, asked in enumerate(self.asked):
            if asked is None:
                continue
            try:
                said = self.line(timeout_s, raw=True)
            except (WorkerCrashed, WorkerTimeout) as error:
                raise Stuck(network, error) from error
            if "error" in said:
                reasons[network] = rebuild(said).message
            else:
                taken, given = said["inputs"], said["outputs"]
                forms[network] = [from_json(Form, f) for f in taken], [from_json(Form, f) for f in given]
        return forms, reasons

    def attach(self, stay: Sequence[int], timeout_s: float) -> None:
        self.tell({"stay": list(stay)})
        self.line(timeout_s)

    def give(self, network: int) -> None:
        self.send(COUNT.pack(network))

    def answer(self) -> tuple[int, int] | None:
        """When the run began and ended; None where not all of it has come yet."""
        data = os.read(self.answers_fd, 1 << 12)
        if not data:
            raise self.died()
        self._buffer += data
        if len(self._buffer) < ANSWER.size:
            return None
        begin, end = ANSWER.unpack(self._buffer[: ANSWER.size])
        del self._buffer[: ANSWER.size]
        if begin == FAILED:
            raise self.told(self.line(_FAREWELL_S, raw=True))
        return begin, end

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Stuck(Exception):
    """A process that died or hung while it loaded a network."""

    def __init__(self, network: int, error: EdgewiseError) -> None:
        super().__init__(error.message)
        self.network, self.error = network, error
