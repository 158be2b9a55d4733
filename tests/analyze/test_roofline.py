"""Planted layers on each side of the roof and far below it; operators are joined with nodes where names allow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted import machine, measured, noise

from edgewise.analyze import roofline
from edgewise.analyze._joined import join
from edgewise.analyze.evidence import Costed, Evidence
from edgewise.core.profile import OpTime, Profile
from edgewise.core.roofs import Roof, Roofs, Traffic, place
from edgewise.core.text import parse_placement, parse_scenario, parse_target
from edgewise.core.types import Agreement, Section, Task
from edgewise.model.cost import Cost, NodeCost
from edgewise.report.sentences import sentence

# 100 GFLOP/s and 10 GB/s: the ridge is at 10 FLOP/B.
ROOFS = Roofs(
    "m",
    "cpu",
    1,
    (
        Roof("compute", "fp32", 100e9, 99e9, "planted"),
        Roof("compute", "int8", 400e9, 399e9, "planted"),
        Roof("memory", "memory", 10e9, 9e9, "planted"),
        Roof("memory", "memory copy", 8e9, 8e9, "planted"),
        Roof("memory", "L2", 50e9, 50e9, "planted"),
    ),
    (("bf16", "this processor has none"),),
)
MS = 1_000_000


def node(name: str, operator: str, flops: int, weights: int = 0, read: int = 0, written: int = 0) -> NodeCost:
    return NodeCost(name, operator, (1,), 0, flops // 2, flops, weights, read, written, written)


# At their roofs: the convolution 10 ms, the product 4 ms, the sum 0.1 ms.
NODES = (
    node("conv_0", "Conv", 10**9, weights=10**6, read=10**6, written=10**6),
    node("relu_1", "Relu", 10**5, read=10**6, written=10**6),
    node("gemm_2", "Gemm", 2 * 10**7, weights=4 * 10**7),
    node("add_3", "Add", 1000, read=10**6 // 2, written=10**6 // 2),
)
COSTED = Costed("digest of net", "net", 1, Cost(NODES, (), 17, 0, 0, 0))
FLOPS = sum(each.flops or 0 for each in NODES)
TIMES = noise(22 * MS)
MEASURED = measured("ort:cpu:fp32@1", TIMES)


def profiled(ops: tuple[OpTime, ...], target: str = "ort:cpu:fp32@1") -> Profile:
    task = Task("digest of net", parse_placement(target), parse_scenario("single"))
    return Profile(task, "m", (), ops, (22 * MS,) * 3, (23 * MS,) * 3, "net")


def op(name: str, operator: str, ms: float) -> OpTime:
    return OpTime(name, operator, (int(ms * MS),) * 3)


PROFILE = profiled((op("conv_0", "Conv", 12.5), op("gemm_2", "Gemm", 5), op("add_3", "Add", 2), op("Copy", "Copy", 2)))
EVIDENCE = Evidence(
    {"m": machine()}, measurements=(MEASURED,), profiles=(PROFILE,), roofs=(ROOFS,), costs={"digest of net": COSTED}
)


def cells(section: Section, layer: str) -> dict[str, object]:
    names = [column.name for column in section.columns]
    (row,) = [row for row in section.rows if row[names.index("layer")] == layer]
    return dict(zip(names, row, strict=True))


def said(section: Section) -> str:
    return "\n".join(map(sentence, section.findings))


def test_layers_are_bound_by_what_was_planted() -> None:
    section = roofline.run(EVIDENCE)
    conv, gemm, add = (cells(section, name) for name in ("conv_0", "gemm_2", "add_3"))
    assert (conv["bound"], gemm["bound"], add["bound"]) == ("compute", "memory", "neither")
    assert conv["of_roof"] == pytest.approx(0.8) and conv["roof"] == 100e9
    assert conv["intensity"] == pytest.approx(10**9 / (3 * 10**6))
    assert gemm["of_roof"] == pytest.approx(0.8) and gemm["roof"] == pytest.approx(0.5 * 10e9)
    assert gemm["reached"] == pytest.approx(4e9) and gemm["intensity"] == 0.5
    assert add["of_roof"] == pytest.approx(0.05)
    assert conv["share"] == pytest.approx(12.5 / 22)
    # The slowest layer first, below the network.
    assert [row[4] for row in section.rows] == [roofline.WHOLE, "conv_0", "gemm_2", "add_3"]


def test_the_whole_network_is_set_beside_its_roof() -> None:
    whole = cells(roofline.run(EVIDENCE), roofline.WHOLE)
    assert whole["reached"] == pytest.approx(1.0201e9 / 22e-3, rel=0.01)
    assert whole["intensity"] == pytest.approx(1.020101e9 / 46e6)
    assert whole["bound"] == "compute" and whole["counted_intensity"] is None


def test_what_there_is_to_say() -> None:
    text = said(roofline.run(EVIDENCE))
    assert "of the time in layers 64 % compute-bound, 26 % memory-bound, 10 % neither" in text
    assert "91 % of the operators' time is of 3 layers" in text
    assert "fp32 100 GFLOP/s" in text and "memory 10.0 GB/s" in text and "with 1 thread," in text
    assert "no roof for bf16: this processor has none" in text
    assert "above the roof" not in text


def test_charts_show_roofs_and_points() -> None:
    networks, layers = roofline.run(EVIDENCE).charts
    assert networks.x.log and networks.y.log
    assert [(series.name, series.stroke) for series in networks.series] == [("net", "none"), ("fp32 roof", "dash")]
    roof = networks.series[-1]
    assert roof.y[1:] == (100e9, 100e9) and roof.y[0] == pytest.approx(float(roof.x[0]) * 10e9)
    assert {s.name for s in layers.series} == {
        "compute-bound",
        "memory-bound",
        "neither bound",
        "fp32 roof",
        "L2 and fp32",
    }


def test_a_layer_above_the_roof_was_served_by_a_cache() -> None:
    profile = profiled((op("conv_0", "Conv", 12.5), op("gemm_2", "Gemm", 1)))
    section = roofline.run(Evidence(**{**_parts(), "profiles": (profile,)}))
    assert cells(section, "gemm_2")["of_roof"] == pytest.approx(4.0)
    assert "gemm_2 at 400 % of it: their bytes came from a cache" in said(section)


def test_counted_bytes_stand_beside_those_of_the_graph() -> None:
    task = MEASURED.task
    moved = Traffic(task.subject, "net", task.placement, task.scenario, "m", "ncu", 10**8, 3)
    section = roofline.run(Evidence(**{**_parts(), "traffic": (moved,)}))
    assert cells(section, roofline.WHOLE)["counted_intensity"] == pytest.approx(10.20101)
    assert "net, bytes counted" in [series.name for series in section.charts[0].series]
    nothing = Traffic(task.subject, "net", task.placement, task.scenario, "m", "perf", None, 0, "no counters here")
    section = roofline.run(Evidence(**{**_parts(), "traffic": (nothing,)}))
    assert "not known (perf): no counters here" in said(section)


def _parts() -> dict[str, object]:
    return {name: getattr(EVIDENCE, name) for name in ("machines", "measurements", "profiles", "roofs", "costs")}


def test_bytes_counted_under_another_protocol_are_the_same_bytes() -> None:
    where = (parse_placement("ort:cpu:fp32@1"), parse_scenario("single(max_s=3)"), "m", "ncu")
    moved = Traffic("digest of net", "net", *where, 10**7, 3)
    evidence = replace(EVIDENCE, traffic=(moved,))
    assert cells(roofline.run(evidence), roofline.WHOLE)["counted_intensity"] == pytest.approx(FLOPS / 10**7)


def test_what_ran_beside_others_or_answers_wrong_is_not_set_beside_a_roof() -> None:
    disturbed = measured("ort:cpu:fp32@1", noise(44 * MS), scenario="single(contention=1*memory)")
    wrong = measured("ort:cpu:fp32@1", noise(44 * MS), agreement=Agreement(1.0, 1.0, 0.5, 1.0, 0, 10))
    section = roofline.run(replace(EVIDENCE, measurements=(MEASURED, disturbed, wrong)))
    assert cells(section, roofline.WHOLE)["time"] == pytest.approx(22 * MS, rel=0.02)


def test_a_target_told_not_to_use_amx_is_measured_against_what_there_is_without() -> None:
    tiles = Roof("compute", "int8", 4000e9, 3900e9, "tdpbusd (amx_int8), 1 process")
    vectors = Roof("compute", "int8 without AMX", 400e9, 399e9, "vpdpbusd zmm (avx512_vnni), 1 process")
    roofs = replace(ROOFS, roofs=(tiles, vectors, ROOFS.roofs[2]))

    def roof(target: str) -> object:
        section = roofline.run(replace(EVIDENCE, roofs=(roofs,), profiles=(), measurements=(measured(target, TIMES),)))
        assert "int8 4.00 TFLOP/s by tdpbusd (amx_int8), int8 without AMX 400 GFLOP/s by vpdpbusd zmm" in said(section)
        return max(series.y[-1] for series in section.charts[0].series if series.stroke == "dash")

    assert roof("openvino:cpu:int8@1") == 4000e9
    assert roof("openvino:cpu:int8@1{isa=avx512_core_vnni}") == 400e9


def test_batch_and_precision_change_bytes() -> None:
    """Weights are read once for the whole batch, and a byte instead of four in int8."""
    batch = measured("ort:cpu:int8@1", noise(22 * MS), scenario="single(batch=8)")
    section = roofline.run(Evidence(**{**_parts(), "measurements": (batch,), "profiles": ()}))
    weights, activations = 41 * 10**6, 5 * 10**6
    assert section.rows[0][6] == pytest.approx(8 * 1.020101e9 / ((weights + 8 * activations) / 4))
    assert section.rows[0][9] == 400e9


def test_without_a_roof_for_it_a_target_is_left_out() -> None:
    others = tuple(measured(target, noise(22 * MS)) for target in ("ort:cpu:bf16@1", "ort:cpu:fp32@2"))
    section = roofline.run(Evidence(**{**_parts(), "measurements": (*others, MEASURED)}))
    assert len({row[3] for row in section.rows}) == 1
    assert [finding.code for finding in section.findings].count("no_roof") == 2
    assert "no roof was measured for bf16 on cpu with 1 thread" in said(section)


@pytest.mark.parametrize("without", ["roofs", "costs", "measurements"])
def test_nothing_to_draw_is_said(without: str) -> None:
    empty: object = {} if without == "costs" else ()
    section = roofline.run(Evidence(**{**_parts(), without: empty}))
    assert not section.rows and not section.charts
    assert [finding.code for finding in section.findings] == ["absent"]
    assert "edgewise roofline" in str(section.findings[0]["command"])


def test_roofs_are_found_by_the_processor() -> None:
    assert [place(parse_target(text)) for text in ("ort", "ort:cpu.big@2", "ort:cpu@2#0+2", "torch:cuda.0:fp16")] == [
        "cpu",
        "cpu.big",
        "cpu#0+2",
        "cuda.0",
    ]


GRAPH = tuple(
    node(f"{kind.lower()}_{i}", kind, 1000, read=1)
    for i, kind in enumerate(("Conv", "Relu", "MaxPool", "Conv", "Conv", "Add", "Relu", "Conv", "Relu", "Gemm"))
)


def joined(engine: str, *ops: tuple[str, str]) -> dict[str, str]:
    times = [op(name, operator, 1) for name, operator in ops]
    return {ops[i][0]: GRAPH[n].name for i, n in join(times, GRAPH, engine).items()}


def test_names_are_joined_exactly_or_as_a_whole_part() -> None:
    found = joined("openvino", ("conv_0/WithoutBiases", "Convolution"), ("maxpool_2", "MaxPool"), ("add_5", "Eltwise"))
    assert found == {"conv_0/WithoutBiases": "conv_0", "maxpool_2": "maxpool_2", "add_5": "add_5"}
    assert joined("x", ("conv_30", "Conv"), ("xconv_3", "Conv"), ("conv_3b", "Conv")) == {}


def test_what_is_done_to_an_input_is_not_the_layer() -> None:
    assert joined("openvino", ("input_abcd_acdb_conv_0/WithoutBiases", "Reorder"), ("conv_0_raster_0", "Raster")) == {}
    assert joined("mnn", ("conv_0", "Raster")) == {}


def test_a_fused_operator_named_after_its_last_node_belongs_to_its_own_kind() -> None:
    found = joined("ort", ("relu_1_nchwc", "Conv"), ("maxpool_2_nchwc", "MaxPool"), ("relu_8_nchwc", "Conv"))
    # conv_3, conv_4 and conv_7 all lie before relu_8 and nobody accounts for them: no guess is made.
    assert found == {"relu_1_nchwc": "conv_0", "maxpool_2_nchwc": "maxpool_2"}
    found = joined("ort", ("conv_3_nchwc", "Conv"), ("conv_4_nchwc", "Conv"), ("relu_8_nchwc", "Conv"))
    assert found["relu_8_nchwc"] == "conv_7"


def test_names_of_an_engine_s_own_are_not_believed() -> None:
    names = [("conv_7", "Convolution"), ("relu_6", "ReLU"), ("conv_4", "Convolution"), ("conv_3", "Convolution")]
    assert joined("other", *names) == {}
    assert joined("ncnn", ("conv_0", "Convolution")) == {}
