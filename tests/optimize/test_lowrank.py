"""Layers in pieces: nothing is lost where nothing need be, least where something must, and never for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.errors import InputError, Unsupported
from edgewise.core.text import parse_target
from edgewise.core.types import Tensor
from edgewise.model.emit import emit
from edgewise.model.graph import Graph, Node
from edgewise.model.load import inspect
from edgewise.optimize.lowrank import by_multiply_adds, choices, factored, gram, kept, lowrank
from edgewise.optimize.lowrank.gram import gather, mixed, patches
from edgewise.optimize.lowrank.gram import gram as gram_of
from edgewise.optimize.lowrank.layer import Layer, layers, window
from edgewise.optimize.lowrank.pieces import Choice, alone, forms
from edgewise.optimize.lowrank.ranks import Candidate, shrink
from edgewise.optimize.observe import observer, opened

Array = np.ndarray[Any, Any]


def written(nodes: list[Node], constants: dict[str, Array], shape: tuple[int, ...]) -> Graph:
    """A graph of these nodes, the sizes found by asking ONNX."""
    import onnx

    made = emit(nodes, constants, [Tensor("x", "float32", shape)], [Tensor(nodes[-1].outputs[0], "float32", None)], 17)
    found = onnx.shape_inference.infer_shapes(made, strict_mode=True).graph
    values = {
        each.name: Tensor(each.name, "float32", tuple(size.dim_value for size in each.type.tensor_type.shape.dim))
        for each in (*found.input, *found.value_info, *found.output)
    }
    return Graph(tuple(nodes), constants, values, ("x",), (nodes[-1].outputs[0],), 17)


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def correlated(count: int, *shape: int, seed: int = 0) -> Array:
    """Samples that have few directions they vary in, about means that are not zero."""
    chance = np.random.default_rng(seed)
    size = int(np.prod(shape))
    mixing = chance.standard_normal((size // 4 or 1, size)) * np.geomspace(4, 0.1, size // 4 or 1)[:, None]
    rows = chance.standard_normal((count, len(mixing))) @ mixing + 0.05 * chance.standard_normal((count, size))
    return (rows + 2 * chance.standard_normal(size)).reshape(count, *shape).astype(np.float32)


def ran(found: Graph, samples: Array) -> Array:
    parts = observer({"x": samples})(found, list(found.outputs))
    return np.concatenate([each[found.outputs[0]] for each in parts])


def close(ours: Array, theirs: Array, within: float = 1e-4) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=within, atol=within * max(1e-6, float(np.abs(theirs).max())))


def convolved(weight: Array, bias: Array | None = None, size: int = 9, **attributes: Any) -> Graph:
    """A 1×1 convolution, which is the first and stays, and then the one with these weights."""
    taken = weight.shape[1]
    constants = {"first": noise(taken, 3, *(1,) * (weight.ndim - 2), seed=5), "w": weight}
    constants |= {} if bias is None else {"b": bias}
    inputs = ("a", "w") if bias is None else ("a", "w", "b")
    nodes = [Node("a", "Conv", ("x", "first"), ("a",), {}), Node("y", "Conv", inputs, ("y",), attributes)]
    return written(nodes, constants, (1, 3, *(size,) * (weight.ndim - 2)))


def multiplied(weight: Array, operator: str, **attributes: Any) -> Graph:
    constants = {"w": weight, "b": noise(weight.shape[0 if attributes.get("transB") else 1], seed=3)}
    given = weight.shape[1 if attributes.get("transB") else 0]
    if operator == "Gemm":
        return written([Node("y", "Gemm", ("x", "w", "b"), ("y",), attributes)], constants, (1, given))
    return written([Node("y", "MatMul", ("x", "w"), ("y",), {})], constants, (1, 5, given))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    seed = draw(st.integers(0, 1000))
    kind = draw(st.sampled_from(["conv", "conv", "conv", "gemm", "matmul", "conv1d"]))
    taken, made = draw(st.integers(2, 5)), draw(st.integers(2, 6))
    if kind == "gemm":
        turned = draw(st.integers(0, 1))
        weight = noise(made, taken, seed=seed) if turned else noise(taken, made, seed=seed)
        return multiplied(weight, "Gemm", transB=turned, alpha=draw(st.sampled_from([1.0, 0.5])), beta=2.0)
    if kind == "matmul":
        return multiplied(noise(taken, made, seed=seed), "MatMul")
    axes = 1 if kind == "conv1d" else 2

    def each(most: int, least: int = 1) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=axes, max_size=axes))

    attributes: dict[str, Any] = {"strides": each(3), "dilations": each(2)}
    padding = draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID", "none"]))
    if padding == "pads":
        attributes["pads"] = each(2, 0) + each(2, 0)
    elif padding != "none":
        attributes["auto_pad"] = padding
    if padding.startswith("SAME"):
        # ONNX Runtime refuses both at once in older forms of the operator.
        attributes["dilations"] = [1] * axes
    bias = noise(made, seed=seed + 1) if draw(st.booleans()) else None
    return convolved(noise(made, taken, *each(3), seed=seed), bias, **attributes)


def only(found: Graph) -> Layer:
    (layer,) = layers(found)
    return layer


def whole(layer: Layer, form: str) -> Choice:
    made, taken, *kernel = layer.weight.shape
    return Choice(form, {"svd": (made,), "separable": (taken * (kernel or [1])[0],), "tucker": (taken, made)}[form])


@given(graphs(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_with_all_its_ranks_a_layer_answers_as_before(found: Graph, seen: bool) -> None:
    layer = only(found)
    samples = noise(12, *found.values["x"].shape[1:], seed=9)
    for form in forms(layer):
        made = factored(found, {"y": whole(layer, form)}, observer({"x": samples}) if seen else None)
        assert len(made.nodes) == len(found.nodes) + (2 if form == "tucker" else 1)
        close(ran(made, samples), ran(found, samples))
        for name, tensor in made.values.items():
            inside = next(observer({"x": samples[:1]})(made, [name]))
            assert inside[name].shape == tensor.shape


@given(graphs())
@settings(max_examples=20, deadline=None)
def test_patches_are_what_a_layer_reads(found: Graph) -> None:
    layer = only(found)
    if layer.window is None:
        return
    assert layer.window == window(found, layer.node)
    assert layer.bias is not None
    values = noise(2, *found.values["a"].shape[1:])
    rows = patches(values, layer.window, np.random.default_rng(0))
    ours = rows @ layer.matrix.T + layer.bias
    (theirs,) = observer({"a": values})(alone(found, layer, None), ["y"])
    places = np.moveaxis(theirs["y"], 1, -1).reshape(-1, len(layer.weight))
    if len(places) == len(ours) and len(ours) <= 128:
        close(ours, places)
    else:
        nearest = np.abs(ours[:5, None] - places[None]).max(-1).min(-1)
        assert nearest.max() < 1e-3


def low(form: str) -> Array:
    """[10, 8, 3, 3] of exactly these ranks."""
    if form == "svd":
        return np.tensordot(noise(10, 3), noise(3, 8, 3, 3, seed=1), 1)
    if form == "separable":
        return np.einsum("orw,rih->oihw", noise(10, 3, 3), noise(3, 8, 3, seed=1))
    return np.einsum("ob,bahw,ai->oihw", noise(10, 3), noise(3, 2, 3, 3, seed=1), noise(2, 8, seed=2))


@pytest.mark.parametrize(("form", "ranks"), [("svd", (3,)), ("separable", (3,)), ("tucker", (2, 3))])
@pytest.mark.parametrize("seen", [False, True])
def test_weights_of_that_rank_are_found_again(form: str, ranks: tuple[int, ...], seen: bool) -> None:
    found = convolved(low(form), noise(10), pads=[1, 1, 1, 1])
    samples = correlated(40, 3, 9, 9)
    made = factored(found, {"y": Choice(form, ranks)}, observer({"x": samples}) if seen else None)
    close(ran(made, samples), ran(found, samples))


@pytest.mark.parametrize(
    ("form", "ranks"), [("svd", (4,)), ("separable", (6,)), ("tucker", (4, 5)), ("gemm", (6,)), ("matmul", (6,))]
)
def test_having_seen_it_at_work_less_is_lost(form: str, ranks: tuple[int, ...]) -> None:
    if form in ("gemm", "matmul"):
        found = multiplied(noise(40, 24), "Gemm" if form == "gemm" else "MatMul")
    else:
        found = convolved(noise(12, 8, 3, 3), noise(12), pads=[1, 1, 1, 1])
    shape = found.values["x"].shape[1:]
    samples = correlated(200, *shape)
    fitted, unseen = samples[:120], samples[120:]
    choice = Choice("svd" if form in ("gemm", "matmul") else form, ranks)
    wanted = ran(found, unseen)

    def lost(made: Graph) -> float:
        return float(((ran(made, unseen) - wanted) ** 2).mean())

    plain = lost(factored(found, {"y": choice}))
    assert lost(factored(found, {"y": choice}, observer({"x": fitted}))) < 0.9 * plain


@pytest.mark.parametrize(("form", "ranks"), [("svd", (4,)), ("separable", (6,)), ("tucker", (4, 5)), ("gemm", (6,))])
def test_the_means_of_the_outputs_stay(form: str, ranks: tuple[int, ...]) -> None:
    if form == "gemm":
        found = multiplied(noise(40, 24), "Gemm")
    else:
        found = convolved(noise(12, 8, 3, 3), noise(12), size=8, pads=[1, 1, 1, 1])
    samples = correlated(50, *found.values["x"].shape[1:])
    choice = Choice("svd" if form == "gemm" else form, ranks)
    places = (0, 2, 3) if form != "gemm" else 0
    wanted = ran(found, samples).mean(places)
    close(ran(factored(found, {"y": choice}, observer({"x": samples})), samples).mean(places), wanted)
    assert np.abs(ran(factored(found, {"y": choice}), samples).mean(places) - wanted).max() > 0.01


def test_many_layers_are_seen_in_one_run_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    found, runs = deep(), []
    see = observer({"x": noise(40, 3, 8, 8)})

    def observe(of: Graph, names: Sequence[str]) -> Iterator[Mapping[str, Array]]:
        runs.append(list(names))
        return see(of, names)

    those = list(layers(found))
    many = {layer.node.name: array for layer, array in gather(found, those, observe)}
    assert runs == [["r1", "r2", "r3", "flat"]]
    for layer in those:
        close(many[layer.node.name], gram_of(found, layer.node, observe), 1e-6)
    monkeypatch.setattr(gram, "_MOST_BYTES", 1)
    assert [layer.node.name for layer, _ in gather(found, those, observe)] == [layer.node.name for layer in those]
    assert runs[-4:] == [["r1"], ["r2"], ["r3"], ["flat"]]


def test_what_is_large_and_hardly_varies_is_seen_to_vary() -> None:
    found = multiplied(noise(6, 4), "Gemm")
    samples = (1000 + noise(5000, 6)).astype(np.float32)
    node, observe = next(layers(found)).node, observer({"x": samples})
    seen = gram_of(found, node, observe)
    close(seen[:-1, :-1] - np.outer(seen[-1, :-1], seen[-1, :-1]), np.cov(samples.T.astype(np.float64), ddof=0), 1e-3)
    assert seen[-1, -1] == 1
    # Beside itself, what another graph reads is what this one does.
    both, own = mixed(found, found, node, observe)
    close(both, seen, 1e-6)
    close(own, seen, 1e-6)


def test_a_layer_too_wide_to_look_into_is_judged_by_its_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = multiplied(noise(40, 24), "Gemm")
    samples = correlated(100, 40)
    narrow = factored(found, {"y": Choice("svd", (6,))}, observer({"x": samples}))
    monkeypatch.setattr(gram, "WIDEST", 30)
    wide = factored(found, {"y": Choice("svd", (6,))}, observer({"x": samples}))
    close(ran(wide, samples), ran(narrow, samples), 0.02)
    close(ran(wide, samples).mean(0), ran(found, samples).mean(0))


def test_in_turn_each_makes_up_for_those_before_it() -> None:
    found, samples = deep(16), noise(90, 3, 8, 8)
    observe, unseen, chosen = observer({"x": samples[:60]}), samples[60:], choices(deep(16), ratio=0.4)
    assert len(chosen) > 2
    wanted = ran(found, unseen)
    lost = [
        float(((ran(factored(found, chosen, seen, in_turn=turn), unseen) - wanted) ** 2).mean())
        for seen, turn in ((None, False), (observe, False), (observe, True))
    ]
    assert lost[0] > lost[1] > lost[2]


def deep(width: int = 32) -> Graph:
    """Convolutions after each other, and a Gemm: enough to choose from."""
    nodes, constants = [Node("c0", "Conv", ("x", "w0"), ("v0",), {"pads": [1, 1, 1, 1]})], {"w0": noise(width, 3, 3, 3)}
    for number in range(1, 4):
        decay = np.geomspace(1, 0.01, width).astype(np.float32)[:, None, None, None]
        basis = np.linalg.qr(noise(width, width, seed=number))[0]
        constants[f"w{number}"] = np.tensordot(basis, decay * noise(width, width, 3, 3, seed=10 + number), 1) / 8
        constants[f"b{number}"] = noise(width, seed=20 + number)
        inputs = (f"r{number}", f"w{number}", f"b{number}")
        nodes.append(Node(f"r{number}", "Relu", (f"v{number - 1}",), (f"r{number}",), {}))
        nodes.append(Node(f"c{number}", "Conv", inputs, (f"v{number}",), {"pads": [1, 1, 1, 1]}))
    nodes.append(Node("pool", "GlobalAveragePool", ("v3",), ("pooled",), {}))
    nodes.append(Node("shape", "Reshape", ("pooled", "to"), ("flat",), {}))
    nodes.append(Node("y", "Gemm", ("flat", "w", "b"), ("y",), {"transB": 1}))
    constants |= {"to": np.array([1, width], np.int64), "w": noise(64, width, seed=30), "b": noise(64, seed=31)}
    return written(nodes, constants, (1, 3, 8, 8))


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("ratio", [0.9, 0.7, 0.5])
def test_what_is_wanted_of_the_cost_is_left_and_several_samples_fit(ratio: float, seen: bool) -> None:
    found, samples = deep(), noise(40, 3, 8, 8)
    observe = observer({"x": samples}) if seen else None
    made = lowrank(found, observe, ratio=ratio)
    cost, after = by_multiply_adds(found), by_multiply_adds(made)
    left = sum(after(node, None) for node in made.nodes) / sum(cost(node, None) for node in found.nodes)
    assert 0.8 * ratio < left <= ratio
    out = ran(made, samples)
    assert out.shape == (40, 64)
    assert np.concatenate([each["y"] for each in observer({"x": samples}, batch=7)(opened(made), ["y"])]).shape == (
        40,
        64,
    )
    close(ran(made, samples[:1]), out[:1])
    wanted = ran(found, samples)
    assert ((out - wanted) ** 2).mean() < 0.2 * wanted.var()
    for node in made.nodes:
        weight = made.constants.get(node.inputs[1]) if node.operator == "Conv" else None
        assert weight is None or weight.shape[0] % 8 == 0


def test_nothing_becomes_what_costs_more_and_each_is_asked_once() -> None:
    found = deep()
    by_size = by_multiply_adds(found)
    asked = []

    def cost(node: Node, choice: Choice | None) -> float:
        asked.append((node.name, choice))
        # To the third layer pieces are dear, to the second some are.
        dear = {"c3": 10.0, "c2": 1.6}.get(node.name, 1.0) if choice else 1.0
        return dear * by_size(node, choice)

    chosen = choices(found, ratio=0.7, cost=cost)
    assert chosen
    assert "c3" not in chosen
    nodes = {node.name: node for node in found.nodes}
    assert all(cost(nodes[name], choice) < cost(nodes[name], None) for name, choice in chosen.items())
    assert kept(found, chosen, cost) <= 0.7
    asked.clear()
    lowrank(found, ratio=0.7, cost=cost)
    assert len(asked) == len(set(asked))


def test_what_cannot_be_had_is_refused_with_the_reason() -> None:
    found = deep()
    with pytest.raises(Unsupported, match="no layer would cost less"):
        lowrank(found, ratio=0.9, cost=lambda node, choice: 2.0 if choice else 1.0)
    with pytest.raises(Unsupported, match=r"thin enough for 0\.01 of the cost: 4 layers can be") as refusal:
        lowrank(found, ratio=0.01)
    assert refusal.value.hint is not None
    lowrank(found, ratio=float(refusal.value.hint.split("=")[1].rstrip(")")))
    tiny = convolved(noise(2, 2, 3, 3))
    with pytest.raises(Unsupported, match="no layer would cost less"):
        lowrank(tiny, ratio=0.9)
    alone_first = written([Node("y", "Conv", ("x", "w"), ("y",), {})], {"w": noise(64, 64, 3, 3)}, (1, 64, 8, 8))
    with pytest.raises(Unsupported, match="no layer has constant weights"):
        lowrank(alone_first, ratio=0.9)
    with pytest.raises(InputError, match=r"between 0 and 1, found 1\.5"):
        lowrank(found, ratio=1.5)
    with pytest.raises(InputError, match="'c0' is no layer that can be factored"):
        factored(found, {"c0": Choice("svd", (8,))})
    with pytest.raises(InputError, match="the ranks of 'c1' as svd are 1 to 32"):
        factored(found, {"c1": Choice("svd", (33,))})
    with pytest.raises(InputError, match="'y' has no form 'tucker'"):
        factored(found, {"y": Choice("tucker", (8, 8))})


def test_depthwise_grouped_and_computed_weights_stay() -> None:
    nodes = [
        Node("a", "Conv", ("x", "first"), ("a",), {}),
        Node("b", "Conv", ("a", "deep"), ("b",), {"group": 16}),
        Node("c", "Conv", ("b", "grouped"), ("c",), {"group": 2}),
        Node("d", "MatMul", ("c", "c"), ("d",), {}),
    ]
    constants = {"first": noise(16, 3, 1, 1), "deep": noise(16, 1, 3, 3), "grouped": noise(16, 8, 3, 3)}
    assert list(layers(written(nodes, constants, (1, 3, 12, 12)))) == []


def test_pieces_can_be_taken_apart_again() -> None:
    found, samples = deep(), noise(8, 3, 8, 8)
    once = factored(found, {name: Choice("tucker", (32, 32)) for name in ("c1", "c2", "c3")})
    again = factored(once, {layer.node.name: Choice("svd", (len(layer.weight),)) for layer in layers(once)})
    names = [node.name for node in again.nodes]
    assert len(names) == len(set(names)) == len(found.nodes) + 3 * 5 + 1
    close(ran(again, samples), ran(found, samples), 1e-3)


def test_a_layer_by_itself_costs_what_it_costs_inside() -> None:
    found = deep()
    cost = by_multiply_adds(found)
    layer = next(layer for layer in layers(found) if layer.node.name == "c2")
    for choice in (None, Choice("svd", (8,)), Choice("separable", (16,)), Choice("tucker", (8, 16))):
        one = alone(found, layer, choice)
        assert sum(by_multiply_adds(one)(each, None) for each in one.nodes) == cost(layer.node, choice)
        (out,) = observer({one.inputs[0]: noise(1, 32, 8, 8)})(one, one.outputs)
        assert out["v2"].shape == (1, 32, 8, 8)


def test_engines_agree_on_the_result(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    from edgewise.engines import openvino, ort

    found, samples = deep(), noise(16, 3, 8, 8)
    made = lowrank(found, observer({"x": samples}), ratio=0.6)
    path = tmp_path / "thin.onnx"
    path.write_bytes(
        emit(made.nodes, made.constants, [made.values["x"]], [made.values["y"]], made.opset).SerializeToString()
    )
    model = inspect(str(path))
    answers = []
    for engine, text in ((ort, "ort:cpu:fp32@1"), (openvino, "openvino:cpu:fp32@1")):
        running = engine.load(model, parse_target(text))
        answers.append(np.asarray(running.run({"x": samples[:1]})["y"]).copy())
        running.close()
    close(answers[1], answers[0], 1e-3)
    close(answers[0], ran(made, samples[:1]))


@given(
    st.lists(
        st.tuples(st.floats(1, 100), st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(0, 1)), max_size=6)),
        min_size=1,
        max_size=5,
    ),
    st.floats(0.01, 0.99),
)
def test_enough_is_saved_wherever_it_can_be(drawn: list[tuple[float, list[tuple[float, float]]]], share: float) -> None:
    tables = {
        str(place): [Candidate(None, cost, 0.0), *(Candidate(Choice("svd", (8,)), cost * c, e) for c, e in others)]
        for place, (cost, others) in enumerate(drawn)
    }
    total = sum(table[0].cost for table in tables.values())
    found = shrink(tables, share * total)
    saved = total - sum(each.cost for each in found.values())
    most = total - sum(min(each.cost for each in table) for table in tables.values())
    assert saved >= min(share * total, most) - 1e-9 * total
    for name, each in found.items():
        # Nothing that costs no more loses less.
        assert not any(other.cost <= each.cost and other.error < each.error for other in tables[name])
