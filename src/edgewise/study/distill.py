"""Recovery: a model that lost something learns to answer as the one it was made of, on images without labels.

The only step that trains. It needs torch, on whatever that computes on; the pass that lost comes before it, and what it
wins is told apart from that, as for every step of a recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import InputError, Unsupported
from ..core.records import from_json
from ..core.types import Model
from ..engines._torch.learn import learn
from ..model.feeds import shapes
from ..model.graph import Graph, fixed, graph
from ..optimize.apply import inputs_of, write

BATCH = 64


@dataclass(frozen=True, slots=True)
class Distilling:
    """How often all images are seen, and how large the steps are at first."""

    epochs: int = 5
    rate: float = 1e-3


def distilling(given: Mapping[str, str]) -> Distilling:
    """The options of the step."""
    found = Distilling()
    for key, text in given.items():
        if key == "epochs" and text.isdigit() and 1 <= int(text) <= 1000:
            found = replace(found, epochs=int(text))
        elif key == "rate" and (value := _number(text)) is not None and 0 < value < 1:
            found = replace(found, rate=value)
        elif key in ("epochs", "rate"):
            expected = "a whole number from 1 to 1000" if key == "epochs" else "a number between 0 and 1"
            raise InputError(f"{key} of distill is {expected}, found {text!r}")
        else:
            raise InputError(f"distill has no {key!r}; it has epochs, rate")
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def distill_file(
    model: dict[str, Any], teacher: dict[str, Any], samples: str, path: str, batched: bool, epochs: int, rate: float
) -> Model:
    """The model as it answers after learning from the teacher, written to `path`."""
    student = from_json(Model, model)
    if student.precision == "int8":
        raise Unsupported(f"{student.label} is quantized: distill comes before quantize")
    inputs = inputs_of(student, samples)
    if len(inputs) != 1 or len(student.outputs) != 1:
        raise Unsupported(f"{student.label} has more than one input or output, and only one of each is learned from")
    ((name, images),) = inputs.items()
    found = graph(fixed(student, shapes(student, 1, {})))
    size = min(BATCH, len(images))
    both = [_of_batch(each, name, size) for each in (from_json(Model, teacher), student)]
    learned = learn(both[0], both[1], images, size, epochs, rate)
    constants = {each: learned.get(each, array) for each, array in found.constants.items()}
    return write(replace(found, constants=constants), student.label, path, batched)


def _of_batch(model: Model, name: str, size: int) -> Graph:
    """At this batch: one that is fixed to another cannot learn in batches."""
    sizes = shapes(model, size, {})
    if sizes[name][0] != size:
        raise Unsupported(f"{model.label} is fixed to a batch of {sizes[name][0]}, and learning takes {size} at a time")
    return graph(fixed(model, sizes))
