"""A chooser at work: a policy says which model to ask next, the models are loaded when they are first asked."""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from ..core import registry
from ..core.chooser import HINT, Answer, Held, Loadable, Ready
from ..core.errors import InputError
from ..core.protocols import Executable, Feeds
from ..core.records import from_json
from ..data import arrays, files
from ..data.dataset import Image
from ..data.preprocess import Batch
from ..measure.asking import Asking
from ..parallel import opening
from ..system import meters
from . import drift
from .course import Course, answered, begun, followed, packed
from .policy import Policy
from .table import Scores

# What a policy learned is small; a plan somebody sends must not fill the memory of who opens it.
LARGEST_BYTES = 256 << 20
# A file, or what is in it: height, width, 3, of 8 bits.
Picture = str | os.PathLike[str] | Image


class Chooser:
    """Opened from a plan by `edgewise.load`. It runs where it is: processes that a target's cores ask for, and time
    limits, are for `edgewise run` and `edgewise bench`. With `in_any_order`, whether images are still like those of the
    promise is asked of all of them at the end (`settle`), in an order drawn by lot: files come by name, one class after
    another, and that order is no change. Models are loaded as `among` several of one process, unless the policy asks
    one only."""

    def __init__(self, ready: Ready, *, in_any_order: bool = False, among: bool = False) -> None:
        self._ready = ready
        self._policy = policy_of(ready)
        self._among = among or len(self._policy.candidates) > 1
        self._open: dict[int, Executable] = {}
        self._asking: dict[int, Asking] = {}
        self._held: dict[int, int | None] = {}
        self._closed = False
        self._loading_ns = 0
        watched = (ready.guarantee or {}).get("monitor")
        if watched is not None and not isinstance(watched, Mapping):
            raise InputError(f"the monitor of the plan's guarantee is {watched!r:.80}, expected its state", HINT)
        self._monitor = drift.load(watched) if watched is not None else None
        self._waiting: list[float] | None = [] if in_any_order else None

    @property
    def guaranteed(self) -> bool | None:
        """Whether images still look like those that what was promised was shown on; None: nothing was promised."""
        return None if self._monitor is None else not self._monitor.alarmed

    def settle(self) -> None:
        """There are no more images: what waited for the last of them is looked at."""
        if self._monitor is not None and self._waiting:
            random.Random(0).shuffle(self._waiting)
            for value in self._waiting:
                self._monitor.see(value)
            self._waiting.clear()

    @property
    def classes(self) -> tuple[str, ...]:
        return self._ready.classes

    @property
    def candidates(self) -> tuple[str, ...]:
        """Those that the policy may ask, by name."""
        return tuple(self._ready.members[place].name for place in self._policy.candidates)

    @property
    def memory(self) -> tuple[Held, ...]:
        """What each of them takes."""
        return tuple(self._memory(place) for place in self._policy.candidates)

    @overload
    def predict(self, image: Picture, *, top: int = 5) -> Answer: ...

    @overload
    def predict(self, image: list[Any] | tuple[Any, ...], *, top: int = 5) -> list[Answer]: ...

    def predict(self, image: Picture | list[Any] | tuple[Any, ...], *, top: int = 5) -> Answer | list[Answer]:
        """The class of an image, or of each of several: those go together to the models that are asked about them, and
        share the time it took. Files are decoded before the clock starts, and it stops while a model is loaded."""
        many = isinstance(image, (list, tuple)) or (isinstance(image, np.ndarray) and image.ndim == 4)
        given = [_picture(each) for each in image] if many else [_picture(image)]  # type: ignore[union-attr]
        loading, begin = self._loading_ns, time.perf_counter_ns()
        courses = self._courses(given)
        spent = time.perf_counter_ns() - begin - (self._loading_ns - loading)
        took = spent // max(1, len(given))
        answers = [self._answer(course, took, top) for course in courses]
        return answers if many else answers[0]

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """As an Executable: `images` are of 8 bits, number x height x width x 3; what comes out says `packed`."""
        courses = self._courses([_picture(image) for image in feeds["images"]])
        return packed(courses, len(self._ready.members), self._ready.outputs)

    def load(self) -> None:
        """Every model that the policy may ask, now rather than when it is first asked."""
        for place in self._policy.candidates:
            self.asking(place)

    def close(self) -> None:
        self._closed = True
        self._asking.clear()
        while self._open:
            self._open.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _courses(self, given: Sequence[Image]) -> list[Course]:
        if self._closed:
            raise InputError("this chooser is closed", "edgewise.load(PLAN)")
        courses = [self._alone(given[0])] if len(given) == 1 else self._together(given)
        if self._monitor is not None:
            for course in courses:
                value = drift.signal(len(course.ran), course.decision.confidence or 0.0)
                if self._waiting is None:
                    self._monitor.see(value)
                else:
                    self._waiting.append(value)
        return courses

    def _alone(self, image: Image) -> Course:
        """One image, prepared once for all candidates that take it alike."""
        prepared: dict[str, Batch] = {}

        def ask(candidate: int) -> Scores:
            asking, how = self.asking(candidate), self._ready.members[candidate].preprocess
            if how not in prepared:
                prepared[how] = asking.prepared(image)
            row: Scores = asking.rows([prepared[how]])[0]
            return row

        return followed(self._policy, self._features(image), ask)

    def _together(self, given: Sequence[Image]) -> list[Course]:
        """All images to their ends, in turns: those that wait for the same candidate are asked about together."""
        courses = [begun(self._policy, self._features(image)) for image in given]
        prepared: dict[tuple[int, str], Batch] = {}
        while True:
            groups: dict[int, list[int]] = {}
            for place, course in enumerate(courses):
                if course.decision.run is not None:
                    groups.setdefault(course.decision.run, []).append(place)
            if not groups:
                return courses
            for candidate, places in groups.items():
                found = self._rows(candidate, places, given, prepared)
                for place, row in zip(places, found, strict=True):
                    answered(courses[place], self._policy, candidate, row)

    def _features(self, image: Image) -> NDArray[np.float64] | None:
        if not self._policy.uses_features:
            return None
        from .features import NAMES, extract

        # A policy that says which it looks at need not wait for the others.
        return extract(image, only=tuple(getattr(self._policy, "features", NAMES)))

    def _rows(
        self, candidate: int, places: Sequence[int], given: Sequence[Image], prepared: dict[tuple[int, str], Batch]
    ) -> Scores:
        """A row for each of `places`. An image is prepared once for all candidates that take it alike."""
        asking, how = self.asking(candidate), self._ready.members[candidate].preprocess
        found = []
        for first in range(0, len(places), asking.batch):
            chunk = places[first : first + asking.batch]
            for place in chunk:
                if (place, how) not in prepared:
                    prepared[place, how] = asking.prepared(given[place])
            found.append(asking.rows([prepared[place, how] for place in chunk]))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def asking(self, place: int) -> Asking:
        """A candidate by itself, loaded."""
        if place not in self._asking:
            member, executable = self._ready.members[place], self._executable(place)
            self._asking[place] = Asking(
                executable,
                member.model,
                member.preprocess,
                member.name,
                probabilities=member.probabilities,
                classes=self._ready.outputs,
            )
        return self._asking[place]

    def _executable(self, place: int) -> Executable:
        if place not in self._open:
            if self._closed:
                raise InputError("this chooser is closed", "edgewise.load(PLAN)")
            begin = time.perf_counter_ns()
            member = self._ready.members[place]
            _import(member)
            before = meters.rss_bytes()
            self._open[place] = opening.opened(member.model, member.target, among=self._among)
            after = meters.rss_bytes()
            self._held[place] = None if before is None or after is None else max(0, after - before)
            self._loading_ns += time.perf_counter_ns() - begin
        return self._open[place]

    def _memory(self, place: int) -> Held:
        member = self._ready.members[place]
        loaded = place in self._open
        return Held(member.name, loaded, self._held[place] if loaded else member.memory_bytes)

    def _answer(self, course: Course, took_ns: int, top: int) -> Answer:
        decision = course.decision
        asked = tuple(self._ready.members[place].name for place in course.ran)
        if decision.scores is None:
            return Answer(None, "", decision.confidence, None, asked, decision.why, took_ns)
        places = np.argsort(-decision.scores, kind="stable")[:top]
        ranked = tuple((int(place), float(np.exp(decision.scores[place]))) for place in places)
        label = ranked[0][0] if ranked else int(decision.scores.argmax())
        name = self.classes[label] if label < len(self.classes) else f"class {label}"
        last = asked[-1] if asked else None
        return Answer(label, name, decision.confidence, last, asked, decision.why, took_ns, ranked)


def opened(ready: Mapping[str, Any], *, measured: bool = True) -> Chooser:
    """In a worker, of a `Ready` as JSON. Where it is `measured` everything is loaded, since loading is not what is; a
    user's images load what they need."""
    chooser = Chooser(from_json(Ready, ready), in_any_order=not measured)
    if measured:
        chooser.load()
    return chooser


def policy_of(ready: Ready) -> Policy:
    """The policy of a plan, once its file is found to be the one it was written with."""
    if ready.policy not in registry.names("select.policies"):
        known = ", ".join(registry.names("select.policies"))
        raise InputError(f"the plan chooses by {ready.policy!r}, which is not known here; known: {known}", HINT)
    stored: dict[str, NDArray[Any]] = {}
    if ready.arrays is not None:
        file = Path(ready.arrays)
        if not file.is_file():
            raise InputError(f"the plan's arrays {file} are not there", HINT)
        stored = _stored(file, ready.sha256)
    try:
        policy: Policy = registry.find("select.policies", ready.policy).load(ready.fields, stored)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"the plan's {ready.policy} is not one: {type(error).__name__}: {error}", HINT) from None
    there = range(len(ready.members))
    wrong = [place for place in policy.candidates if not isinstance(place, int) or place not in there]
    if wrong:
        raise InputError(f"the plan chooses candidate {wrong[0]!r}, and there are {len(ready.members)}", HINT)
    classes = getattr(policy, "classes", ready.outputs)
    if ready.outputs and classes != ready.outputs:
        raise InputError(f"the plan's {ready.policy} is of {classes} classes, and the plan of {ready.outputs}", HINT)
    return policy


def _stored(file: Path, sha256: str | None) -> dict[str, NDArray[Any]]:
    size = file.stat().st_size
    if size > LARGEST_BYTES:
        raise InputError(f"{file} has {size} bytes, and {LARGEST_BYTES} are the most a plan's arrays have", HINT)
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise InputError(f"{file} is not what the plan was written with: its SHA-256 differs", HINT)
    stored: dict[str, NDArray[Any]] = {}
    left = LARGEST_BYTES
    for name in arrays.names(file, HINT):
        # Packed, they are larger than their file.
        stored[name] = arrays.member(file, name, HINT, left)
        left -= stored[name].nbytes
    return stored


def _import(member: Loadable) -> None:
    """The engine's library first, so that a model is not charged with its memory."""
    engine = registry.find("engines", member.target.engine)
    if hasattr(engine, "environment"):
        os.environ.update(engine.environment(member.target))
    engine.version()


def _picture(given: Any) -> Image:
    if isinstance(given, (str, os.PathLike)):
        return files.decode(Path(given))
    found = np.asarray(given)
    if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3 or not found.size:
        shape = "x".join(map(str, found.shape)) or "a single value"
        raise InputError(
            f"an image is uint8, height x width x 3, found {found.dtype} {shape}", "predict(PATH or array)"
        )
    return found
