"""Every candidate asked about every image, in a worker of its own; whole rows of scores, kept part by part.

They are kept in the cache, by everything they depend on: who asks again, or goes on after an interruption, waits only
for what is not there.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.errors import EdgewiseError
from ..core.records import to_json
from ..core.types import Failure
from ..measure.cell import Session
from . import home
from .contenders import Contender

# Long enough to be cheap, short enough for progress, and to lose little.
_PART_S = 1.0
# Changes whenever what is kept is something else.
_MAKING = 1

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Scored:
    """The raw outputs for each image, and why there are none for some: "" for all others."""

    contender: Contender
    rows: NDArray[np.float32]
    reasons: tuple[str, ...]


def gather(contenders: Sequence[Contender], progress: Progress) -> list[Scored | Failure]:
    """One for each. `progress` hears who is asked, about how many images, and how many are answered."""
    return [_gathered(each, progress) for each in contenders]


def _gathered(contender: Contender, progress: Progress) -> Scored | Failure:
    indices, cell = contender.exam.indices, contender.cell
    folder = _folder(contender)
    kept = _kept(folder)
    done = sum(count for _, count in kept)
    progress(contender.name, len(indices), done)
    if done < len(indices):
        stage = "load"
        try:
            with Session(cell) as session:
                session.open()
                stage = "images"
                exam = contender.exam
                session.worker.call(
                    "begin_scoring",
                    model=to_json(cell.model),
                    data=exam.data,
                    labels=exam.labels,
                    preprocess=exam.preprocess,
                )
                # One at first: what a slow model takes for one is not known yet.
                count = 1
                while done < len(indices):
                    begin = time.monotonic()
                    wanted = list(indices[done : done + count])
                    path = folder / f"{done:09d}.npz"
                    session.worker.call("score", indices=wanted, path=str(path))
                    kept.append((path, len(wanted)))
                    done += len(wanted)
                    progress(contender.name, len(indices), done)
                    took = time.monotonic() - begin
                    count = max(1, int(min(4 * count, count * _PART_S / max(took, 1e-6))))
        except EdgewiseError as error:
            return Failure.of(error, cell.task, cell.machine, stage, cell.label)
    home.used(folder)
    return _read(contender, [path for path, _ in kept])


def _folder(contender: Contender) -> Path:
    cell, exam = contender.cell, contender.exam
    key = (_MAKING, cell.model.digest, cell.model.inputs, str(contender.target), cell.versions, cell.machine)
    digest = hashlib.sha256(repr((key, exam.digest, exam.preprocess)).encode()).hexdigest()[:24]
    folder = home.cache() / f"{digest}-scores"
    folder.mkdir(exist_ok=True)
    return home.used(folder)


def _kept(folder: Path) -> list[tuple[Path, int]]:
    """The parts there are from the first on, without a gap: where each begins is its name."""
    found: list[tuple[Path, int]] = []
    done = 0
    for path in sorted(folder.glob("*.npz")):
        if path.stem != f"{done:09d}":
            break
        try:
            with np.load(path, allow_pickle=False) as part:
                count = len(part["reasons"])
        except (OSError, ValueError, KeyError):
            break
        found.append((path, count))
        done += count
    return found


def _read(contender: Contender, paths: Sequence[Path]) -> Scored:
    rows: list[NDArray[np.float32]] = []
    reasons: list[str] = []
    for path in paths:
        with np.load(path, allow_pickle=False) as part:
            rows.append(part["rows"])
            reasons += [str(reason) for reason in part["reasons"]]
    width = max(each.shape[1] for each in rows)
    # A part in which no image could be read does not know how many outputs there are.
    whole = [each if each.shape[1] else np.full((len(each), width), np.nan, np.float32) for each in rows]
    return Scored(contender, np.concatenate(whole), tuple(reasons))
