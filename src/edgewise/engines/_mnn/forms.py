"""Operators that MNN or its converter gets wrong: put another way, or named so that they are refused.

All of it was found by comparing with ONNX Runtime, none is documented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array
from ...model.graph import Graph, Node

_SPATIAL = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
_OPSET_SPLIT_INPUT = 13


def wrong(node: Node, graph: Graph) -> str:
    """When it is that the operator gives wrong answers or kills the process; nothing where there is no such case."""
    attributes, operator = node.attributes, node.operator
    if operator in _SPATIAL and len(_shape(graph, node.inputs[0])) == 5:
        return "in three dimensions"
    if operator == "MaxPool" and any(size != 1 for size in attributes.get("dilations", ())):
        return "when it is dilated"
    if operator == "MaxPool" and len(node.outputs) > 1 and node.outputs[1]:
        return "when it gives indices"
    if operator in ("LpPool", "Shrink"):
        return "in every form"
    if operator == "ConvTranspose" and attributes.get("output_shape"):
        return "when its output_shape is given"
    if operator == "Mod" and attributes.get("fmod"):
        return "with fmod"
    if operator == "Pad" and _negative(node, graph):
        return "when it takes away"
    if operator == "Resize" and "ceil" in attributes.get("nearest_mode", ""):
        return f"with nearest_mode={attributes['nearest_mode']}"
    half = "half_pixel" in attributes.get("coordinate_transformation_mode", "half_pixel")
    if operator == "Resize" and attributes.get("mode") == "cubic" and half:
        return "when it is cubic between half pixels"
    return ""


def _negative(node: Node, graph: Graph) -> bool:
    pads = node.attributes.get("pads") or (graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None)
    return pads is not None and any(size < 0 for size in pads)


def _shape(graph: Graph, name: str) -> tuple[int, ...]:
    """Sizes of a value; nothing where they are not known."""
    if name in graph.constants:
        return tuple(graph.constants[name].shape)
    shape = graph.values[name].shape if name in graph.values else None
    sizes = tuple(size for size in shape or () if isinstance(size, int))
    return sizes if shape is not None and len(sizes) == len(shape) else ()


def _dropout(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """It does nothing in inference, and MNN has no operator for that."""
    yield replace(node, operator="Identity", inputs=node.inputs[:1], outputs=node.outputs[:1], attributes={})


def _slice(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """Backwards slices are gathered: MNN writes past the end of its memory for them."""
    shape = _shape(graph, node.inputs[0])
    starts, ends, axes, steps = (graph.constants.get(name) for name in (*node.inputs[1:], "", "", "")[:4])
    if len(node.inputs) > 4 and node.inputs[4] and steps is None:
        raise Unsupported(f"mnn runs Slice only with steps that are known beforehand ({node.name!r})")
    if steps is None or all(step > 0 for step in steps):
        yield node
        return
    if starts is None or ends is None or not shape:
        raise Unsupported(f"mnn runs a backwards Slice only between ends that are known ({node.name!r})")
    name = node.inputs[0]
    for i, axis in enumerate(np.arange(len(starts)) if axes is None else axes):
        at = int(axis) % len(shape)
        indices = f"{node.name}/rows{i}"
        made = node.outputs[0] if i == len(starts) - 1 else f"{node.name}/axis{i}"
        constants[indices] = np.array(chosen(int(starts[i]), int(ends[i]), int(steps[i]), shape[at]), np.int64)
        yield Node(f"{node.name}/{i}", "Gather", (name, indices), (made,), {"axis": at})
        name = made


def chosen(start: int, end: int, step: int, size: int) -> range:
    """Indices of a slice, by ONNX's rules for ends out of range."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = max(min(start + size if start < 0 else start, high), 0)
    last = max(min(end + size if end < 0 else end, high), low)
    return range(first, last, step)


def _padded(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """SAME_LOWER is read as SAME_UPPER; with sizes known, both are numbers."""
    kind = node.attributes.get("auto_pad", "NOTSET")
    shape = _shape(graph, node.inputs[0])
    if kind not in ("SAME_UPPER", "SAME_LOWER") or not shape:
        yield node
        return
    kernel = node.attributes.get("kernel_shape") or _shape(graph, node.inputs[1])[2:]
    ones = [1] * len(kernel)
    steps, gaps = node.attributes.get("strides", ones), node.attributes.get("dilations", ones)
    before, after = [], []
    for size, width, step, gap in zip(shape[2:], kernel, steps, gaps, strict=True):
        total = max((-(-size // step) - 1) * step + (width - 1) * gap + 1 - size, 0)
        before.append(total // 2 if kind == "SAME_UPPER" else total - total // 2)
        after.append(total - before[-1])
    kept = {name: value for name, value in node.attributes.items() if name != "auto_pad"}
    yield replace(node, attributes=kept | {"pads": before + after})


def _pairs(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """Of three and more inputs of different sizes MNN reads past the smaller ones."""
    operator = {"Sum": "Add", "Mean": "Add"}.get(node.operator, node.operator)
    mean = node.operator == "Mean"
    total = f"{node.name}/sum" if mean else node.outputs[0]
    last = len(node.inputs) - 2
    names = [node.inputs[0], *(total if i == last else f"{node.name}/{i}" for i in range(last + 1))]
    for i, (left, made) in enumerate(pairwise(names)):
        yield Node(f"{node.name}/{i}", operator, (left, node.inputs[i + 1]), (made,), {})
    if mean:
        constants[f"{node.name}/n"] = np.array(len(node.inputs), np.float32)
        yield Node(f"{node.name}/mean", "Div", (names[-1], f"{node.name}/n"), node.outputs, {})
    elif last < 0:
        yield Node(node.name, "Identity", node.inputs, node.outputs, {})


def _gemm(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """A transposed left side is not transposed."""
    if not node.attributes.get("transA"):
        yield node
        return
    turned = f"{node.name}/turned"
    yield Node(turned, "Transpose", node.inputs[:1], (turned,), {"perm": [1, 0]})
    yield replace(node, inputs=(turned, *node.inputs[1:]), attributes=dict(node.attributes) | {"transA": 0})


def _split(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """Parts of different sizes need their sizes told."""
    axis = int(node.attributes.get("axis", 0))
    sizes = [_shape(graph, name)[axis] for name in node.outputs if _shape(graph, name)]
    if graph.opset < _OPSET_SPLIT_INPUT or len(sizes) != len(node.outputs):
        yield node
        return
    told = f"{node.name}/sizes"
    constants[told] = np.array(sizes, np.int64)
    yield replace(node, inputs=(node.inputs[0], told), attributes={"axis": axis})


def _less(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """Less is wrong between tensors of the same size; the other way round it is right."""
    yield replace(node, operator="Greater", inputs=node.inputs[::-1])


def _gelu(node: Node, graph: Graph, constants: dict[str, Array]) -> Iterator[Node]:
    """MNN's own is an approximation either way; spelled out it is not."""
    if node.attributes.get("approximate", "none") != "none":
        yield node
        return
    x, part = node.inputs[0], [f"{node.name}/{i}" for i in range(4)]
    for name, value in (("root", 2**0.5), ("one", 1.0), ("half", 0.5)):
        constants[f"{node.name}/{name}"] = np.array(value, np.float32)
    yield Node(part[0], "Div", (x, f"{node.name}/root"), (part[0],), {})
    yield Node(part[1], "Erf", (part[0],), (part[1],), {})
    yield Node(part[2], "Add", (part[1], f"{node.name}/one"), (part[2],), {})
    yield Node(part[3], "Mul", (x, f"{node.name}/half"), (part[3],), {})
    yield Node(node.name, "Mul", (part[3], part[2]), node.outputs, {})


Form = Callable[[Node, Graph, dict[str, Array]], Iterator[Node]]
FORMS: Mapping[str, Form] = {
    "Dropout": _dropout,
    "Slice": _slice,
    "Conv": _padded,
    "MaxPool": _padded,
    "AveragePool": _padded,
    "Sum": _pairs,
    "Mean": _pairs,
    "Max": _pairs,
    "Min": _pairs,
    "Gemm": _gemm,
    "Split": _split,
    "Less": _less,
    "Gelu": _gelu,
}
