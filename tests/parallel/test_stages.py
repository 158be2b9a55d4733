"""A model cut into stages: the same answers as the whole, in order, wherever it is cut and whoever dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.core.errors import EdgewiseError, EngineFailure, InputError, Unsupported, WorkerCrashed
from edgewise.core.protocols import Reports, Streams
from edgewise.core.text import parse_placement
from edgewise.core.types import Model
from edgewise.model.graph import graph
from edgewise.model.load import inspect
from edgewise.parallel.build import build
from edgewise.parallel.stages.choose import Chosen
from edgewise.parallel.stages.executable import Stages
from edgewise.parallel.stages.pieces import Whole, piece
from edgewise.parallel.stages.pipeline import Stage, by_shares, pipeline, refined, slowest
from edgewise.parallel.stages.units import Units, units
from networks import Network, whole

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

ORT = "ort:cpu:fp32@1"


@pytest.fixture
def stages() -> Iterator[Callable[..., Stages]]:
    opened: list[Stages] = []

    def make(model: Model, text: str, choosing: Any = None, timeout_s: float = 60.0) -> Stages:
        placement = parse_placement(text)
        opened.append(Stages([(model, ())] * len(placement.parts), placement, timeout_s, choosing))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Network(3).save(tmp_path_factory.mktemp("stages") / "m.onnx", layers=6)


def feeds(model: Model, seed: int = 1) -> dict[str, Any]:
    return {t.name: np.random.default_rng(seed).standard_normal(t.shape).astype(np.float32) for t in model.inputs}


def at(*edges: int) -> Callable[[Units], Chosen]:
    """Cut behind these units, targets in order."""

    def choosing(row: Units) -> Chosen:
        ends = [0, *edges, len(row)]
        return Chosen(row, tuple(Stage(a, b, n, 0.0) for n, (a, b) in enumerate(pairwise(ends))))

    return choosing


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_cut_anywhere_answer_like_the_whole(tmp_path: Path, seed: int) -> None:
    """In this process, piece after piece, over one store of values: what passes a stage by is there for a later one."""
    model = Network(seed).save(tmp_path / "m.onnx", layers=8)
    row = units(Whole(graph(model)))
    random = np.random.default_rng(seed)
    edges = sorted(random.choice(range(1, len(row)), size=min(3, len(row) - 1), replace=False))
    store = feeds(model)
    expected = whole(model, store)
    for number, (a, b) in enumerate(pairwise([0, *map(int, edges), len(row)])):
        part = piece(row.whole, model, row.nodes(a, b), tmp_path / f"{number}.onnx")
        executable = build(part, parse_placement(ORT))
        store |= executable.run({tensor.name: store[tensor.name] for tensor in part.inputs})
        executable.close()
    for name, array in expected.items():
        np.testing.assert_allclose(store[name], array, rtol=1e-4, atol=1e-4 * np.abs(array).max())


@pytest.mark.parametrize("seed", range(6))
def test_units_are_whole_and_what_is_alive_behind_them_is_what_later_ones_read(tmp_path: Path, seed: int) -> None:
    found = Whole(graph(Network(seed).save(tmp_path / "m.onnx", layers=8)))
    for most in (2, 5, 64):
        row = units(found, most)
        assert 1 < len(row) <= most
        assert row.edges[0] == 0 and row.edges[-1] == len(found.graph.nodes)
        for place, live in zip(row.edges[1:-1], row.cuts, strict=True):
            made = {name for node in found.graph.nodes[:place] for name in node.outputs}
            read = {name for node in found.graph.nodes[place:] for name in node.inputs}
            assert set(live.values) == made & read
            assert live.size_bytes == sum(found.size(name) or 0 for name in live.values)
        assert sum(row.multiply_adds) == sum(found.multiply_adds)


def check(model: Model, executable: Stages, frames: int = 40) -> None:
    expected = [whole(model, feeds(model, seed)) for seed in range(frames)]
    found = 0
    for number, out in enumerate(executable.stream(feeds(model, seed) for seed in range(frames))):
        assert out.number == number
        assert out.delay_ns > 0
        for name, array in expected[number].items():
            np.testing.assert_allclose(out.outputs[name], array, rtol=1e-4, atol=1e-4)
        found += 1
    assert found == frames


def test_a_stream_comes_out_in_order_and_can_be_left(model: Model, stages: Callable[..., Stages]) -> None:
    executable = stages(model, f"stages({ORT}, {ORT}, {ORT})", at(2, 4))
    assert isinstance(executable, Streams) and isinstance(executable, Reports)
    assert len(executable.pids) == 3
    check(model, executable)
    # Seen enough in the middle: the next stream is not answered with what is left of this one.
    left = executable.stream(feeds(model, seed) for seed in count())
    assert [out.number for out in islice(left, 5)] == list(range(5))
    left.close()
    check(model, executable, 10)
    for name, array in whole(model, feeds(model, 7)).items():
        np.testing.assert_allclose(executable.run(feeds(model, 7))[name], array, rtol=1e-4, atol=1e-4)


def test_order_holds_whatever_the_stages_take(model: Model, stages: Callable[..., Stages]) -> None:
    slow = "null:cpu@1{latency=0.1ms+3ms+0.2ms,jitter=0.3,wait=sleep}"
    quick = "null:cpu@1{latency=1ms+0.1ms,jitter=0.3,wait=sleep}"
    for text in (f"stages({slow}, {quick})", f"stages({quick}, {slow})"):
        executable = stages(model, text, at(2))
        seen = [out.number for out in executable.stream(feeds(model) for _ in range(100))]
        assert seen == list(range(100))


def test_no_more_frames_are_read_than_there_are_slots(model: Model, stages: Callable[..., Stages]) -> None:
    executable = stages(model, f"stages({ORT}, {ORT})", at(2))
    read = 0

    def frames() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            read += 1
            yield feeds(model)

    stream = executable.stream(frames())
    for done in range(1, 20):
        next(stream)
        assert read <= done + executable.window
    stream.close()


@pytest.mark.parametrize("kill", [0, 1])
def test_a_stage_that_dies_is_an_error_with_its_reason(model: Model, stages: Callable[..., Stages], kill: int) -> None:
    executable = stages(model, f"stages({ORT}, {ORT})", at(2))
    pids = executable.pids
    stream = executable.stream(feeds(model) for _ in count())
    for _ in range(10):
        next(stream)
    os.kill(pids[kill], signal.SIGKILL)
    with pytest.raises(WorkerCrashed, match="died by SIGKILL"):
        for _ in range(100):
            next(stream)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(WorkerCrashed, match="died by SIGKILL"):
        executable.run(feeds(model))


def test_a_stage_that_crashes_fails_or_hangs(model: Model, stages: Callable[..., Stages]) -> None:
    for fault, reason in (("crash", "died by SIGSEGV"), ("fail", "told to fail"), ("hang", "did not come back")):
        faulty = f"null:cpu@1{{{fault}=run,at=10}}"
        executable = stages(model, f"stages({ORT}, {faulty})", at(2), timeout_s=8.0)
        with pytest.raises(EngineFailure, match=reason):
            list(executable.stream(feeds(model) for _ in range(50)))
        assert not executable.pids


def test_wrong_frames_are_refused_and_the_next_stream_is_fine(model: Model, stages: Callable[..., Stages]) -> None:
    executable = stages(model, f"stages({ORT}, {ORT})", at(2))
    with pytest.raises(InputError, match="'x' is missing"):
        executable.run({})
    check(model, executable, 3)


def test_shares_decide_without_measuring(model: Model, stages: Callable[..., Stages]) -> None:
    executable = stages(model, f"stages({ORT}=0.7, {ORT}=0.3)")
    check(model, executable, 5)
    row, (first, second) = executable.chosen.units, executable.chosen.stages
    work = [sum(row.multiply_adds[s.first : s.last]) for s in (first, second)]
    assert (first.target, second.target) == (0, 1)
    assert work[0] > work[1]
    assert any("shares" in note for note in executable.ran().notes)
    with pytest.raises(InputError, match="share above 0"):
        stages(model, f"stages({ORT}=0.7, {ORT})")


def test_costs_decide_without_shares(model: Model, stages: Callable[..., Stages]) -> None:
    executable = stages(model, f"stages({ORT}, {ORT})")
    check(model, executable, 10)
    assert any("slowest stage" in note for note in executable.ran().notes)
    # And again with shares, as its notes say: the same nodes in the same order of targets.
    placement = parse_placement(f"stages({ORT}, {ORT})")
    chosen = executable.chosen
    if (same := chosen.placement(placement.targets)) is not None:
        again = stages(model, str(same)).chosen
        edges = [[c.units.nodes(stage.first, stage.last) for stage in c.stages] for c in (chosen, again)]
        assert edges[0] == edges[1]


def test_who_rejects_an_operator_gets_no_part_with_it(model: Model, stages: Callable[..., Stages]) -> None:
    picky = "null:cpu:fp32@1{refuse=Gemm,over=ort}"
    executable = stages(model, f"stages({picky}, {ORT})")
    check(model, executable, 5)
    nodes = executable.chosen.units.whole.graph.nodes
    for stage in executable.chosen.stages:
        operators = {nodes[n].operator for n in executable.chosen.units.nodes(stage.first, stage.last)}
        assert stage.target == 1 or "Gemm" not in operators
    with pytest.raises(Unsupported, match="told to refuse Gemm"):
        stages(model, f"stages({ORT}=0.5, {picky}=0.5)")


@pytest.mark.parametrize("name", ["ncnn", "mnn", "litert"])
def test_engines_with_formats_of_their_own_get_their_stage_in_it(
    model: Model, stages: Callable[..., Stages], name: str
) -> None:
    pytest.importorskip({"litert": "ai_edge_litert", "mnn": "MNN"}.get(name, name), reason=f"{name} is not installed")
    executable = stages(model, f"stages({ORT}=0.5, {name}:cpu:fp32@1=0.5)")
    for seed in range(3):
        for key, array in whole(model, feeds(model, seed)).items():
            np.testing.assert_allclose(executable.run(feeds(model, seed))[key], array, rtol=1e-3, atol=1e-3)


def test_a_target_that_runs_nothing_is_refused(model: Model, stages: Callable[..., Stages]) -> None:
    with pytest.raises(EngineFailure, match="told to fail at load"):
        stages(model, f"stages({ORT}, null:cpu@1{{fail=load}})")
    # A unit that takes its process with it costs three tries at most, and then it is said why.
    with pytest.raises(WorkerCrashed, match="SIGSEGV"):
        stages(model, f"stages({ORT}, null:cpu@1{{crash=load}})")


def _single(tmp_path: Path) -> Model:
    import onnx
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", "y")]
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="r")], "g", info[:1], info[1:])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "r.onnx")
    return inspect(str(tmp_path / "r.onnx"))


def test_what_cannot_be_cut_says_so(tmp_path: Path, model: Model) -> None:
    placement = parse_placement(f"stages({ORT}, {ORT})")
    with pytest.raises(Unsupported, match="cannot be cut into stages"):
        build(_single(tmp_path), placement, [(_single(tmp_path), ())] * 2)
    with pytest.raises(Unsupported, match="keeps no cuts"):
        build(model, parse_placement(f"stages({ORT}, {ORT}, cut=@3f2a91)"), [(model, ())] * 2)
    with pytest.raises(Unsupported, match="same file"):
        build(model, placement, [(model, ()), (_single(tmp_path), ())])


def _odd(tmp_path: Path) -> Model:
    """An answer of the first stage, an input of the last, one that every stage but the first passes by, and an answer
    that is no matter of the inputs."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Relu", ["x"], ["early"], name="r"),
        helper.make_node("Softmax", ["early"], ["s"], name="s", axis=1),
        helper.make_node("Exp", ["s"], ["e"], name="e"),
        helper.make_node("Mul", ["e", "z"], ["m"], name="m"),
        helper.make_node("Add", ["m", "early"], ["late"], name="a"),
        helper.make_node("Identity", ["k"], ["known"], name="k"),
    ]
    info = {
        n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in ("x", "z", "early", "late", "known")
    }
    made = helper.make_graph(
        nodes,
        "odd",
        [info["x"], info["z"]],
        [info["early"], info["late"], info["known"]],
        [numpy_helper.from_array(np.full((4, 8), 7, np.float32), "k")],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "o.onnx")
    return inspect(str(tmp_path / "o.onnx"))


@pytest.mark.parametrize("last", [ORT, "null:cpu:fp32@1{over=ort}"])
def test_answers_and_inputs_of_any_stage(tmp_path: Path, stages: Callable[..., Stages], last: str) -> None:
    model = _odd(tmp_path)
    executable = stages(model, f"stages({ORT}=0.3, {ORT}=0.3, {last}=0.4)")
    assert len(executable.pids) == 3
    check(model, executable, 10)


Costs = st.integers(2, 7).flatmap(
    lambda n: st.lists(st.lists(st.floats(0.1, 10), min_size=n, max_size=n), min_size=2, max_size=3)
)


@given(Costs, st.lists(st.floats(0.3, 1.0), min_size=3, max_size=3))
def test_measured_stages_are_never_worse_than_the_first_guess(costs: list[list[float]], factors: list[float]) -> None:
    """Whole stages take a part of what their units take alone, on each target another one."""

    def check(stages: Any) -> list[float | None]:
        return [factors[s.target] * sum(costs[s.target][s.first : s.last]) for s in stages]

    def free(after: int, giver: int, taker: int) -> float:
        return 0.0

    found, tries = refined(costs, free, check)
    assert 1 <= tries <= 4
    first = max(c or 0.0 for c in check(pipeline(costs)))
    assert slowest(found) <= first + 1e-9
    assert [stage.cost for stage in found] == pytest.approx(check(found))


@given(st.lists(st.floats(0, 10), min_size=3, max_size=12), st.lists(st.floats(0.1, 1), min_size=2, max_size=3))
def test_shares_are_met_to_the_nearest_unit(work: list[float], shares: list[float]) -> None:
    found = by_shares(work, shares)
    assert [stage.first for stage in found] == [0, *(stage.last for stage in found[:-1])]
    assert found[-1].last == len(work)
    assert all(stage.last > stage.first for stage in found)
    assert [stage.target for stage in found] == list(range(len(shares)))


def test_too_few_units_for_the_shares(model: Model) -> None:
    assert by_shares([1.0], [0.5, 0.5]) == []
    with pytest.raises(EdgewiseError, match="closed"):
        executable = Stages([(model, ())] * 2, parse_placement(f"stages({ORT}, {ORT})"), choosing=at(1))
        executable.close()
        executable.run(feeds(model))
