"""What fewer bits buy, on planted measurements: int8 that pays, bf16 that costs, conversions that eat it."""

from __future__ import annotations

import numpy as np
from planted import machine, measured, noise

from edgewise.analyze import quantization
from edgewise.analyze.evidence import Evidence
from edgewise.core.evaluation import Answers, Evaluation
from edgewise.core.profile import OpTime, Profile
from edgewise.core.types import Agreement, Measurement, Section
from edgewise.report.sentences import sentence

FP32 = measured("ort:cpu:fp32@1", noise(4e6), peak_bytes=100)
INT8 = measured("ort:cpu:int8@1{isa=avx2}", noise(1e6, seed=1), peak_bytes=40)
BF16 = measured("ort:cpu:bf16@1", noise(6e6, seed=2))
SAME = measured("ort:cpu:fp16@1", noise(4e6, seed=3))


def rows(section: Section) -> list[dict[str, object]]:
    return [dict(zip((column.name for column in section.columns), row, strict=True)) for row in section.rows]


def evaluated(m: Measurement, right: int, images: int = 100) -> Evaluation:
    ranked = tuple((0,) if i < right else (1,) for i in range(images))
    answers = Answers((0,) * images, ranked, (1.0,) * images, 0, 0, 0, images, 2)
    task = m.task
    return Evaluation(task.subject, task.placement, m.machine, (), "d", images, "", "", (), (answers,), m.label, "d")


def test_precisions_are_paired_on_the_same_engine_whatever_settings_they_need() -> None:
    section = quantization.run(Evidence({"m": machine()}, measurements=(FP32, INT8, BF16, SAME)))
    found = {row["precision"]: row for row in rows(section)}
    assert found["int8"]["engine"] == "ort:cpu@1" and found["int8"]["machine"] == "machine m"
    assert 3.9 < float(str(found["int8"]["speed"])) < 4.1
    assert found["int8"]["memory"] == 0.4
    assert [f.code for f in section.findings] == ["precision_pays", "precision_costs", "precision_even"]
    assert "int8 is 4.0" in sentence(section.findings[0])
    assert {series.name for series in section.charts[0].series} == {"int8", "bf16", "fp16"}


def test_a_drift_leaves_no_claim_and_no_interval() -> None:
    drifting = measured("ort:cpu:int8@1", noise(1e6, seed=1) * np.linspace(1, 1.5, 1000))
    section = quantization.run(Evidence({"m": machine()}, measurements=(FP32, drifting)))
    assert [f.code for f in section.findings] == ["precision_unsure"]
    assert "but one of the two drifted" in sentence(section.findings[0])
    assert rows(section)[1]["interval"] is None


def test_what_converting_eats_is_said() -> None:
    ops = (OpTime("q", "QuantizeLinear", (300, 300)), OpTime("c", "Conv", (700, 700)))
    profile = Profile(INT8.task, "m", (), ops, (1000, 1000), (1100, 1100), "net")
    section = quantization.run(Evidence(measurements=(FP32, INT8), profiles=(profile,)))
    assert rows(section)[1]["converting"] == 0.3
    assert "changing formats takes 30 % of an inference" in sentence(section.findings[0])


def test_gains_and_losses_are_drawn_by_kind_of_operator() -> None:
    slow = Profile(FP32.task, "m", (), (OpTime("c", "Conv", (4000,)),), (4000,), (4000,), "net")
    ops = (OpTime("q", "QuantizeLinear", (300,)), OpTime("c", "QLinearConv", (700,)))
    quick = Profile(INT8.task, "m", (), ops, (1000,), (1100,), "net")
    section = quantization.run(Evidence(measurements=(FP32, INT8), profiles=(slow, quick)))
    fp32, int8 = section.charts[-1].series
    assert fp32.x == ("convolution", "conversion")
    assert (fp32.y, int8.y) == ((4000.0, 0.0), (700.0, 300.0))


def test_accuracy_is_paired_with_fp32_on_the_same_images() -> None:
    evidence = Evidence(measurements=(FP32, INT8), evaluations=(evaluated(FP32, 90), evaluated(INT8, 88)))
    fp32, int8 = rows(quantization.run(evidence))
    assert (fp32["top1"], fp32["difference"]) == (0.9, None)
    assert int8["top1"] == 0.88 and round(float(str(int8["difference"])), 4) == -0.02


def test_other_engines_are_not_compared_with_each_other() -> None:
    other = measured("openvino:cpu:int8@1", noise(1e6))
    assert quantization.run(Evidence(measurements=(FP32, other))).rows == ()


def test_wrong_answers_buy_nothing() -> None:
    broken = measured("ort:cpu:int8@1", noise(1e6), agreement=None)
    assert len(quantization.run(Evidence(measurements=(FP32, broken))).rows) == 2
    overflow = measured("ort:cpu:int8@1", noise(1e6), agreement=Agreement(1.0, 1.0, 1.0, 1.0, 5, 10))
    assert quantization.run(Evidence(measurements=(FP32, overflow))).rows == ()


def test_nothing_to_compare_says_how_to_get_it() -> None:
    for evidence in (Evidence(), Evidence(measurements=(FP32,))):
        assert [f.code for f in quantization.run(evidence).findings] == ["absent"]
