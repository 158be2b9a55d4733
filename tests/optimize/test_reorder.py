"""Another order of the nodes: less memory, the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.types import Tensor
from edgewise.model.arena import bound, needs
from edgewise.model.emit import emit
from edgewise.model.graph import Graph, Node
from edgewise.optimize.reorder import reordered


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Values of different sizes, each made from some before it by a node that keeps a part of its input."""
    values = {"x": Tensor("x", "float32", (64,))}
    nodes = []
    for number in range(draw(st.integers(1, 9))):
        taken = draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=2, unique=True))
        name = f"v{number}"
        values[name] = Tensor(name, "float32", (draw(st.integers(1, 4000)),))
        nodes.append(Node(f"n{number}", "Any", tuple(taken), (name,), {}))
    return Graph(tuple(nodes), {}, values, ("x",), (f"v{len(nodes) - 1}",), 17)


@given(graphs())
@settings(max_examples=60)
def test_every_node_runs_once_after_those_it_needs_and_never_more_is_needed(graph: Graph) -> None:
    found = reordered(graph)
    assert sorted(node.name for node in found.nodes) == sorted(node.name for node in graph.nodes)
    made = set(graph.inputs)
    for node in found.nodes:
        assert set(node.inputs) <= made
        made |= set(node.outputs)
    assert bound(*needs(found)) <= bound(*needs(graph))


def test_a_branch_is_finished_before_the_next_begins_and_answers_stay(tmp_path: Path) -> None:
    """Two branches, each wide in the middle, written side by side: both middles are live at once, and need not be."""
    import onnxruntime

    wide, narrow = (1, 64, 32, 32), (1, 64, 1, 1)
    values = {"x": Tensor("x", "float32", narrow)}
    nodes = []
    for number, (operator, suffix, shape) in enumerate(
        [("Expand", "wide", wide), ("GlobalAveragePool", "pooled", narrow)]
    ):
        for branch in "ab":
            name = f"{branch}_{suffix}"
            taken = ("x", "shape") if number == 0 else (f"{branch}_wide",)
            values[name] = Tensor(name, "float32", shape)
            nodes.append(Node(name, operator, taken, (name,), {}))
    values["sum"] = Tensor("sum", "float32", narrow)
    nodes.append(Node("sum", "Add", ("a_pooled", "b_pooled"), ("sum",), {}))
    graph = Graph(tuple(nodes), {"shape": np.array(wide, np.int64)}, values, ("x",), ("sum",), 17)
    found = reordered(graph)
    assert [node.name for node in found.nodes][:2] in (["a_wide", "a_pooled"], ["b_wide", "b_pooled"])
    assert bound(*needs(found)) < 0.6 * bound(*needs(graph))
    x = np.random.default_rng(0).standard_normal(narrow, dtype=np.float32)
    answers = []
    for each in (graph, found):
        made = emit(each.nodes, each.constants, [values["x"]], [values["sum"]], 17).SerializeToString()
        answers.append(onnxruntime.InferenceSession(made).run(None, {"x": x})[0])
    np.testing.assert_array_equal(*answers)
