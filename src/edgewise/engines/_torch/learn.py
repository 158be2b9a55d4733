"""A network that learns to answer as another one does, by gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import Unavailable
from ...model.graph import Array, Graph

# Answers are compared as the shares a softmax gives them, softened so that unlikely classes count as well.
_WARMTH = 4.0
_LEARNED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def learn(teacher: Graph, student: Graph, images: Array, size: int, epochs: int, rate: float) -> dict[str, Array]:
    """The student's weights after seeing all images so often, by name. Both graphs take `size` at a time."""
    try:
        import torch
    except ImportError:
        raise Unavailable("distill needs torch, which is not installed", "pip install 'edgewise[torch]'") from None
    from .net import Net

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shared: dict[str, Any] = {}
    taught = Net(teacher, torch.float32, device).module()
    learner = Net(student, torch.float32, device, shared=shared).module()
    weights = {name: shared[name] for name in _weights(student) if name in shared}
    for tensor in weights.values():
        tensor.requires_grad_(True)
    given = torch.from_numpy(images)
    steps = len(images) // size * epochs
    optimizer = torch.optim.Adam(list(weights.values()), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=max(2, steps))
    random = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=random)
        for begin in range(0, len(images) - size + 1, size):
            batch = given[order[begin : begin + size]].to(device)
            if batch.dim() == 4 and torch.rand((), generator=random) < 0.5:
                # Most pictures are as good mirrored: twice as many for nothing.
                batch = batch.flip(3)
            with torch.no_grad():
                wanted = torch.softmax(taught(batch)[0].flatten(1) / _WARMTH, 1)
            answers = torch.log_softmax(learner(batch)[0].flatten(1) / _WARMTH, 1)
            loss = torch.nn.functional.kl_div(answers, wanted, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return {name: np.asarray(tensor.detach().cpu().numpy(), np.float32) for name, tensor in weights.items()}


def _weights(of: Graph) -> list[str]:
    return [
        name
        for node in of.nodes
        if node.operator in _LEARNED
        for name in node.inputs[1:]
        if name in of.constants and of.constants[name].dtype == np.float32
    ]
