"""`edgewise inspect`: what a model is made of."""

from __future__ import annotations

import sys
from typing import Annotated


def run(
    model: Annotated[str, "an ONNX file, or a built-in network by name"],
    *,
    batch: Annotated[int, "the batch size"] = 1,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    all_: Annotated[bool, "every layer in the order they run (default: those that do the most)"] = False,
    timeout: Annotated[float, "seconds a worker may take"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "every node as JSON"] = False,
) -> None:
    """Show what a model is made of: inputs, parameters, FLOPs, activations, memory, operators, layers.

    A multiply-add is two FLOPs. Activations are all values the nodes write; peak activations are the most of them that
    are needed at once, in the order of the file and with nothing done in place. Nothing is run.
    """
    from ..analyze import cost as analysis
    from ..core.records import dumps
    from ..report import terminal
    from ..study.inspect import inspect
    from ..study.prepare import Limits
    from ._values import shapes, size_bytes

    found, cost = inspect(model, batch, Limits(timeout, size_bytes(memory), shapes(shape)))
    if json_:
        totals = ("multiply_adds", "flops", "activation_bytes", "moved_bytes", "flops_per_byte")
        print(dumps({"model": found, "totals": {name: getattr(cost, name) for name in totals}, "cost": cost}))
        return
    out = terminal.console(sys.stdout)
    nodes = "1 node" if len(cost.nodes) == 1 else f"{len(cost.nodes)} nodes"
    out.print(f"{found.label}: {found.precision}, opset {cost.opset}, {nodes}", markup=False)
    if found.preprocess is not None:
        out.print(f"images: {found.preprocess}", markup=False)
    sections = (
        analysis.tensors(found.inputs, cost.outputs),
        analysis.totals(cost),
        analysis.run(cost),
        analysis.layers(cost, every=all_),
    )
    for section in sections:
        out.print()
        terminal.draw(section, out, keep=("tensor", "name", "type", "shape", "operator", "layer", "output"))
