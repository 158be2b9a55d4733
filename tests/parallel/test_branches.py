"""Branches of one inference side by side: found where they are, planned within bounds, and the answers of the whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise import zoo
from edgewise.core.errors import EdgewiseError, EngineFailure, Unsupported, WorkerTimeout
from edgewise.core.protocols import Spread, Streams
from edgewise.core.text import parse_placement
from edgewise.core.types import Model
from edgewise.model import feeds as noise
from edgewise.model.graph import fixed, graph
from edgewise.model.load import inspect
from edgewise.parallel.build import build
from edgewise.parallel.stages.abreast import Branches, Planned
from edgewise.parallel.stages.branches import Slot, bound, makespan, schedule
from edgewise.parallel.stages.chains import Pieces, chains
from edgewise.parallel.stages.lanes import Step, lanes
from edgewise.parallel.stages.pieces import Whole
from edgewise.parallel.stages.regions import BEGIN, regions, successors
from networks import Network, whole

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

ORT = "ort:cpu:fp32@1"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    folder = tmp_path_factory.mktemp("zoo")

    def make(name: str) -> Whole:
        path = folder / f"{name}.onnx"
        zoo.export(name=name, path=str(path))
        model = inspect(str(path))
        found = Whole(graph(fixed(model, noise.shapes(model))))
        path.unlink()
        return found

    return make


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("squeezenet1_1", [2] * 8),
        ("googlenet", [4] * 9),
        ("inception_v3", [4, 4, 4, 3, 4, 4, 4, 4, 3, 4, 2, 2, 4, 2, 2]),
        ("resnet50", [2] * 4),
        ("mobilenet_v2", []),
    ],
)
def test_regions_of_well_known_networks(network: Callable[[str], Whole], name: str, expected: list[int]) -> None:
    """Fire modules, Inception blocks (in the last ones branches fork again), the shortcuts that have a convolution; a
    shortcut that has nothing is no branch."""
    found = network(name)
    those = regions(found)
    assert [len(region.branches) for region in those] == expected
    assert chains(found).branching == bool(expected)
    for region in those:
        _check_region(found, region)


def test_regions_of_cells_that_read_the_last_two(network: Callable[[str], Whole]) -> None:
    found = network("nasnetamobile")
    those = regions(found)
    assert len(those) > 50
    assert max(len(region.branches) for region in those) >= 3
    pieces = chains(found)
    assert pieces.branching and len(pieces.nodes) <= 64
    _check_pieces(found, pieces)


def _check_region(found: Whole, region: Any) -> None:
    after = successors(found)
    homes = {place: number for number, branch in enumerate(region.branches) for place in branch}
    for place, home in homes.items():
        # Whatever follows is of the same branch, or the join.
        assert all(homes.get(each, home) == home and (each in homes or each == region.join) for each in after[place])
    assert region.fork == BEGIN or region.fork < min(homes)
    assert all(place < region.join for place in homes)


def _check_pieces(found: Whole, pieces: Pieces) -> None:
    nodes = [node for piece in pieces.nodes for node in piece]
    assert sorted(nodes) == list(range(len(found.graph.nodes)))
    home = {node: number for number, piece in enumerate(pieces.nodes) for node in piece}
    for number, piece in enumerate(pieces.nodes):
        reads = {home[found.maker[name]] for name in found.takes(piece) if name in found.maker}
        assert reads == set(pieces.needs[number])
        assert all(each < number for each in reads)


@pytest.mark.parametrize("seed", range(8))
def test_pieces_of_random_networks(tmp_path: Path, seed: int) -> None:
    found = Whole(graph(Network(seed).save(tmp_path / "m.onnx", layers=8)))
    for most in (1, 3, 8, 64):
        pieces = chains(found, most)
        assert len(pieces.nodes) <= most
        _check_pieces(found, pieces)
    for region in regions(found):
        _check_region(found, region)


def test_what_has_no_size_beforehand_stays_in_one_piece(tmp_path: Path) -> None:
    """NonZero finds as many as there are: its reader is in its own piece, and so is all between the two."""
    import onnx
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="a"),
        helper.make_node("NonZero", ["a"], ["n"], name="n"),
        helper.make_node("Neg", ["n"], ["m"], name="m"),
        helper.make_node("Add", ["n", "m"], ["s"], name="s"),
        helper.make_node("ReduceSum", ["s"], ["r"], name="r", keepdims=0),
        helper.make_node("Exp", ["a"], ["e"], name="e"),
        helper.make_node("Sqrt", ["a"], ["q"], name="q"),
        helper.make_node("Add", ["e", "q"], ["y"], name="y"),
    ]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", "y")]
    last = helper.make_tensor_value_info("r", TensorProto.INT64, [])
    made = helper.make_graph(nodes, "g", info[:1], [info[1], last])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "n.onnx")
    found = Whole(graph(inspect(str(tmp_path / "n.onnx"))))
    pieces = chains(found)
    _check_pieces(found, pieces)
    place = {node.name: number for number, node in enumerate(found.graph.nodes)}
    home = {node: number for number, piece in enumerate(pieces.nodes) for node in piece}
    assert len({home[place[name]] for name in "nmsr"}) == 1
    assert home[place["e"]] != home[place["q"]]


def _run(steps: list[list[Step]], needs: dict[int, list[int]], pieces: int) -> None:
    """Everybody as far as it gets, until all are done: nobody reads what is not made, nobody waits for ever."""
    at, made = [0] * len(steps), set[int]()
    while any(done < len(lane) for done, lane in zip(at, steps, strict=True)):
        moved = False
        for target, lane in enumerate(steps):
            while at[target] < len(lane) and all(at[other] >= upto for other, upto in lane[at[target]].waits):
                for piece in lane[at[target]].pieces:
                    assert all(each in made for each in needs[piece])
                    made.add(piece)
                at[target] += 1
                moved = True
        assert moved
    assert made == set(range(pieces))


@given(st.data())
def test_steps_of_any_schedule_can_be_run(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 9))
    targets = data.draw(st.integers(2, 3))
    cost = st.floats(0, 10) | st.none()
    costs = data.draw(st.lists(st.lists(cost, min_size=targets, max_size=targets), min_size=count, max_size=count))
    needs = {piece: sorted(data.draw(st.sets(st.integers(0, piece - 1)))) if piece else [] for piece in range(count)}
    hop = data.draw(st.floats(0, 2))
    slots = schedule(costs, needs, lambda a, b, there, here: hop)
    if not slots:
        return
    assert makespan(slots) >= bound(costs, needs) - 1e-9
    _run(lanes(slots, needs, targets), needs, count)


def test_pieces_that_make_nobody_wait_are_one_step() -> None:
    needs = {0: [], 1: [0], 2: [0], 3: [2], 4: [1, 3]}
    slots = [Slot(0, 0, 0, 1), Slot(1, 0, 1, 2), Slot(2, 1, 1, 2), Slot(3, 1, 2, 3), Slot(4, 0, 3, 4)]
    first, second = lanes(slots, needs, 2)
    assert [step.pieces for step in first] == [(0,), (1,), (4,)]
    assert [step.waits for step in first] == [(), (), ((1, 1),)]
    assert second == [Step((2, 3), ((0, 1),))]


@pytest.fixture
def branches() -> Iterator[Callable[..., Branches]]:
    opened: list[Branches] = []

    def make(model: Model, text: str, planning: Any = None, timeout_s: float = 60.0) -> Branches:
        placement = parse_placement(text)
        opened.append(Branches([(model, ())] * len(placement.parts), placement, timeout_s, planning))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("branches") / "m.onnx"
    for seed in range(50):
        made = Network(seed).save(path, layers=6)
        if any(len(region.branches) > 2 for region in regions(Whole(graph(made)))):
            return made
    raise AssertionError("no random network with branches")


def feeds(model: Model, seed: int = 1) -> dict[str, Any]:
    return {t.name: np.random.default_rng(seed).standard_normal(t.shape).astype(np.float32) for t in model.inputs}


def even(pieces: Pieces) -> Planned:
    """As if all pieces took the same everywhere."""
    costs: list[list[float | None]] = [[1.0, 1.0] for _ in pieces.nodes]
    return Planned(tuple(schedule(costs, pieces.needs)), bound(costs, pieces.needs))


def scattered(pieces: Pieces) -> Planned:
    """One after another, each somewhere else than the one before."""
    slots = [Slot(number, number % 2, float(number), float(number + 1)) for number in range(len(pieces.nodes))]
    return Planned(tuple(slots), 0.0)


def check(model: Model, executable: Branches, frames: int = 20) -> None:
    for seed in range(frames):
        answer = executable.run(feeds(model, seed))
        for name, array in whole(model, feeds(model, seed)).items():
            np.testing.assert_allclose(answer[name], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("planning", [even, scattered])
def test_processes_answer_like_the_whole(model: Model, branches: Callable[..., Branches], planning: Any) -> None:
    executable = branches(model, f"branches({ORT}, {ORT})", planning)
    assert isinstance(executable, Spread) and not isinstance(executable, Streams)
    assert all(executable.lanes)
    check(model, executable)


@pytest.mark.parametrize("seed", [2, 5, 7])
def test_random_networks(tmp_path: Path, branches: Callable[..., Branches], seed: int) -> None:
    model = Network(seed).save(tmp_path / "m.onnx", layers=8)
    if chains(Whole(graph(model))).branching:
        check(model, branches(model, f"branches({ORT}, {ORT})", scattered), 3)


def test_costs_decide(model: Model, branches: Callable[..., Branches]) -> None:
    executable = branches(model, f"branches({ORT}, {ORT})")
    check(model, executable, 5)
    plan = executable.planned
    assert makespan(plan.slots) >= plan.bound_ns > 0
    assert len(plan.alone_ns) == 2 and None not in plan.alone_ns
    assert any("regions with branches" in note for note in executable.ran().notes)


def test_who_rejects_an_operator_gets_no_piece_with_it(model: Model, branches: Callable[..., Branches]) -> None:
    executable = branches(model, f"branches({ORT}, null:cpu:fp32@1{{refuse=Gemm,over=ort}})")
    check(model, executable, 3)
    nodes = graph(model).nodes
    for slot in executable.planned.slots:
        if slot.target == 1:
            assert "Gemm" not in {nodes[node].operator for node in executable.pieces.nodes[slot.piece]}
    assert executable.planned.alone_ns[1] is None


def test_who_dies_or_hangs_is_an_error_with_its_reason(model: Model, branches: Callable[..., Branches]) -> None:
    executable = branches(model, f"branches({ORT}, {ORT})", even)
    executable.run(feeds(model))
    (pid,) = executable.pids
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EdgewiseError, match="died by SIGKILL"):
        executable.run(feeds(model))
    with pytest.raises(EngineFailure, match="closed"):
        executable.run(feeds(model))
    executable = branches(model, f"branches({ORT}, null:cpu@1{{fail=run,at=3}})", even)
    with pytest.raises(EngineFailure, match="told to fail"):
        for _ in range(5):
            executable.run(feeds(model))
    executable = branches(model, f"branches({ORT}, null:cpu@1{{hang=run,at=3}})", even, timeout_s=3.0)
    with pytest.raises(WorkerTimeout, match="did not come back"):
        for _ in range(5):
            executable.run(feeds(model))
    assert not executable.pids


def test_a_chain_has_no_branches(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", "z")]
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="r"), helper.make_node("Exp", ["y"], ["z"], name="e")]
    made = helper.make_graph(nodes, "g", info[:1], info[1:])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "r.onnx")
    chain = inspect(str(tmp_path / "r.onnx"))
    with pytest.raises(Unsupported, match="has no branches"):
        build(chain, parse_placement(f"branches({ORT}, {ORT})"), [(chain, ())] * 2)
    with pytest.raises(Unsupported, match="take no shares"):
        build(chain, parse_placement(f"branches({ORT}=0.5, {ORT}=0.5)"), [(chain, ())] * 2)
