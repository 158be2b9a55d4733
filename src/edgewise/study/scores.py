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

from ..core.errors import EdgewiseError, StoreError
from ..core.records import to_json
from ..core.types import Failure
from ..data import arrays
from ..measure.cell import Session
from . import home
from .contenders import Contender

# Long enough to be cheap, short enough for progress, and to lose little.
_PART_S = 1.0
# Changes whenever what is kept is something else.
_MAKING = 2

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class _Part:
    rows: NDArray[np.float32]
    reasons: tuple[str, ...]


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
    kept = _kept(folder, len(indices))
    done = sum(len(part.reasons) for part in kept)
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
                    path = folder / f"{done:09d}-{len(wanted)}.npz"
                    session.worker.call("score", indices=wanted, path=str(path))
                    part = _part(path, len(wanted))
                    if part is None:
                        raise StoreError(f"{path} cannot be read back", "set XDG_CACHE_HOME to another folder")
                    kept.append(part)
                    done += len(wanted)
                    progress(contender.name, len(indices), done)
                    took = time.monotonic() - begin
                    count = max(1, int(min(4 * count, count * _PART_S / max(took, 1e-6))))
        except EdgewiseError as error:
            return Failure.of(error, cell.task, cell.machine, stage, cell.label)
    home.used(folder)
    return _joined(contender, kept)


def _folder(contender: Contender) -> Path:
    cell, exam = contender.cell, contender.exam
    key = (_MAKING, cell.model.digest, cell.model.inputs, str(contender.target), cell.versions, cell.machine)
    digest = hashlib.sha256(repr((key, exam.digest, exam.preprocess)).encode()).hexdigest()[:24]
    folder = home.cache() / f"{digest}-scores"
    folder.mkdir(exist_ok=True)
    return home.used(folder)


def _kept(folder: Path, images: int) -> list[_Part]:
    """The parts there are from the first on, without a gap. Where each begins and how long it is is in its name: two
    commands that ask at the same time write parts of different lengths, and each goes on from its own. Of several that
    begin at the same image the longest that can be read is taken."""
    starts: dict[int, list[tuple[int, Path]]] = {}
    for path in folder.glob("*-*.npz"):
        first, _, count = path.stem.partition("-")
        if first.isdecimal() and count.isdecimal():
            starts.setdefault(int(first), []).append((int(count), path))
    found: list[_Part] = []
    done = 0
    while done < images:
        longest = sorted((each for each in starts.get(done, []) if 0 < each[0] <= images - done), reverse=True)
        part = next((part for count, path in longest if (part := _part(path, count)) is not None), None)
        if part is None:
            break
        found.append(part)
        done += len(part.reasons)
    return found


def _part(path: Path, count: int) -> _Part | None:
    """None where it is broken, or not of so many images: then they are asked about again."""
    try:
        # Opened here: numpy leaves a file that is broken open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as part:
            rows, reasons = part["rows"], tuple(str(reason) for reason in part["reasons"])
    except (*arrays.BROKEN, KeyError):
        return None
    return _Part(rows, reasons) if rows.ndim == 2 and len(rows) == len(reasons) == count else None


def _joined(contender: Contender, parts: Sequence[_Part]) -> Scored:
    width = max(part.rows.shape[1] for part in parts)
    # A part in which no image could be read does not know how many outputs there are.
    whole = [
        part.rows if part.rows.shape[1] else np.full((len(part.rows), width), np.nan, np.float32) for part in parts
    ]
    return Scored(contender, np.concatenate(whole), tuple(reason for part in parts for reason in part.reasons))
