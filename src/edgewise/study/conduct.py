"""A study under way: block after block until all is measured or the budget is spent, and what it knows of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..core.types import Failure, Measurement, Result
from ..measure.cell import Cell, Part
from ..measure.energy import Metered
from ..store.db import Store
from .request import Request
from .schedule import Course, Wanted
from .study import Study
from .sweep import finished, sweep

# Who hears of what is measured: the cell, how many visits are done, and a part (None: a visit begins).
Tell = Callable[[Cell | Failure, int, Part | None], None]


class Conduct:
    """`left` is what is still to do: visits by the number of the cell in `cells`."""

    def __init__(
        self, study: Study, request: Request, blocks: Sequence[Sequence[Wanted]], course: Course, store: Store
    ) -> None:
        self._study, self._request, self._blocks = study, request, blocks
        self._course, self._store = course, store
        self.cells = [cell for block in blocks for cell in block]
        self.visits = len(self.cells) * study.protocol.passes
        self.left = [study.protocol.passes] * len(self.cells)
        # Results that were there already.
        self.known = 0
        self._now: int | None = None
        self._began, self._heard = 0.0, False

    def results(self, tell: Tell, *, resume: bool, meters: Sequence[Metered] = ()) -> Iterator[Result]:
        first, there = 0, finished(self._store, self._request.machine.id, self._study.protocol.passes)
        for number, block in enumerate(self._blocks):
            place: dict[str, int] = {}

            def cells(
                of: Sequence[Wanted] = block, at: int = first, known: dict[str, int] = place
            ) -> Iterator[Cell | Result]:
                for offset, each in enumerate(of):
                    if resume:
                        made = self._request.cell_unless(there, each.model, each.placement, each.scenario)
                    else:
                        made = self._request.cell(each.model, each.placement, each.scenario)
                    known[made.task.digest] = at + offset
                    yield made

            def hear(cell: Cell | Result, _: int, part: Part | None, known: dict[str, int] = place) -> None:
                at = known[cell.task.digest]
                if part is None:
                    self._turn(at)
                self._heard |= part is not None
                # Nobody waits for what the store has.
                if not isinstance(cell, Measurement) and (part is not None or not self.cells[at].known):
                    tell(cell, self.visits - sum(self.left), part)

            for result in sweep(
                cells(),
                self._store,
                hear,
                resume=resume,
                meters=meters,
                passes=self._study.protocol.passes,
                seed=self._study.seed + number,
                go_on=lambda: not self._course.spent(),
            ):
                at = place[result.task.digest]
                if isinstance(result, Failure) or result.complete:
                    self.known += self.cells[at].known and not self._heard
                    self._settle()
                    self.left[at] = 0
                yield result
            self._settle()
            first += len(block)

    def _turn(self, to: int) -> None:
        """A visit ends, the next one begins."""
        self._settle()
        self._now, self._began, self._heard = to, self._course.clock(), False

    def _settle(self) -> None:
        if self._now is None:
            return
        at, self._now = self._now, None
        if self._heard:
            self._course.took(self.cells[at], self._course.clock() - self._began)
            self.left[at] = max(0, self.left[at] - 1)
        else:
            # Nothing was measured: it was there, or it failed, or another process is at it.
            self.left[at] = 0

    def left_s(self) -> float:
        """What the visits still to do are likely to take."""
        passes = self._study.protocol.passes
        todo = zip(self.cells, self.left, strict=True)
        return sum(self._course.cell_s(cell) * left / passes for cell, left in todo if left and not cell.known)

    def unmeasured(self) -> list[Wanted]:
        return [cell for cell, left in zip(self.cells, self.left, strict=True) if left]
