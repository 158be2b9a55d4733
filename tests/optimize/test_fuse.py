"""Fewer nodes, the same answers: each rewrite by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuse_networks import Layers, fused, operators

from edgewise.model.graph import Graph
from edgewise.optimize.fuse import Siblings, applied, fuse
from edgewise.optimize.prune.coupling import coupled

# Each rewrite by itself: what it is done to, how it is called, what is left.


def _transposed_conv(net: Layers) -> str:
    made = net.add("ConvTranspose", ["x", net.constant(3, 4, 2, 2), net.constant(4)], (1, 4, 16, 16), strides=[2, 2])
    return net.norm(made)


def _grouped(net: Layers) -> str:
    made = net.add(
        "ConvTranspose", [net.conv("x", 4), net.constant(4, 3, 2, 2)], (1, 6, 16, 16), strides=[2, 2], group=2
    )
    return net.norm(made)


def _rows(net: Layers, x: str = "x") -> str:
    return net.add("Flatten", [x], (1, int(np.prod(net.shapes[x][1:]))), axis=1)


def _dense(net: Layers, x: str, out: int, operator: str = "Gemm") -> str:
    width = net.shapes[x][-1]
    return net.add(operator, [x, net.constant(width, out)], (*net.shapes[x][:-1], out))


def _normed_rows(net: Layers) -> str:
    return net.norm(_dense(net, _rows(net), 7))


def _normed_product(net: Layers) -> str:
    product = _dense(net, _rows(net), 7, "MatMul")
    return net.norm(net.then("Add", product, net.constant(7)))


def _tokens(net: Layers) -> str:
    return net.reshaped(net.transposed("x", 0, 2, 3, 1), 0, 64, 3)


def _scaled_product(net: Layers) -> str:
    net.shapes["t"] = (1, 64, 3)
    tokens = _tokens(net)
    net.shapes[tokens] = (1, 64, 3)
    product = _dense(net, tokens, 5, "MatMul")
    return net.then("Mul", net.then("Add", product, net.constant(5)), net.constant(5))


def _biased(net: Layers) -> str:
    made = net.add("Conv", ["x", net.constant(4, 3, 1, 1)], (1, 4, 8, 8))
    return net.then("Sub", net.then("Add", made, net.constant(4, 1, 1)), net.number(0.5))


def _before(net: Layers) -> str:
    return net.window("Conv", net.norm("x"))


def _gated_before(net: Layers) -> str:
    """Batch normalization is no piece of anything, whatever comes before."""
    return net.window("Conv", net.norm(net.then("Mul", "x", net.then("Sigmoid", "x"))))


def _scaled_before(net: Layers) -> str:
    return net.conv(net.then("Div", "x", net.number([[[2.0]], [[3.0]], [[4.0]]])), 5)


def _rows_before(net: Layers) -> str:
    return _dense(net, net.norm(_rows(net)), 4)


def _padded_average(net: Layers) -> str:
    return net.window("AveragePool", net.padded("x", ends=(0, 1)))


def _padded_largest(net: Layers) -> str:
    return net.window("MaxPool", net.padded(net.then("Relu", "x")))


def _noops(net: Layers) -> str:
    y = net.then("Dropout", net.then("Identity", net.then("Sigmoid", "x")))
    y = net.then("Cast", net.then("Transpose", y, perm=[0, 1, 2, 3]), to=1)
    y = net.then("Slice", y, net.integers(0), net.integers(8), net.integers(2))
    y = net.then("Resize", net.reshaped(y, 0, 3, 8, 8), "", net.number([1, 1, 1, 1]), mode="linear")
    net.shapes[y] = net.shapes["x"]
    return net.then("Exp", net.then("Mul", net.then("Concat", y, axis=1), net.number(1)))


def _there_and_back(net: Layers) -> str:
    y = net.then("Relu", net.transposed(net.then("Sigmoid", "x"), 0, 2, 3, 1))
    return net.then("Tanh", net.transposed(y, 0, 3, 1, 2))


def _turned_twice(net: Layers) -> str:
    return net.transposed(net.transposed("x", 0, 2, 3, 1), 0, 2, 1, 3)


def _reshaped_twice(net: Layers) -> str:
    y = net.reshaped(net.reshaped(net.then("Sigmoid", "x"), 1, 3, 64), 1, 12, 16)
    return net.add(
        "Squeeze", [net.add("Unsqueeze", [y, net.integers(1)], (1, 1, 12, 16)), net.integers(1)], (1, 12, 16)
    )


def _to_rows(net: Layers) -> str:
    net.shapes["rows"] = (1, 192)
    return net.reshaped("x", 1, 192)


def _twice(net: Layers) -> str:
    a, b = (net.then("Exp", net.then("Mul", "x", net.number(0.5))) for _ in range(2))
    return net.then("Sub", net.then("Sqrt", a), b)


def _collapsed(net: Layers) -> str:
    return net.conv(net.conv("x", 16), 2, kernel=1)


def _collapsed_stride(net: Layers) -> str:
    return net.conv(net.conv("x", 16, stride=2), 2, kernel=1, stride=2)


def _collapsed_before(net: Layers) -> str:
    wide = net.add("Conv", ["x", net.constant(20, 3, 1, 1)], (1, 20, 8, 8))
    return net.conv(wide, 4)


def _averaged(net: Layers) -> str:
    y = net.window("AveragePool", net.conv("x", 4, kernel=1), 2, strides=[2, 2])
    net.shapes[y] = (1, 4, 4, 4)
    return net.then("Relu", y)


def _averaged_whole(net: Layers) -> str:
    return net.add("GlobalAveragePool", [net.conv("x", 4, kernel=1)], (1, 4, 1, 1))


def _hard_sigmoid(net: Layers) -> str:
    six = net.then("Clip", net.then("Add", "x", net.number(3)), net.number(0), net.number(6))
    return net.then("Div", six, net.number(6))


def _hard_swish(net: Layers) -> str:
    six = net.then("Clip", net.add("Add", [net.number(3), "x"], net.shapes["x"]), net.number(0), net.number(6))
    return net.then("Mul", net.then("Mul", "x", six), net.number(1 / 6))


def _averaged_widely(net: Layers) -> str:
    """Many channels to few, at nearly as many places: averages of the few are cheaper."""
    return net.window("AveragePool", net.conv(net.then("Relu", net.conv("x", 32)), 2, kernel=1), 3)


def _hard_swish_gated(net: Layers) -> str:
    return net.then("Mul", _hard_sigmoid(net), "x")


def _gelu(net: Layers) -> str:
    inner = net.then("Erf", net.then("Div", "x", net.number(2**0.5)))
    return net.then("Mul", net.then("Mul", "x", net.then("Add", inner, net.number(1))), net.number(0.5))


def _layer_norm(net: Layers, axes: tuple[int, ...] = (-1,)) -> str:
    small = (1, 3, 8, 1)
    less = net.then("Sub", "x", net.add("ReduceMean", ["x"], small, axes=list(axes)))
    spread = net.add("ReduceMean", [net.then("Pow", less, net.number(2))], small, axes=list(axes))
    root = net.add("Sqrt", [net.add("Add", [spread, net.number(1e-5)], small)], small)
    return net.then("Add", net.then("Mul", net.then("Div", less, root), net.constant(8)), net.constant(1, 8))


def _mean(net: Layers) -> str:
    return net.add("ReduceMean", ["x"], (1, 3), axes=[2, -1], keepdims=0)


def _mean_kept(net: Layers) -> str:
    return net.add("ReduceMean", ["x"], (1, 3, 1, 1), axes=[2, 3])


def _mean_window(net: Layers) -> str:
    return net.window("AveragePool", "x", 8)


def _bounds(net: Layers) -> str:
    y = net.then("Min", net.then("Max", "x", net.number(0)), net.number(6))
    return net.then("Relu", net.then("Relu", y))


def _softmax(net: Layers) -> str:
    small = (1, 1, 8, 8)
    y = net.then("Exp", net.then("Sub", "x", net.add("ReduceMax", ["x"], small, axes=[1])))
    y = net.then("Div", y, net.add("ReduceSum", [y, net.integers(1)], small))
    return net.then("Log", y)


CASES: dict[str, tuple[Callable[[Layers], str], int, str, dict[str, int]]] = {
    "normalized": (lambda n: n.norm(n.conv("x", 4)), 17, "folded into the layer before", {"Conv": 1}),
    "normalized groups": (lambda n: n.norm(n.conv("x", 6, group=3)), 17, "folded into the layer before", {"Conv": 1}),
    "normalized transposed": (_transposed_conv, 17, "folded into the layer before", {"ConvTranspose": 1}),
    "normalized transposed groups": (_grouped, 17, "folded into the layer before", {"Conv": 1, "ConvTranspose": 1}),
    "normalized rows": (_normed_rows, 17, "folded into the layer before", {"Flatten": 1, "Gemm": 1}),
    "normalized product": (_normed_product, 17, "folded into the layer before", {"Flatten": 1, "Gemm": 1}),
    "scaled product": (
        _scaled_product,
        17,
        "folded into the layer before",
        {"Transpose": 1, "Reshape": 1, "MatMul": 1, "Add": 1},
    ),
    "biased": (_biased, 17, "folded into the layer before", {"Conv": 1}),
    "normalized before": (_before, 17, "folded into the layer after", {"Conv": 1}),
    "gated and normalized before": (
        _gated_before,
        17,
        "folded into the layer after",
        {"Sigmoid": 1, "Mul": 1, "Conv": 1},
    ),
    "scaled before": (_scaled_before, 17, "folded into the layer after", {"Conv": 1}),
    "rows normalized before": (_rows_before, 17, "folded into the layer after", {"Flatten": 1, "Gemm": 1}),
    "padded": (lambda n: n.window("Conv", n.padded("x", ends=(0, 2))), 17, "padding folded", {"Conv": 1}),
    "padded average": (_padded_average, 17, "padding folded", {"AveragePool": 1}),
    "padded largest": (_padded_largest, 17, "padding folded", {"Relu": 1, "MaxPool": 1}),
    "padded with the least": (
        lambda n: n.window("MaxPool", n.padded("x", -np.inf)),
        17,
        "padding folded",
        {"MaxPool": 1},
    ),
    "superfluous": (_noops, 17, "superfluous", {"Sigmoid": 1, "Exp": 1}),
    "there and back": (_there_and_back, 17, "transpositions merged", {"Sigmoid": 1, "Relu": 1, "Tanh": 1}),
    "turned twice": (_turned_twice, 17, "transpositions merged", {"Transpose": 1}),
    "reshaped twice": (_reshaped_twice, 17, "views merged", {"Sigmoid": 1, "Reshape": 1}),
    "rows": (_to_rows, 17, "reshaped to rows", {"Flatten": 1}),
    "twice": (_twice, 17, "computed twice", {"Mul": 1, "Exp": 1, "Sqrt": 1, "Sub": 1}),
    "collapsed": (_collapsed, 17, "convolutions collapsed", {"Conv": 1}),
    "collapsed with strides": (_collapsed_stride, 17, "convolutions collapsed", {"Conv": 1}),
    "collapsed before": (_collapsed_before, 17, "convolutions collapsed", {"Conv": 1}),
    "averaged": (_averaged, 17, "averaged first", {"AveragePool": 1, "Conv": 1, "Relu": 1}),
    "averaged over all": (_averaged_whole, 17, "averaged first", {"GlobalAveragePool": 1, "Conv": 1}),
    "hard sigmoid": (_hard_sigmoid, 13, "hard sigmoid", {"HardSigmoid": 1}),
    "hard swish": (_hard_swish, 14, "hard swish", {"HardSwish": 1}),
    "hard swish by its gate": (_hard_swish_gated, 17, "hard swish", {"HardSwish": 1}),
    "gelu": (_gelu, 20, "gelu", {"Gelu": 1}),
    "layer normalization": (_layer_norm, 17, "layer normalization", {"LayerNormalization": 1}),
    "mean": (_mean, 17, "global average", {"GlobalAveragePool": 1, "Flatten": 1}),
    "mean kept": (_mean_kept, 17, "global average", {"GlobalAveragePool": 1}),
    "mean by a window": (_mean_window, 17, "global average", {"GlobalAveragePool": 1}),
    "bounds": (_bounds, 17, "bounds merged", {"Clip": 1}),
    "softmax": (_softmax, 17, "softmax", {"LogSoftmax": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_each_rewrite_takes_its_nodes_away(case: str, tmp_path: Path) -> None:
    build, opset, called, left = CASES[case]
    net = Layers()
    made, counts = fused(net.graph(tmp_path, build(net), opset=opset))
    assert counts[called]
    assert operators(made) == left


# Where it would be wrong, or of no use.


def _shifted_into_padding(net: Layers) -> str:
    return net.conv(net.norm("x"), 4)


def _wide_point_then_padded(net: Layers) -> str:
    return net.conv(net.conv("x", 20, kernel=1), 4)


def _narrow(net: Layers) -> str:
    """A bottleneck: two thin ones are cheaper than one thick."""
    return net.conv(net.conv(net.conv("x", 16), 2), 16, kernel=1)


def _read_by_others(net: Layers) -> str:
    y = net.conv("x", 3)
    return net.then("Mul", net.norm(y), y)


def _padded_with_one(net: Layers) -> str:
    return net.window("Conv", net.padded("x", 1.0))


def _padded_below(net: Layers) -> str:
    return net.window("MaxPool", net.padded("x"))


def _silu(net: Layers) -> str:
    return net.then("Mul", "x", net.then("Sigmoid", "x"))


def _gelu_then_product(net: Layers) -> str:
    return net.window("Conv", _gelu(net))


def _normed_otherwise(net: Layers) -> str:
    return net.then("Relu", net.norm(net.then("Relu", "x")))


LEFT: dict[str, tuple[Callable[[Layers], str], int]] = {
    "an offset before padding": (_shifted_into_padding, 17),
    "a bias before padding": (_wide_point_then_padded, 17),
    "averages of few": (_averaged_widely, 17),
    "a bottleneck": (_narrow, 17),
    "read by others": (_read_by_others, 17),
    "padded with ones": (_padded_with_one, 17),
    "padded above what is there": (_padded_below, 17),
    "x times its sigmoid": (_silu, 17),
    "gelu before it was an operator": (_gelu, 17),
    "gelu before a layer": (_gelu_then_product, 17),
    "hard swish before it was an operator": (_hard_swish, 13),
    "layer normalization before it was an operator": (_layer_norm, 16),
    "nothing beside": (_normed_otherwise, 17),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left_as_it_is(case: str, tmp_path: Path) -> None:
    build, opset = LEFT[case]
    net = Layers()
    found = net.graph(tmp_path, build(net), opset=opset)
    assert operators(fuse(found)) == operators(found)


def test_dead_nodes_go_and_answers_keep_their_names(tmp_path: Path) -> None:
    net = Layers()
    y = net.then("Identity", net.then("Sigmoid", "x"))
    straight = net.then("Identity", "x")
    found = net.graph(tmp_path, y, straight)
    dead = Graph(found.nodes, found.constants, found.values, found.inputs, (y,), found.opset)
    made, _ = fused(found)
    assert made.outputs == found.outputs
    assert operators(made) == {"Sigmoid": 1, "Identity": 1}
    made, counts = fused(dead)
    assert operators(made) == {"Sigmoid": 1}
    assert counts == {"dead": 1, "superfluous": 1}


def test_what_is_one_only_because_the_batch_is_stays(tmp_path: Path) -> None:
    """A slice of the first, a transposition of the batch with a channel: nothing at one, something at three."""
    net = Layers()
    y = net.then("Slice", net.then("Relu", "x"), net.integers(0), net.integers(1), net.integers(0))
    found = net.graph(tmp_path, y)
    assert operators(fuse(found)) == {"Relu": 1, "Slice": 1}


def test_what_later_opsets_say_otherwise(tmp_path: Path) -> None:
    """Settings that are inputs today were attributes once."""
    net = Layers()
    pad = net.add("Pad", ["x"], (1, 3, 10, 10), pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0)
    y = net.then("Clip", net.then("Relu", net.window("Conv", pad)), min=-1.0, max=6.0)
    ends = [net.then("Softmax", net.conv(y, channels), axis=3) for channels in (2, 4)]
    found = net.graph(tmp_path, *ends, opset=10)
    made, counts = fused(found)
    assert counts == {"padding folded": 1, "bounds merged": 1, "siblings merged": 1}
    assert operators(made) == {"Conv": 2, "Clip": 1, "Split": 1, "Softmax": 2}
    assert made.opset == 10


def _heads(net: Layers, *then: str) -> list[str]:
    ends = [net.conv("x", channels) for channels in (4, 2, 6)]
    return [net.then(operator, end) for operator, end in zip(then, ends, strict=True)] if then else ends


def test_siblings_are_divided_behind_what_all_of_them_have(tmp_path: Path) -> None:
    net = Layers()
    ends = [net.window("MaxPool", end) for end in _heads(net, "Relu", "Relu", "Relu")]
    found = net.graph(tmp_path, *ends)
    made, counts = fused(found)
    assert counts["siblings merged"] == 2
    assert [node.operator for node in made.nodes][:3] == ["Conv", "Relu", "Split"]
    assert operators(made) == {"Conv": 1, "Relu": 1, "Split": 1, "MaxPool": 3}
    assert operators(fuse(found, siblings=False)) == operators(found)
    assert operators(applied(found, pays=lambda _: False)[0]) == operators(found)


@pytest.mark.parametrize(
    ("sizes", "pays"), [((16, 32), False), ((192, 96, 16), False), ((8, 4, 20), True), ((17, 15), True)]
)
def test_siblings_are_divided_only_where_together_they_fill_blocks_of_channels(
    sizes: tuple[int, ...], pays: bool, tmp_path: Path
) -> None:
    net = Layers()
    found = net.graph(tmp_path, *(net.window("MaxPool", net.conv("x", channels)) for channels in sizes))
    assert operators(fuse(found))["Conv"] == (1 if pays else len(sizes))
    joined = net.graph(tmp_path, net.add("Concat", [net.conv("x", 16), net.conv("x", 32)], (1, 48, 8, 8), axis=1))
    assert operators(fuse(joined)) == {"Conv": 1}, "nothing to divide, so nothing to lose"


def test_siblings_that_are_put_together_anyway_are_not_divided(tmp_path: Path) -> None:
    net = Layers()
    a, b, c = _heads(net, "Relu", "Relu", "Relu")
    seen: list[Siblings] = []
    found = net.graph(tmp_path, net.add("Concat", ["x", c, a, b], (1, 15, 8, 8), axis=1))
    made, _ = fused(found, pays=lambda those: bool(seen.append(those)) or those.joined)
    assert operators(made) == {"Conv": 1, "Relu": 1, "Concat": 1}
    assert seen[0] == Siblings((1, 3, 8, 8), ((1, 6, 8, 8), (1, 4, 8, 8), (1, 2, 8, 8)), joined=True)


def test_siblings_with_activations_of_their_own_stay_apart(tmp_path: Path) -> None:
    net = Layers()
    found = net.graph(tmp_path, *_heads(net, "Relu", "Sigmoid", "Tanh"))
    assert fuse(found) is found


def test_settings_are_shared_and_weights_are_not(tmp_path: Path) -> None:
    """Whoever prunes later finds every layer with weights of its own."""
    net = Layers()
    y = net.conv("x", 8)
    for _ in range(2):
        y = net.conv(net.then("Clip", y, net.number(0), net.number(6)), 8)
    found = net.graph(tmp_path, y)
    # Two layers whose weights happen to be equal.
    first, second = [node.inputs[1] for node in found.nodes if node.operator == "Conv"][1:]
    constants = {**found.constants, second: found.constants[first].copy()}
    found = Graph(found.nodes, constants, found.values, found.inputs, found.outputs, found.opset)
    made, counts = fused(found)
    assert counts == {"settings shared": 2}
    assert len(coupled(made)) == len(coupled(found)) > 0
