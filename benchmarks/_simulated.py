"""Races whose processes are made up: driven by `study/race.py` itself, with known costs.

Each process is off by its candidate's spread for as long as it lives, its turns scatter by 3 % with a heavy tail, and
the machine's speed wanders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgewise.core.race import Wanted
from edgewise.core.types import Scenario
from edgewise.study import race as driver


class _Machine:
    """What all simulated processes share: chance, and a speed that wanders."""

    random = np.random.default_rng(0)
    speed = 0.0


class _Side:
    """Stands for `study.compare.Side`: a process that takes turns."""

    def __init__(self, cell: Any, store: object, study: str) -> None:
        self.cell = cell
        self.starts: list[Any] = []
        self.rounds: list[Any] = []
        self.energies: list[Any] = []
        self.failure = self.session = None

    def enter(self, *_: object) -> None:
        self.own = self.cell.cost + _Machine.random.normal(0, self.cell.spread)
        self.starts.append(None)

    def begin(self, *_: object) -> None: ...

    open = warm_up = begin

    def turn(self, round_ns: int, meters: object = ()) -> None:
        _Machine.speed += _Machine.random.normal(0, 0.02)
        noise = 0.03 * _Machine.random.standard_t(3) / math.sqrt(3)
        took = 1e6 * math.exp(self.own + _Machine.speed + noise)
        self.rounds.append(SimpleNamespace(samples_ns=(took,), elapsed_ns=took))

    def measured(self) -> Any:
        return SimpleNamespace(peak_bytes=None)


def simulate(replace: Callable[[object, str, object], None] = setattr) -> None:
    """From here on the driver's processes are made up."""
    replace(driver, "Side", _Side)
    replace(driver, "shared_cores", lambda cells, index: ())
    replace(driver, "trust", SimpleNamespace(wrong=lambda measured: False))


def race(seed: int, costs: Sequence[float], spreads: Sequence[float]) -> tuple[driver.Heats, list[driver.Contender]]:
    """A race, and its candidates in the order of `costs`, which are logarithms; in the race it is another."""
    _Machine.random, _Machine.speed = np.random.default_rng(seed), 0.0
    places = [int(place) for place in _Machine.random.permutation(len(costs))]
    task = SimpleNamespace(scenario=Scenario(), placement="simulated")
    cells: list[Any] = [SimpleNamespace(cost=costs[p], spread=spreads[p], task=task) for p in places]
    found = driver.Heats(cells, None, Wanted(), lambda *_: None, seed=seed)  # type: ignore[arg-type]
    found.screen()
    found.decide()
    assert found.best is not None
    return found, [found.contenders[places.index(number)] for number in range(len(costs))]
