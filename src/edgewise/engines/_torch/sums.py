"""ONNX operators that add up: matrix products and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ops import TABLE, Made, Op, register


@register("MatMul")
def _matmul(op: Op) -> Made:
    return op.torch.matmul(op[0], op[1])


@register("Gemm")
def _gemm(op: Op) -> Made:
    alpha, beta = op.attribute("alpha", 1.0), op.attribute("beta", 1.0)
    plain = alpha == 1 and (beta == 1 or not op.has(2)) and not op.attribute("transA", 0) and op.attribute("transB", 0)
    if plain and (not op.has(2) or len(op.shape(2)) == 1):
        return op.functional.linear(op[0], op[1], op[2] if op.has(2) else None)
    a = op[0].t() if op.attribute("transA", 0) else op[0]
    b = op[1].t() if op.attribute("transB", 0) else op[1]
    if op.has(2):
        return op.torch.addmm(op[2], a, b, beta=beta, alpha=alpha)
    return op.torch.mm(a, b) if alpha == 1 else op.torch.mm(a, b) * alpha


@register("Einsum")
def _einsum(op: Op) -> Made:
    equation = op.attribute("equation")
    return op.torch.einsum(equation.decode() if isinstance(equation, bytes) else equation, *op.all())


def _norm(order: int) -> Callable[..., Any]:
    def reduce(op: Op, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        return op.torch.linalg.vector_norm(x, order, axes, keep)

    return reduce


def _product(op: Op, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    for axis in sorted(axes, reverse=True):
        x = op.torch.prod(x, axis, keep)
    return x


_REDUCE: dict[str, Callable[[Op, Any, tuple[int, ...], bool], Any]] = {
    "ReduceSum": lambda op, x, axes, keep: op.torch.sum(x, axes, keep),
    "ReduceMean": lambda op, x, axes, keep: op.torch.mean(x, axes, keep),
    "ReduceMax": lambda op, x, axes, keep: op.torch.amax(x, axes, keep),
    "ReduceMin": lambda op, x, axes, keep: op.torch.amin(x, axes, keep),
    "ReduceProd": _product,
    "ReduceL1": _norm(1),
    "ReduceL2": _norm(2),
    "ReduceSumSquare": lambda op, x, axes, keep: op.torch.sum(x * x, axes, keep),
    "ReduceLogSum": lambda op, x, axes, keep: op.torch.log(op.torch.sum(x, axes, keep)),
    "ReduceLogSumExp": lambda op, x, axes, keep: op.torch.logsumexp(x, axes, keep),
}


def _reduce(op: Op) -> Made:
    rank = len(op.shape())
    axes = op.known(1, "axes") or []
    if not axes and op.attribute("noop_with_empty_axes", 0):
        return op[0]
    axes = tuple(axis % rank for axis in axes) or tuple(range(rank))
    name, kind = op.node.operator, op.dtype()
    whole = not kind.startswith("float")
    # Integers are summed as they are, and averaged or measured as floats.
    x = op[0].to(op.torch.float64) if whole and name not in ("ReduceSum", "ReduceMax", "ReduceMin") else op[0]
    if not axes:
        return x
    made = _REDUCE[name](op, x, axes, bool(op.attribute("keepdims", 1)))
    return made.to(op.net.dtype(kind)) if whole else made


TABLE.update(dict.fromkeys(_REDUCE, _reduce))


@register("ArgMax", "ArgMin")
def _arg(op: Op) -> Made:
    axis, keep = op.axis(0), bool(op.attribute("keepdims", 1))
    find = op.torch.argmax if op.node.operator == "ArgMax" else op.torch.argmin
    if op.attribute("select_last_index", 0):
        return op.shape()[axis] - 1 - find(op.torch.flip(op[0], (axis,)), axis, keep)
    return find(op[0], axis, keep)
