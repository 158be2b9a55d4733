"""The premodel of the adaptive model selection paper: what an image looks like says which candidate to ask.

Candidates are picked by `subset` and stand in a chain. Each level of it answers "is this its image?", learned from the
training images for which that candidate is the cheapest that is right; the first yes decides. Where no level says yes,
the most accurate candidate is asked, or nobody. Levels of nearest neighbours share them: they are looked for once. A
convolutional network looks at a thumbnail of the image, and the others at its features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from .. import levels as chains
from ..features import NAMES, THUMBNAIL
from ..features.reduce import PIXELS
from ..neighbours import Known, known
from ..policy import REFUSED, Decision, Replayed
from ..subset import THETA
from ..table import Flags, Scores, Table, hits
from ..thinning import Scale, scale_of
from ..worth import K, cast, features_of, thumbnails_of, trial_of, worth

# Why a candidate is asked, or nobody.
CHOSEN = "chosen"
OTHERWISE = "otherwise"
STRANGE = "strange"


@dataclass(frozen=True, slots=True)
class Premodel:
    """`chain`: the candidate of each level; `levels`: what decides there; `default`: who is asked where no level says
    yes, or None. `farthest`: an image whose neighbours are farther away (root of the mean square) is not like those of
    training, and no level is asked; None: none is too far. `known`: the training images; `owners`: the level of each,
    past the last where it is nobody's. `features`: those looked at, and last the thumbnail where a level does."""

    features: tuple[str, ...]
    scale: Scale
    chain: tuple[int, ...]
    levels: tuple[chains.Level, ...]
    default: int | None
    k: int
    farthest: float | None
    known: Known
    owners: tuple[int, ...]
    kind: ClassVar[str] = "premodel"

    @property
    def uses_features(self) -> bool:
        return True

    @property
    def looks_at_neighbours(self) -> bool:
        return self.farthest is not None or any(level is None for level in self.levels)

    @property
    def candidates(self) -> Sequence[int]:
        others = () if self.default is None else (self.default,)
        return tuple(dict.fromkeys((*self.chain, *others)))

    def begin(self, features: NDArray[np.float64] | None) -> Decision:
        if features is None:
            raise InputError("the premodel decides by the features of an image, and was given none")
        if THUMBNAIL in self.features and len(features) != len(NAMES) + PIXELS:
            raise InputError("this premodel decides by a thumbnail of an image, and was given none")
        point = self.scale.one(features.take(_places(self.features)))
        counts = [0] * (len(self.chain) + 1)
        if self.looks_at_neighbours:
            near = self.known.nearest(point, self.k)
            if self.farthest is not None and _far(self.known, point, near) > self.farthest:
                return Decision(self.default, why=STRANGE)
            for row in near:
                counts[self.owners[row]] += 1
        for place, level in enumerate(self.levels):
            if level is None:
                yes = 2 * counts[place] > self.k
            else:
                points = np.array([point], np.float32)
                yes = bool(chains.answers(level, points, features[None, len(NAMES) :])[0])
            if yes:
                return Decision(self.chain[place], why=CHOSEN)
        return Decision(self.default, why=OTHERWISE)

    def after(self, ran: Sequence[int], scores: Sequence[Scores]) -> Decision:
        return Decision(None, scores[-1], float(np.exp(np.float64(scores[-1].max()))), CHOSEN)

    def replay(self, table: Table, *, top: int = 1) -> Replayed:
        level = self._decide(table)
        last = np.array([*self.chain, REFUSED if self.default is None else self.default])[level]
        ran = last[:, None] == np.arange(len(table.candidates))
        answers = np.full(len(table), REFUSED)
        confidence = np.zeros(len(table))
        right = np.zeros(len(table), np.bool_)
        for candidate in self.candidates:
            own = ran[:, candidate]
            scores = table.scores[candidate][own]
            answers[own] = scores.argmax(axis=1)
            confidence[own] = np.exp(scores.max(axis=1).astype(np.float64))
            right[own] = hits(scores, table.labels[own], top)
        return Replayed(answers, ran, last, confidence, right)

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        fields = {
            "features": list(self.features),
            "chain": list(self.chain),
            "levels": [chains.kind_of(level) for level in self.levels],
            "default": self.default,
            "k": self.k,
            "farthest": self.farthest,
        }
        arrays = chains.arrays_of(self.levels)
        arrays |= {
            "low": self.scale.low,
            "span": self.scale.span,
            "columns": self.known.columns,
            "labels": self._labels,
        }
        return fields, arrays

    def _decide(self, table: Table) -> NDArray[np.intp]:
        """The level that decides for each image; as many as there are where none does."""
        own = _chosen(table, self.features)
        points, thumbnails = self.scale(own), _thumbnails(table, self.features)
        votes = np.zeros((len(self.chain), len(points)), np.bool_)
        strange = np.zeros(len(points), np.bool_)
        if self.looks_at_neighbours:
            exactly = self.scale.exactly(own).tolist()
            found = [self.known.nearest(point, self.k) for point in exactly]
            if self.farthest is not None:
                far = [_far(self.known, point, near) for point, near in zip(exactly, found, strict=True)]
                strange = np.array(far) > self.farthest
            # For all levels at once; those that decide otherwise overwrite it.
            votes = 2 * self._labels[:, np.array(found, np.intp).reshape(-1, self.k)].sum(axis=2) > self.k
        for place, level in enumerate(self.levels):
            if level is not None:
                votes[place] = chains.answers(level, points, thumbnails)
        votes[:, strange] = False
        return chains.deciding(votes)

    @property
    def _labels(self) -> Flags:
        """For each level (row) the training images that are its own."""
        labels: Flags = np.array(self.owners) == np.arange(len(self.chain))[:, None]
        return labels


def fit(
    table: Table,
    *,
    top: int = 1,
    theta: float = THETA,
    k: int = K,
    levels: str = "knn",
    otherwise: str = "best",
    sound: float = 1.0,
    features: Sequence[str] | None = None,
    count: int | None = None,
    objective: str = "time",
    seed: int = 0,
) -> Premodel:
    """By what an image looks like. `levels`: what decides at all levels (knn, tree, svm or cnn), or one for each
    (knn+tree; the last one goes on where the chain is longer). `k`: the neighbours that are asked. `otherwise`: where
    no level says yes, the best candidate is asked, or nobody (refuse). `sound`: the share of training images that are
    not strange; at images farther away no level is asked. `features`: their names (hue1+contrast); unless named,
    those that are worth it, found as the paper does. A candidate takes part where it wins more than the share
    `theta` of the images; `count`: so many take part, whatever they win."""
    check(theta=theta, k=k, levels=levels, otherwise=otherwise, sound=sound, features=features, count=count)
    if top < 1:
        raise InputError(f"the label is looked for among the first one or more, found top = {top}")
    if k > len(table) - 2:
        raise InputError(f"{k} neighbours are looked for among the training images, of which there are {len(table)}")
    taking = cast(table, top=top, theta=theta, count=count, objective=objective)
    kinds = chains.kinds_of(levels, len(taking.chain))
    names: tuple[str, ...] = ()
    # Networks by themselves need no features: none are looked at, and none paid for.
    if sound < 1 or set(kinds) != {"cnn"}:
        if features is None:
            names = worth(table, trial_of(table, taking, k=k, otherwise=otherwise, seed=seed))
        else:
            names = _given(features)
    if "cnn" in kinds:
        names = (*names, THUMBNAIL)
    own = _chosen(table, names)
    scale = scale_of(own)
    points, thumbnails = scale(own), _thumbnails(table, names)
    learned = tuple(
        chains.learn(kind, points, thumbnails, yes, seed) for kind, yes in zip(kinds, taking.labels, strict=True)
    )
    images = known(np.ascontiguousarray(points.T))
    farthest = None if sound == 1.0 else _farthest(images, scale.exactly(own).tolist(), k, sound)
    default = taking.best if otherwise == "best" else None
    owners = tuple(chains.deciding(taking.labels).tolist())
    return Premodel(names, scale, taking.chain, learned, default, k, farthest, images, owners)


def check(
    *,
    theta: float,
    k: int,
    levels: str,
    otherwise: str,
    sound: float,
    features: Sequence[str] | None,
    count: int | None,
) -> None:
    """What no table makes sense of is refused."""
    chains.kinds_of(levels, 1)
    if not 0 <= theta < 1:
        raise InputError(f"theta is a share of the images, from 0 to below 1; found {theta:g}")
    if k < 1:
        raise InputError(f"k is how many neighbours are asked, one or more; found {k}")
    if otherwise not in ("best", "refuse"):
        raise InputError(f"where no level says yes, best is asked or refuse said; found {otherwise!r}")
    if not 0 < sound <= 1:
        raise InputError(f"sound is a share of the training images, above 0 and up to 1; found {sound}")
    if features is not None:
        _given(features)
    if count is not None and count < 1:
        raise InputError(f"one candidate or more takes part, found count = {count}")


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Premodel:
    """All of it is checked: whatever passes decides for any image."""
    names = tuple(_list(fields, "features", str))
    chain = tuple(_list(fields, "chain", int))
    kinds = _list(fields, "levels", str)
    default, k, farthest = fields.get("default"), fields.get("k"), fields.get("farthest")
    if not chain or min(chain) < 0 or len(set(chain)) < len(chain):
        raise InputError(f"a premodel's chain names candidates by their places, each once; found {list(chain)}")
    if len(kinds) != len(chain) or not set(kinds) <= set(chains.KINDS):
        raise InputError(f"a premodel has a level for each of {len(chain)} candidates, found {kinds}")
    looking = _given(names[:-1] if "cnn" in kinds else names, least=int(set(kinds) != {"cnn"} or farthest is not None))
    if "cnn" in kinds and names[-1:] != (THUMBNAIL,):
        raise InputError(f"a premodel with a convolutional network looks at a thumbnail last, found {list(names)}")
    if default is not None and (type(default) is not int or default < 0):
        raise InputError(f"a premodel's default is a candidate's place or none, found {default!r}")
    if farthest is not None and (type(farthest) is not float or not 0 <= farthest < np.inf):
        raise InputError(f"a premodel's farthest distance is a number or none, found {farthest!r}")
    columns = np.ascontiguousarray(_array(arrays, "columns", np.float32, 2))
    rows = columns.shape[1]
    if type(k) is not int or not 1 <= k < rows:
        raise InputError(f"a premodel looks at some of its {rows} images, found k = {k!r}")
    labels = _array(arrays, "labels", np.bool_, 2)
    low, span = _array(arrays, "low", np.float64, 1), _array(arrays, "span", np.float64, 1)
    shapes = [columns.shape, labels.shape, low.shape, span.shape]
    count = len(looking)
    if shapes != [(count, rows), (len(chain), rows), (count,), (count,)] or not (span > 0).all():
        raise InputError(f"a premodel of {count} features and {len(chain)} levels with arrays of shapes {shapes}")
    learned = tuple(chains.load(kind, place, arrays, count) for place, kind in enumerate(kinds))
    owners = tuple(chains.deciding(labels).tolist())
    return Premodel(names, Scale(low, span), chain, learned, default, k, farthest, known(columns), owners)


def _given(names: Sequence[str], least: int = 1) -> tuple[str, ...]:
    if len(names) < least or len(set(names)) < len(names) or not set(names) <= set(NAMES):
        raise InputError(f"features are some of {', '.join(NAMES)}, each once; found {', '.join(names) or 'none'}")
    return tuple(names)


@cache
def _places(names: tuple[str, ...]) -> NDArray[np.intp]:
    """In a row, but for the thumbnail, which is behind them."""
    return np.array([NAMES.index(name) for name in names if name != THUMBNAIL], np.intp)


def _chosen(table: Table, names: tuple[str, ...]) -> NDArray[np.float64]:
    places = _places(names)
    return features_of(table)[:, places] if len(places) else np.empty((len(table), 0))


def _thumbnails(table: Table, names: tuple[str, ...]) -> NDArray[np.uint8]:
    return thumbnails_of(table) if THUMBNAIL in names else np.empty((len(table), 0), np.uint8)


def _far(images: Known, point: Sequence[float], near: Sequence[int]) -> float:
    """The root of the mean square distance to the neighbours."""
    return math.hypot(*images.distances(point, near)) / math.sqrt(len(near))


def _farthest(images: Known, points: Sequence[Sequence[float]], k: int, sound: float) -> float:
    # Each training image is its own nearest neighbour, at next to no distance: one more is looked for in its place.
    more = math.sqrt((k + 1) / k)
    return float(np.quantile([more * _far(images, point, images.nearest(point, k + 1)) for point in points], sound))


def _list(fields: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    found = fields.get(name)
    if not isinstance(found, list) or not all(type(each) is kind for each in found):
        raise InputError(f"a premodel's {name} is a list, found {found!r}")
    return found


def _array(arrays: Mapping[str, NDArray[Any]], name: str, kind: type, dimensions: int) -> NDArray[Any]:
    found = arrays.get(name)
    if found is None or found.dtype != kind or found.ndim != dimensions or not np.isfinite(found).all():
        raise InputError(f"a premodel without its array {name!r}, or with one of another kind")
    return found
