"""What a model is made of, as tables: its tensors, its totals, its operators, its layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..core.types import Column, Finding, Section, Tensor
from ..model.cost import Cost, NodeCost

TENSORS = (Column("tensor"), Column("name"), Column("type"), Column("shape"))
TOTALS = (
    Column("parameters", "amount"),
    Column("weights", "bytes"),
    Column("multiply_adds", "amount"),
    Column("flops", "amount"),
    Column("activations", "bytes"),
    Column("peak_activations", "bytes"),
    Column("flops_per_byte", "number", spare=1),
)
OPERATORS = (
    Column("operator"),
    Column("nodes", "count"),
    Column("parameters", "amount"),
    Column("multiply_adds", "amount"),
    Column("share", "share"),
    Column("flops", "amount"),
    Column("activations", "bytes", spare=1),
)
LAYERS = (
    Column("layer"),
    Column("operator"),
    Column("output"),
    Column("parameters", "amount"),
    Column("multiply_adds", "amount"),
    Column("share", "share"),
    Column("flops", "amount", spare=1),
    Column("weights", "bytes", spare=3),
    Column("read", "bytes", spare=4),
    Column("written", "bytes", spare=2),
)
# As many as fit on a screen with the rest.
SHORT = 12


def run(cost: Cost) -> Section:
    """Rows are operators, those with the most multiply-adds first, then those with the most FLOPs."""
    kinds: dict[str, list[NodeCost]] = defaultdict(list)
    for node in cost.nodes:
        kinds[node.operator].append(node)
    ranked = sorted(kinds.items(), key=lambda pair: _rank(pair[1]))
    rows = tuple((kind, len(nodes), *_sums(nodes, cost)) for kind, nodes in ranked)
    return Section("Operators", OPERATORS, rows, tuple(_findings(cost)))


def layers(cost: Cost, *, every: bool = False) -> Section:
    """The layers that do the most, or all in the order they run."""
    chosen: Sequence[NodeCost] = cost.nodes
    findings: tuple[Finding, ...] = ()
    if not every and len(cost.nodes) > SHORT:
        chosen = sorted(cost.nodes, key=lambda node: _rank([node]))[:SHORT]
        values = (("shown", SHORT), ("layers", len(cost.nodes)))
        findings = (Finding("layers_cut", "note", "layers", values),)
    rows = tuple(
        (
            node.name,
            node.operator,
            None if node.shape is None else _shape(node.shape),
            node.parameters,
            node.multiply_adds,
            _share(node.multiply_adds, cost.multiply_adds),
            node.flops,
            node.weight_bytes,
            node.read_bytes,
            node.written_bytes,
        )
        for node in chosen
    )
    return Section("Layers", LAYERS, rows, findings)


def totals(cost: Cost) -> Section:
    """One row: the whole model."""
    row = (
        cost.parameters,
        cost.weight_bytes,
        cost.multiply_adds,
        cost.flops,
        cost.activation_bytes,
        cost.peak_bytes,
        cost.flops_per_byte,
    )
    return Section("Totals", TOTALS, (row,))


def tensors(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Section:
    pairs = [*(("input", tensor) for tensor in inputs), *(("output", tensor) for tensor in outputs)]
    return Section("Tensors", TENSORS, tuple((what, t.name, t.dtype, _declared(t)) for what, t in pairs))


def _findings(cost: Cost) -> list[Finding]:
    found = []
    reasons: dict[tuple[str, str], int] = defaultdict(int)
    for node in cost.unknown:
        reasons[node.operator, node.reason] += 1
    for (operator, reason), count in reasons.items():
        values = (("count", count), ("operator", operator), ("reason", reason))
        found.append(Finding("not_counted", "caution", operator, values))
    if cost.declared_parameters not in (None, cost.parameters):
        sizes = (("declared", cost.declared_parameters), ("parameters", cost.parameters))
        found.append(Finding("folded_parameters", "note", "parameters", sizes))
    return found


def _rank(nodes: Sequence[NodeCost]) -> tuple[int, int]:
    return -sum(node.multiply_adds or 0 for node in nodes), -sum(node.flops or 0 for node in nodes)


def _sums(nodes: Sequence[NodeCost], cost: Cost) -> tuple[object, ...]:
    """A sum over nodes of which one is not known is not known."""
    known = all(node.multiply_adds is not None for node in nodes)
    multiply_adds = sum(node.multiply_adds or 0 for node in nodes) if known else None
    written = sum(node.written_bytes or 0 for node in nodes)
    return (
        sum(node.parameters for node in nodes),
        multiply_adds,
        _share(multiply_adds, cost.multiply_adds),
        sum(node.flops or 0 for node in nodes) if known else None,
        written if all(node.written_bytes is not None for node in nodes) else None,
    )


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


def _shape(sizes: Sequence[object]) -> str:
    return "x".join("?" if size is None else str(size) for size in sizes) or "scalar"


def _declared(tensor: Tensor) -> str:
    return "unknown" if tensor.shape is None else _shape(tensor.shape)
