"""Recovery: a model that lost something learns to answer as the one it was made of, on images without labels.

The only step that trains. It needs torch, on whatever that computes on; the pass that lost comes before it, and what it
wins is told apart from that, as for every step of a recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import InputError, Unavailable, Unsupported
from ..core.records import from_json
from ..core.types import Model
from ..model.feeds import shapes
from ..model.graph import Array, Graph, fixed, graph
from ..optimize.apply import inputs_of, write

_BATCH = 64
# Answers are compared as the shares a softmax gives them, softened so that unlikely classes count as well.
_WARMTH = 4.0
_LEARNED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


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
    learned = _learned(student, from_json(Model, teacher), name, images, Distilling(epochs, rate))
    constants = {each: learned.get(each, array) for each, array in found.constants.items()}
    return write(replace(found, constants=constants), student.label, path, batched)


def _learned(student: Model, teacher: Model, name: str, images: Array, how: Distilling) -> dict[str, Array]:
    """The weights after learning, by name."""
    try:
        import torch
    except ImportError:
        raise Unavailable("distill needs torch, which is not installed", "pip install 'edgewise[torch]'") from None
    from ..engines._torch.net import Net

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = min(_BATCH, len(images))
    graphs = [_of_batch(model, name, size) for model in (teacher, student)]
    shared: dict[str, Any] = {}
    taught = Net(graphs[0], torch.float32, device).module().to(device)
    learner = Net(graphs[1], torch.float32, device, shared=shared).module().to(device)
    weights = {each: shared[each] for each in _weights(graphs[1]) if each in shared}
    for tensor in weights.values():
        tensor.requires_grad_(True)
    given = torch.from_numpy(images)
    steps = len(images) // size * how.epochs
    optimizer = torch.optim.Adam(list(weights.values()), lr=how.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, how.rate, total_steps=max(2, steps))
    random = torch.Generator().manual_seed(0)
    for _ in range(how.epochs):
        order = torch.randperm(len(images), generator=random)
        for begin in range(0, len(images) - size + 1, size):
            batch = given[order[begin : begin + size]].to(device)
            if batch.dim() == 4 and torch.rand((), generator=random) < 0.5:
                batch = batch.flip(3)
            with torch.no_grad():
                wanted = torch.softmax(taught(batch)[0].flatten(1) / _WARMTH, 1)
            answers = torch.log_softmax(learner(batch)[0].flatten(1) / _WARMTH, 1)
            loss = torch.nn.functional.kl_div(answers, wanted, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return {each: np.asarray(tensor.detach().cpu().numpy(), np.float32) for each, tensor in weights.items()}


def _of_batch(model: Model, name: str, size: int) -> Graph:
    """At this batch: one that is fixed to another cannot learn in batches."""
    sizes = shapes(model, size, {})
    if sizes[name][0] != size:
        raise Unsupported(f"{model.label} is fixed to a batch of {sizes[name][0]}, and learning takes {size} at a time")
    return graph(fixed(model, sizes))


def _weights(of: Graph) -> list[str]:
    return [
        each
        for node in of.nodes
        if node.operator in _LEARNED
        for each in node.inputs[1:]
        if each in of.constants and of.constants[each].dtype == np.float32
    ]
