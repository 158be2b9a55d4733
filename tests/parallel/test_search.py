"""Which ways there are over some targets, and what each should cost."""

from __future__ import annotations

import pytest

from edgewise.core.text import parse_placement, parse_target
from edgewise.core.ways import Way, chosen
from edgewise.parallel.search import Costs, expected_ns, own_threads, ways, without_each

ONE, TWO = parse_target("ort:cpu:fp32@1#0"), parse_target("ort:cpu:fp32@1#1")
OTHER = parse_target("openvino:cpu:fp32@1#1")
KINDS = ("split", "deal")


def test_each_alone_the_engine_s_own_threads_and_all_together() -> None:
    assert [str(way) for way in ways((ONE, TWO), "latency", KINDS)] == [
        "ort:cpu:fp32@1#0",
        "ort:cpu:fp32@1#1",
        "ort:cpu:fp32@2#0+1",
        "split(ort:cpu:fp32@1#0, ort:cpu:fp32@1#1)",
    ]
    assert [way.kind for way in ways((ONE, TWO), "throughput", KINDS)] == ["single"] * 3 + ["deal"]


def test_different_engines_have_no_threads_of_their_own_together() -> None:
    assert own_threads((ONE, OTHER)) == []
    gpu = parse_target("torch:cuda.0:fp16")
    assert own_threads((gpu, gpu)) == []


def test_a_stream_is_tried_without_each_kind_of_target() -> None:
    gpu = parse_target("torch:cuda.0:fp16")
    assert [str(way) for way in without_each((gpu, ONE, TWO))] == ["deal(ort:cpu:fp32@1#0, ort:cpu:fp32@1#1)"]
    # One that is left is there already, alone.
    assert without_each((ONE, OTHER)) == []


def test_what_is_expected_follows_from_what_each_takes_alone() -> None:
    costs = Costs({ONE: 20.0, OTHER: 30.0}, exchanges=4, exchange_ns=0.5)
    together = "(ort:cpu:fp32@1#0, openvino:cpu:fp32@1#1)"
    assert expected_ns(parse_placement("ort:cpu:fp32@1#0"), costs) == 20.0
    assert expected_ns(parse_placement(f"deal{together}"), costs) == pytest.approx(12.0)
    assert expected_ns(parse_placement(f"split{together}"), costs) == pytest.approx(14.0)
    assert expected_ns(parse_placement("ort:cpu:fp32@2"), costs) is None
    assert expected_ns(parse_placement(f"split{together}"), Costs(costs.alone_ns)) is None
    # Stages find out for themselves.
    assert expected_ns(parse_placement(f"stages{together}"), costs) is None


def test_one_target_is_chosen_unless_something_is_faster_for_sure() -> None:
    single = Way("latency", 0, parse_placement("ort:cpu:fp32@2"), 10.0)
    split = parse_placement("split(ort:cpu:fp32@1#0, ort:cpu:fp32@1#1)")
    perhaps = Way("latency", 0, split, 9.0, ratio=(0.99, 1.1, 1.2), than="ort:cpu:fp32@2")
    surely = Way("latency", 0, split, 9.0, ratio=(1.05, 1.1, 1.2), than="ort:cpu:fp32@2")
    assert chosen((single, perhaps), "latency", 0) is single
    assert chosen((single, surely), "latency", 0) is surely
    assert chosen((single, surely), "latency", 1) is None
    assert chosen((surely,), "throughput", 0) is None
