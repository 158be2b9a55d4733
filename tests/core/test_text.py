"""Text forms: what is written is read back, what is wrong is refused with the expected form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.core import text
from edgewise.core.errors import InputError
from edgewise.core.types import (
    CONTENTION_KINDS,
    INPUT_KINDS,
    PRECISIONS,
    Contention,
    Part,
    Placement,
    Recipe,
    Scenario,
    Step,
    Target,
)

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
devices = st.one_of(
    names.filter(lambda name: name not in PRECISIONS),
    st.builds("{}.{}".format, names, st.from_regex(r"[a-z0-9_]{1,4}", fullmatch=True)),
    st.builds("{}({}+{})".format, names, names, names),
)
cores = st.lists(st.integers(0, 255), max_size=4, unique=True).map(tuple)
values = st.from_regex(r"[A-Za-z0-9_.+-]{1,8}", fullmatch=True)
options = st.dictionaries(names, values, max_size=3).map(lambda d: tuple(sorted(d.items())))
targets = st.builds(
    Target,
    names,
    st.none() | devices,
    st.none() | st.sampled_from(PRECISIONS),
    st.none() | st.integers(1, 99),
    cores,
    options,
)
shares = st.none() | st.floats(0.01, 0.99)
placements = st.one_of(
    targets.map(Placement.single),
    st.builds(
        Placement,
        st.sampled_from(["deal", "split", "stages", "branches"]),
        st.lists(st.builds(Part, targets, shares), min_size=2, max_size=4).map(tuple),
        st.none() | st.from_regex(r"[0-9a-f]{6,12}", fullmatch=True),
    ),
)
contentions = st.builds(Contention, st.sampled_from(CONTENTION_KINDS), st.integers(1, 9), cores)
seconds = st.floats(0, 1e6, allow_nan=False)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kind = draw(st.sampled_from(["single", "concurrent", "server", "offline"]))
    least, most = sorted((draw(seconds), draw(seconds)))
    runs = sorted((draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6))))
    return Scenario(
        kind,
        batch=draw(st.integers(1, 512)),
        n=draw(st.integers(1, 8)) if kind in ("concurrent", "server") else 1,
        rate_hz=draw(st.floats(0.01, 1e6)) if kind == "server" else None,
        warmup=draw(st.none() | st.integers(0, 1000)),
        min_runs=runs[0],
        max_runs=draw(st.none() | st.just(runs[1])),
        min_s=least,
        max_s=most,
        width=draw(st.floats(0, 0.99)),
        contention=draw(st.none() | contentions),
        cooldown_s=draw(seconds),
        seed=draw(st.integers(0, 2**31)),
        input=draw(st.sampled_from(INPUT_KINDS)),
    )


@given(targets)
def test_target_round_trip(target: Target) -> None:
    assert text.parse_target(str(target)) == target


@given(placements)
def test_placement_round_trip(placement: Placement) -> None:
    assert text.parse_placement(str(placement)) == placement


@given(scenarios())
def test_scenario_round_trip(scenario: Scenario) -> None:
    assert text.parse_scenario(str(scenario)) == scenario


@given(contentions)
def test_contention_round_trip(contention: Contention) -> None:
    assert text.parse_contention(str(contention)) == contention


@given(st.lists(st.builds(Step, names, options), min_size=1, max_size=4).map(tuple).map(Recipe))
def test_recipe_round_trip(recipe: Recipe) -> None:
    assert text.parse_recipe(str(recipe)) == recipe


@pytest.mark.parametrize(
    "written",
    [
        "ort",
        "ort:cpu@2",
        "ort:cpu.big@4",
        "openvino:cpu:int8@1#0",
        "openvino:cpu@2#0+2",
        "torch:cuda.0:fp16",
        "coreml:cpu_and_ne",
        "openvino:multi(cpu+gpu)",
        "ort:cpu{ep=xnnpack}",
        "ort:int8",
        "deal(ort:cpu@1#0, openvino:cpu@1#1)",
        "deal(ort:cpu@1#0, ort:cpu@1#1)",
        "deal(torch:cuda.0:fp16, 14*ort:cpu:int8@1#1)",
        "deal(3*ort:cpu@2#0+1, 4*ort:cpu@1#6)",
        "deal(ort, ort, ort)",
        "split(ort=0.6, openvino=0.4)",
        "stages(ort, openvino, cut=@3f2a91)",
    ],
)
def test_documented_forms(written: str) -> None:
    assert str(text.parse_placement(written)) == written


def test_several_alike_stand_on_cores_one_after_the_other() -> None:
    few = text.parse_placement("deal(openvino:cpu@1#0, 2*ort:cpu@2#1+2, 2 * ort)")
    assert [str(each) for each in few.targets] == ["openvino:cpu@1#0", "ort:cpu@2#1+2", "ort:cpu@2#3+4", "ort", "ort"]
    shares = text.parse_placement("split(4*ort:cpu@1#0=0.25)")
    assert [part.share for part in shares.parts] == [0.25] * 4
    assert str(shares) == "split(4*ort:cpu@1#0=0.25)"
    with pytest.raises(InputError):
        text.parse_placement("deal(0*ort:cpu@1#0)")


def test_documented_recipe() -> None:
    written = "fuse | prune(ratio=0.3) | lowrank(energy=0.95) | quantize(precision=int8)"
    assert str(text.parse_recipe(written)) == written


@pytest.mark.parametrize(
    "written",
    ["single", "single(batch=8)", "single(input=white)", "concurrent(n=4)", "server(rate_hz=200)", "offline"],
)
def test_documented_scenarios(written: str) -> None:
    assert str(text.parse_scenario(written)) == written


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "Ort",
        "ort:",
        "ort:cpu:fp33",
        "ort@0",
        "ort@x",
        "ort#",
        "ort#0+0",
        "ort{ep}",
        "ort{a=1,a=2}",
        "ort cpu",
        "ort:cpu:int8:x",
    ],
)
def test_wrong_targets_are_refused(wrong: str) -> None:
    with pytest.raises(InputError):
        text.parse_target(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        "doubled",
        "single(batch=0)",
        "single(max_runs=0)",
        "single(cooldown_s=-1)",
        "single(batch=1.5)",
        "single(colour=red)",
        "server",
        "single(rate_hz=3)",
        "single(n=2)",
        "single(batch)",
        "single(min_s=9, max_s=1)",
        "single(max_s=nan)",
        "server(rate_hz=-1)",
        "single(contention=3*laziness)",
        "single(input=black)",
    ],
)
def test_wrong_scenarios_are_refused(wrong: str) -> None:
    with pytest.raises(InputError):
        text.parse_scenario(wrong)


@given(st.text(max_size=40))
def test_any_text_is_a_placement_or_an_input_error(anything: str) -> None:
    for parse in (text.parse_placement, text.parse_scenario, text.parse_recipe, text.parse_contention):
        try:
            parse(anything)
        except InputError as error:
            assert error.message


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("20min", 1200), ("1h30min", 5400), ("0.5h", 1800), ("1h 2min 3s", 3723), ("1.5s", 1.5)],
)
def test_durations(written: str, seconds: float) -> None:
    assert text.parse_duration(written) == seconds


@pytest.mark.parametrize("wrong", ["", "20", "min", "20m", "0s", "-5s", "1..5s", "20min1h", "inf"])
def test_wrong_durations_are_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="expected such as 90s, 20min or 1h30min"):
        text.parse_duration(wrong)


def test_an_error_lists_the_valid_ones() -> None:
    with pytest.raises(InputError, match="fp32, tf32, fp16, bf16, int8"):
        text.parse_target("ort:cpu:fp8")
    with pytest.raises(InputError, match="single, concurrent, server, offline"):
        text.parse_scenario("burst")
