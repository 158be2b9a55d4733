"""ONNX Runtime: arrays lent instead of copied, operators timed, and what becomes of each node."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.core.errors import EngineFailure, InputError, Unsupported
from edgewise.core.profile import Spans
from edgewise.core.protocols import Array, Profiled
from edgewise.core.types import Device, Model, Target
from edgewise.engines import ort
from edgewise.engines._cases import cases, expected
from edgewise.engines._ort.session import CPU, XNNPACK, stopped_by, times, whole
from edgewise.engines._ort.support import verdicts
from edgewise.model.load import inspect

LENT = Target("ort", "cpu", "fp32", 1, options=(("copy", "off"),))
PLAIN = Target("ort", "cpu", "fp32", 1)


def saved(proto: onnx.ModelProto, folder: Path, name: str = "model") -> Model:
    onnx.save(proto, str(folder / f"{name}.onnx"))
    return inspect(str(folder / f"{name}.onnx"))


def case(name: str, folder: Path) -> tuple[Model, dict[str, Array]]:
    found = next(case for case in cases() if case.name == name)
    return saved(found.model, folder, name), {key: array.copy() for key, array in found.feeds.items()}


def network(
    nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto], kind: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 6, 6])
    weights = [
        numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w"),
        numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float64), "w64"),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], outputs, weights), opset_imports=opsets, ir_version=8)


def out(rank: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info("y", kind, [None] * rank)


@pytest.mark.parametrize("name", ["two_inputs_two_outputs", "identity", "embedding", "split", "topk", "attention"])
def test_lent_arrays_give_the_same_answers(tmp_path: Path, name: str) -> None:
    model, feeds = case(name, tmp_path)
    plain, lent = ort.load(model, PLAIN), ort.load(model, LENT)
    for _ in range(3):
        for key, answer in plain.run(feeds).items():
            assert np.array_equal(lent.run(feeds)[key], answer)
        for array in feeds.values():
            array[...] = array[::-1].copy()
    lent.close()
    lent.close()
    with pytest.raises(InputError, match="closed"):
        lent.run(feeds)


def test_lent_outputs_stay_in_place_and_survive_close(tmp_path: Path) -> None:
    model, feeds = case("classifier", tmp_path)
    lent = ort.load(model, LENT)
    first = lent.run(feeds)["softmax5_0"]
    kept = first.copy()
    second = lent.run({name: -array for name, array in feeds.items()})["softmax5_0"]
    assert np.shares_memory(first, second)
    assert not np.array_equal(first, kept)
    lent.close()
    assert second.sum() == pytest.approx(len(second))


def test_lent_inputs_may_be_of_other_sizes_views_or_read_only(tmp_path: Path) -> None:
    found = next(case for case in cases() if case.name == "classifier")
    lent = ort.load(saved(found.model, tmp_path), LENT)
    whole = np.random.default_rng(0).standard_normal((6, 3, 8, 6)).astype(np.float32)
    frozen = whole[:2].copy()
    frozen.flags.writeable = False
    for x in (whole[:1], whole[:3], whole[::2], whole[..., ::-1], np.asfortranarray(whole[:3]), frozen, frozen):
        assert np.allclose(lent.run({"x0": x})["softmax5_0"], expected(found, {"x0": x})["softmax5_0"], atol=1e-5)
    with pytest.raises(InputError, match="x0"):
        lent.run({"x0": whole[0]})
    with pytest.raises(InputError, match="stranger"):
        lent.run({"x0": frozen, "stranger": frozen})


def test_lent_outputs_whose_size_follows_from_values(tmp_path: Path) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    lent = ort.load(saved(network([node], [out(2, TensorProto.INT64)]), tmp_path), LENT)
    x = np.zeros((1, 3, 6, 6), np.float32)
    for count in (2, 5, 0, 5):
        x[...] = 0
        x.reshape(-1)[:count] = 1
        assert lent.run({"x": x})["y"].shape == (4, count)


def test_text_cannot_be_lent(tmp_path: Path) -> None:
    text = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", text[:1], text[1:])
    model = saved(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path)
    with pytest.raises(Unsupported, match="'x' holds text"):
        ort.load(model, LENT)


def test_the_profile_has_every_node_and_run(tmp_path: Path) -> None:
    model, feeds = case("residual", tmp_path)
    timed = ort.profile(model, PLAIN)
    assert isinstance(timed, Profiled)
    for _ in range(5):
        timed.run(feeds)
    ops = timed.ops()
    assert sum(op.operator in ("Conv", "FusedConv") for op in ops) == 3
    assert all(len(op.samples_ns) == 5 and op.device == "cpu" for op in ops)
    timed.run(feeds)  # still runs, no longer timed
    assert timed.ops() == ops
    timed.close()
    timed.close()
    assert timed.ops() == ops


def test_a_profile_that_was_never_asked_for_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = case("residual", tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    timed = ort.profile(model, PLAIN)
    timed.run(feeds)
    timed.close()
    assert list(folder.iterdir()) == []
    with pytest.raises(InputError, match="closed"):
        timed.ops()


def test_a_profile_is_summed_by_node_and_run() -> None:
    def node(name: str, operator: str, index: int, us: int, ep: str = CPU) -> dict[str, object]:
        facts = {"op_name": operator, "provider": ep, "node_index": str(index)}
        return {"cat": "Node", "name": f"{name}_kernel_time", "dur": us, "args": facts}

    over = {"cat": "Session", "name": "model_run", "dur": 99, "args": {}}
    events = [
        {"cat": "Session", "name": "session_initialization", "dur": 500, "args": {}},
        *(node("", "Add", 1, 3), node("", "Add", 2, 4), node("loop", "Loop", 3, 50), node("body", "Mul", 0, 5)),
        *(node("body", "Mul", 0, 6), over),
        *(node("", "Add", 1, 7), node("far", "Conv", 4, 8, "CUDAExecutionProvider"), over),
    ]
    ops = times(json.loads(json.dumps(events)), {CPU: "cpu", "CUDAExecutionProvider": "cuda.0"})
    assert [(op.name, op.operator, op.samples_ns, op.device) for op in ops] == [
        ("", "Add", (3000, 7000), "cpu"),
        ("", "Add", (4000, 0), "cpu"),
        ("body", "Mul", (11000, 0), "cpu"),
        ("far", "Conv", (0, 8000), "cuda.0"),
    ]


def test_a_run_is_told_apart_from_the_executor_in_it() -> None:
    """A loop's body has an executor of its own, which finishes first."""
    events = [
        *({"name": "SequentialExecutor::Execute", "dur": us} for us in (5, 90)),
        {"name": "model_run", "dur": 99},
        {"name": "SequentialExecutor::Execute", "dur": 80},
        {"name": "model_run", "dur": 88},
    ]
    assert whole(events) == Spans((99_000, 88_000), (90_000, 80_000))


def test_support_names_what_is_missing_and_judges_the_rest(tmp_path: Path) -> None:
    """Neither a stranger nor a Conv of doubles hides the other nodes; some have no name."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Strange", ["a"], ["b"], domain="nowhere"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("Conv", ["d", "w64"], ["e"], "wide"),
        helper.make_node("Cast", ["e"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["c", "f"], ["y"], "sum"),
    ]
    model = saved(network(nodes, [out(4)]), tmp_path)
    found = {verdict.node: verdict for verdict in ort.support(model, PLAIN)}
    assert {name: verdict.verdict for name, verdict in found.items()} == {
        "first": "supported", "b": "rejected", "c": "supported", "d": "supported", "wide": "rejected",
        "f": "supported", "sum": "supported",
    }  # fmt: skip
    assert "Strange" in found["b"].reason
    assert "Conv(11)" in found["wide"].reason
    with pytest.raises(Unsupported, match="Strange"):
        ort.load(model, PLAIN)


def test_support_of_a_model_with_external_data(tmp_path: Path) -> None:
    model, _ = case("residual", tmp_path)
    outside = tmp_path / "outside.onnx"
    onnx.save(onnx.load(model.path), str(outside), save_as_external_data=True, location="w.bin", size_threshold=0)
    found = ort.support(inspect(str(outside)), PLAIN)
    assert {verdict.verdict for verdict in found} == {"supported"}


def test_what_the_cpu_takes_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = case("residual", tmp_path)
    monkeypatch.setattr("edgewise.engines._ort.support.opened", lambda *_: None)

    class Placed:
        name = "Conv_0"

    monkeypatch.setattr("edgewise.engines._ort.support.placed", lambda _: [(CPU, Placed)])
    first, second, *_ = verdicts(model, PLAIN, XNNPACK, {}, "cpu")
    assert (first.node, first.verdict, first.device) == ("Conv_0", "falls back", "cpu")
    assert XNNPACK in first.reason
    assert (second.verdict, "merged" in second.reason) == ("supported", True)


def test_a_model_that_is_broken_otherwise_is_rejected_as_a_whole(tmp_path: Path) -> None:
    model, _ = case("residual", tmp_path)
    proto = onnx.load(model.path)
    proto.graph.node[-1].input[0] = "nothing"
    onnx.save(proto, model.path)
    found = ort.support(model, PLAIN)
    assert {verdict.verdict for verdict in found} == {"rejected"}
    assert "nothing" in found[0].reason


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("Could not find an implementation for Conv(11) node with name 'c1'", ("Conv", "c1")),
        (
            "Type 'tensor(bfloat16)' of input parameter (x) of operator (Softsign) in node (k) is invalid.",
            ("Softsign", "k"),
        ),
        ("Fatal error: com.acme:Foo(-1) is not a registered function/op", ("Foo", None)),
        ("In Node, (f, Foo) , Error No Op registered for Foo with domain_version of 17", ("Foo", None)),
        ("Load model from m.onnx failed: Protobuf parsing failed.", None),
    ],
)
def test_the_operator_in_a_message(message: str, found: tuple[str, str | None] | None) -> None:
    assert stopped_by(message) == found


def test_core_ml_is_an_engine_of_its_own() -> None:
    assert "coreml" not in {device.name for device in ort.devices()}
    assert ort.variants(Device("cuda.0", "gpu")) == ()


def test_a_run_that_fails_says_what_failed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], "bad")]
    proto = network(nodes, [out(2)])
    proto.graph.initializer.append(numpy_helper.from_array(np.array([7, 7], np.int64), "shape"))
    x = {"x": np.zeros((1, 3, 6, 6), np.float32)}
    model = saved(proto, tmp_path)
    for target in (PLAIN, LENT):
        with pytest.raises(EngineFailure, match="bad"):
            ort.load(model, target).run(x)


def test_several_in_one_process_do_not_take_cores_from_each_other() -> None:
    two = Target("ort", "cpu", "fp32", 2)
    assert ort.among(two).option("spin") == "run", "idle threads of one would look for work while the next one runs"
    assert ort.among(PLAIN) == PLAIN, "nobody to wait"
    chosen = Target("ort", "cpu", "fp32", 2, options=(("spin", "off"),))
    assert ort.among(chosen) == chosen, "who says something else gets that"
