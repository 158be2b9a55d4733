"""What a model answered to labelled images: raw answers only; every share, interval and test is derived."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Placement

# How many of the largest outputs are kept per image: enough for top-5.
KEPT = 5


@dataclass(frozen=True, slots=True)
class Answers:
    """A run of images: the right class of each, the model's classes from the most likely down, and the share of the
    softmax the first of them has: 0 where no output was finite, and so nothing was answered.

    Decoding and preparing are CPU time of the thread that does them, beside inference; `run_ns` is what inference took
    for `ran` images: a last batch is filled up, and those were run too. The model has `outputs` classes.
    """

    labels: tuple[int, ...]
    ranked: tuple[tuple[int, ...], ...]
    confidence: tuple[float, ...]
    decode_ns: int
    prepare_ns: int
    run_ns: int
    ran: int
    outputs: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`data` is the digest of the images asked about, in order: two evaluations with the same one can be paired.
    `prepared` is that of the model as the engine ran it."""

    subject: str
    placement: Placement
    machine: str
    versions: tuple[tuple[str, str], ...]
    data: str
    images: int
    prepared: str
    preprocess: str
    classes: tuple[str, ...]
    answers: tuple[Answers, ...]
    label: str = ""
    data_label: str = ""

    @property
    def complete(self) -> bool:
        return self.answered == self.images

    @property
    def answered(self) -> int:
        return sum(len(part.labels) for part in self.answers)
