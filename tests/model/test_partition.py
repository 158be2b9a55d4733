"""Graphs cut where the device changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.types import Tensor
from edgewise.model.graph import Graph, Node
from edgewise.model.partition import partitions


def chain(*edges: tuple[str, ...]) -> Graph:
    """Each edge is a node's name, then the names of those it reads; "x" is the model's input, 4 floats everywhere."""
    nodes = tuple(Node(name, "Op", tuple(reads), (name,), {}) for name, *reads in edges)
    values = {name: Tensor(name, "float32", (4,)) for name in ("x", *(node.name for node in nodes))}
    return Graph(nodes, {}, values, ("x",), (nodes[-1].name,), 17)


def devices(found: Graph, where: dict[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    return [(piece.device, piece.nodes) for piece in partitions(found, where, {})]


def test_a_chain_is_cut_at_every_change() -> None:
    found = chain(("a", "x"), ("b", "a"), ("c", "b"), ("d", "c"))
    where = {"a": "npu", "b": "npu", "c": "cpu", "d": "npu"}
    assert devices(found, where) == [("npu", ("a", "b")), ("cpu", ("c",)), ("npu", ("d",))]
    pieces = partitions(found, where, {"a": 1, "b": 2, "c": None, "d": 4})
    assert [piece.entering_bytes for piece in pieces] == [0, 16, 16]
    assert [piece.multiply_adds for piece in pieces] == [3, None, 4]


def test_branches_share_a_piece_where_nothing_stands_between_them() -> None:
    found = chain(("a", "x"), ("b", "x"), ("c", "a", "b"))
    assert len(devices(found, {"a": "npu", "b": "npu", "c": "npu"})) == 1


def test_a_piece_never_waits_for_itself() -> None:
    """a and d are on the same device, with another between them: merging them would be a circle."""
    found = chain(("a", "x"), ("b", "a"), ("d", "a", "b"))
    assert devices(found, {"a": "npu", "b": "cpu", "d": "npu"}) == [("npu", ("a",)), ("cpu", ("b",)), ("npu", ("d",))]


def test_what_nobody_was_asked_about_goes_with_what_it_reads() -> None:
    found = chain(("a", "x"), ("reshape", "a"), ("b", "reshape"))
    assert len(devices(found, {"a": "npu", "b": "npu"})) == 1


def _fewest(found: Graph, where: dict[str, str]) -> int:
    """By trying every order: the fewest runs of one device."""
    best = len(found.nodes)
    for order in itertools.permutations(found.nodes):
        done = {"x"}
        if all(set(node.inputs) <= done and not done.add(node.name) for node in order):  # type: ignore[func-returns-value]
            best = min(best, sum(1 for _ in itertools.groupby(order, key=lambda node: where[node.name])))
    return best


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, dict[str, str]]:
    names = "abcdef"[: draw(st.integers(1, 6))]
    edges: list[tuple[str, ...]] = []
    for index, name in enumerate(names):
        reads: Sequence[str] = draw(st.lists(st.sampled_from(["x", *names[:index]]), min_size=1, max_size=2))
        edges.append((name, *reads))
    return chain(*edges), {name: draw(st.sampled_from(["npu", "cpu"])) for name in names}


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_with_two_devices_the_pieces_are_as_few_as_in_any_order(
    case: tuple[Graph, dict[str, str]],
) -> None:
    found, where = case
    pieces = partitions(found, where, {})
    assert sorted(name for piece in pieces for name in piece.nodes) == sorted(where)
    done = {"x"}
    for piece in pieces:
        made = set(piece.nodes)
        reads = {name for node in found.nodes if node.name in made for name in node.inputs}
        assert reads - made <= done, "a piece needs what is not there yet"
        done |= made
    assert len(pieces) == _fewest(found, where)
