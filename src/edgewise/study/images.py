"""From what a user said about labelled images to an exam, and to the images int8 is calibrated on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import data
from ..core.errors import InputError, Unsupported
from ..core.preprocess import PRESETS, parse_preprocess
from ..core.types import Model
from ..data import built_in
from ..measure import isolate
from ..measure.accuracy import Exam
from . import home

# Enough for ranges to settle; more only takes longer.
CALIBRATION_IMAGES = 128
# Statistics of what is inside a network take more; as many as fit into this much memory.
STATISTICS_IMAGES = 5000
_STATISTICS_BYTES = 512 << 20
# What decisions rest on, of images that are also to tell what came of them.
DECISION_IMAGES = 2000
_DECISION_SHARE = 0.2
# Of a small dataset, no more than this share is given up for calibration.
_CALIBRATION_SHARE = 0.1
_PREPARING_S = 600.0
# What an image can be made into.
_TYPES = ("float32", "float16", "float64", "uint8")
_NONE, _ONE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked for on the command line; what is None follows from the model."""

    data: str | None = None
    labels: str | None = None
    preprocess: str | None = None
    limit: int | None = None
    seed: int = 0
    # Images passed over before the first one asked about, and images given up for calibration where some have to be.
    skip: int = 0
    held: int = CALIBRATION_IMAGES


def exam(
    model: Model, question: Question, *, hold_out: bool, without: Collection[int] = ()
) -> tuple[Exam, tuple[int, ...]]:
    """The images to ask `model` about, and those left out for calibration: none unless `hold_out`. `without`: those
    that were left out before."""
    named, preprocess = asked_about(model, question)
    path = place_of(named)
    dataset = data.open_dataset(path, question.labels)
    left = set(without)
    order = [place for place in shuffled(len(dataset.labels), question.seed) if place not in left]
    held = min(question.held, int(len(order) * _CALIBRATION_SHARE)) if hold_out else 0
    if hold_out and not held:
        raise InputError(
            f"{named} has {len(order)} images, too few to calibrate int8 on some and ask about others",
            "--calibration DATA",
        )
    begin = held + question.skip
    chosen = tuple(sorted(order[begin:] if question.limit is None else order[begin : begin + question.limit]))
    label = named if built_in.parse(named) else dataset.label
    out = held + len(left)
    label += f", without {out} for calibration" if out else ""
    own = digest(dataset.digest, chosen)
    return Exam(path, question.labels, preprocess, chosen, own, dataset.classes, label), tuple(order[:held])


def asked_about(model: Model, question: Question) -> tuple[str, str]:
    """Which data, and how an image of it becomes the input; what cannot be asked is refused before anything is made."""
    _refuse_other_than_images(model)
    named = question.data or model.data
    if named is None:
        raise InputError(f"{model.label} does not say which data it is for", "--data FOLDER, LIST.csv or ARRAYS.npz")
    if question.limit is not None and question.limit < 1:
        raise InputError(f"--limit is at least 1, found {question.limit}")
    return named, _preprocess(model, question.preprocess)


def labelled(question: Question) -> bool:
    """Whether the images that were named have labels. What cannot be read, or not with the labels named, is refused."""
    assert question.data is not None
    path = place_of(question.data)
    data.open_dataset(path, labelled=False)
    try:
        data.open_dataset(path, question.labels)
    except InputError:
        if question.labels is not None:
            raise
        return False
    return True


def divided(model: Model, question: Question, *, hold_out: bool) -> tuple[Exam, Exam, tuple[int, ...]]:
    """The images decisions rest on, others that tell what came of them, and those left out for calibration."""
    everything, held = exam(model, question, hold_out=hold_out)
    deciding = min(DECISION_IMAGES, int(len(everything.indices) * _DECISION_SHARE))
    if not deciding:
        raise InputError(
            f"{everything.label} has {len(everything.indices)} images, too few to decide on some and report on others",
            "--data with more images",
        )
    first, _ = exam(model, replace(question, limit=deciding), hold_out=hold_out)
    rest, _ = exam(model, replace(question, skip=deciding), hold_out=hold_out)
    return first, rest, held


def statistics_images(model: Model) -> int:
    """How many inputs are kept to look at a network with."""
    sizes = [size for tensor in model.inputs[:1] for size in (tensor.shape or ())[1:] if isinstance(size, int)]
    return max(1, min(STATISTICS_IMAGES, _STATISTICS_BYTES // (4 * math.prod(sizes or [1]))))


def held_out_calibration(model: Model, asked: Exam, held: Sequence[int]) -> str:
    """Inputs from images of the data that were left out of what is asked."""
    return _calibration(model, asked.data, asked.labels, asked.preprocess, held)


def own_calibration(model: Model, asked: str | None = None, count: int = CALIBRATION_IMAGES) -> str | None:
    """For a model that comes with data: inputs from the part it was trained on, or from a third one where that is what
    is asked about. None for any other model."""
    if model.data not in built_in.NAMES or model.preprocess is None:
        return None
    wanted = built_in.parse(asked) if asked else None
    split = "validation" if wanted and wanted.split == "train" else "train"
    return other_calibration(model, f"{model.data}(split={split}, count={count})", None, count=count)


def other_calibration(
    model: Model, source: str, preprocess: str | None, asked: Exam | None = None, count: int = CALIBRATION_IMAGES
) -> str:
    """Inputs from images that are not asked about: all there are, or as many as calibration needs, drawn at random."""
    path = place_of(source)
    dataset = data.open_dataset(path, labelled=False)
    if asked is not None and dataset.digest == data.open_dataset(asked.data, asked.labels).digest:
        raise InputError(
            f"{source} is what is asked about, and int8 would be calibrated on its own exam",
            "leave out --calibration: some images are then held out",
        )
    chosen = sorted(shuffled(len(dataset.labels), 0)[:count])
    return _calibration(model, path, None, _preprocess(model, preprocess), chosen)


def sizes(model: Model, asked: Exam, batch: int) -> dict[str, tuple[int, ...]]:
    """The shape of an input whose height and width are open: what the preprocessing cuts out."""
    shape = model.inputs[0].shape or ()
    how = parse_preprocess(asked.preprocess)
    if not how.crop or all(isinstance(size, int) for size in shape[1:]):
        return {}
    image = (3, how.crop, how.crop) if how.layout == "nchw" else (how.crop, how.crop, 3)
    return {model.inputs[0].name: (batch, *image)}


def _calibration(model: Model, path: str, labels: str | None, preprocess: str, indices: Sequence[int]) -> str:
    """A file of the model's inputs made of some images of a dataset: made once, kept by what it depends on."""
    dataset = data.open_dataset(path, labels, labelled=False)
    key = digest(dataset.digest, tuple(indices), preprocess, model.inputs[0].name)
    made = home.cache() / f"{key}-calibration.npz"
    if not made.exists():
        isolate.call(
            "edgewise.data.inputs:save",
            timeout_s=_PREPARING_S,
            data=path,
            labels=labels,
            preprocess=preprocess,
            indices=list(indices),
            name=model.inputs[0].name,
            path=str(made),
        )
    return str(made)


def _refuse_other_than_images(model: Model) -> None:
    found = ", ".join(f"{t.name} ({t.dtype} {t.shape})" for t in model.inputs)
    if len(model.inputs) != 1 or len(model.inputs[0].shape or ()) != 4:
        raise Unsupported(f"{model.label} does not take one image: its inputs are {found}")
    if model.inputs[0].dtype not in _TYPES:
        raise Unsupported(f"{model.label} takes {found}; images are made {', '.join(_TYPES)}")


def _preprocess(model: Model, asked: str | None) -> str:
    how = asked or (str(model.preprocess) if model.preprocess else None)
    if how is None:
        raise InputError(
            f"{model.label} does not say how an image becomes its input; known ways: {', '.join(PRESETS)}",
            "--preprocess imagenet",
        )
    parsed = parse_preprocess(how)
    if model.inputs[0].dtype == "uint8" and replace(parsed, divide=1.0, mean=_NONE, std=_ONE) != parsed:
        raise InputError(
            f"{model.label} takes images of 8 bits as they are, and {parsed} scales them", "--preprocess raw"
        )
    return str(parsed)


def shuffled(count: int, seed: int) -> list[int]:
    import numpy as np

    return [int(place) for place in np.random.default_rng(seed).permutation(count)]


def place_of(named: str) -> str:
    """Where the data is; built-in data is generated in a worker, once."""
    scenes = built_in.parse(named)
    if scenes is None:
        return named
    # Made by this version of the code: a change to it must not find the scenes of another.
    source = Path(data.__file__).parent
    version = digest((source / "scenes.py").read_bytes(), (source / "digits.npz").read_bytes(), scenes)
    path = home.cache() / f"{version}-pocket.npz"
    if not path.exists():
        isolate.call(
            "edgewise.data.built_in:save",
            timeout_s=_PREPARING_S,
            path=str(path),
            split=scenes.split,
            count=scenes.count,
            difficulty=scenes.difficulty,
        )
    return str(path)


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
