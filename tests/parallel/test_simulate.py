"""Streams on a made-up clock, and chips in figures: exact arithmetic, order, nothing lost, the papers' own tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.errors import InputError, Unsupported
from edgewise.parallel.deal.dealer import Line, burst_ns
from edgewise.parallel.simulate import soc as socs
from edgewise.parallel.simulate.contention import DEFAULT, MODELS, Part
from edgewise.parallel.simulate.fit import beside, fit, fitted, steady
from edgewise.parallel.simulate.forecast import Change, Terms, cases, forecast, without_each
from edgewise.parallel.simulate.stream import Streamed, Worker, simulate
from edgewise.reference import table
from edgewise.study.socs import chips

MS = 1_000_000
FEEDING = MODELS[DEFAULT]
CHIPS = ("exynos5422", "kirin970")
# The paper's names of what the files call by their role.
COLUMNS = {
    "exynos5422": {"small": "a7", "big": "a15", "gpu": "t628"},
    "kirin970": {"small": "a53", "big": "a73", "gpu": "g72", "npu": "npu"},
}
OWN = """
source = "measured by hand"
[components.little]
kind = "cpu"
[components.gpu]
kind = "gpu"
clock_hz = 800_000_000
[networks.mine]
per_s = { little = 10, gpu = 40 }
"""


def stream(frame_ms: Sequence[float], frames: int, jitter: float = 0.0, seed: int = 0) -> Streamed:
    return simulate([Worker(str(n), ms * MS) for n, ms in enumerate(frame_ms)], frames, jitter=jitter, seed=seed)


def test_two_alike_do_twice_as_much() -> None:
    one, two = stream((10,), 1000), stream((10, 10), 1000)
    assert one.per_s == pytest.approx(100)
    assert two.per_s == pytest.approx(200)
    assert [worker.frames for worker in two.workers] == [500, 500]
    assert (two.busy(0), two.share(1)) == (1.0, 0.5)


@pytest.mark.parametrize("frame_ms", [(5, 5), (5, 20), (5, 7, 31), (0.2, 3), (40, 100, 450, 700)])
def test_without_spread_it_is_what_arithmetic_says(frame_ms: tuple[float, ...]) -> None:
    found = stream(frame_ms, 3000)
    assert found.per_s == pytest.approx(sum(1e3 / ms for ms in frame_ms), rel=0.005)
    for who, ms in enumerate(frame_ms):
        assert found.share(who) == pytest.approx((1 / ms) / sum(1 / each for each in frame_ms), rel=0.05)
        assert found.busy(who) > 0.98


@given(st.lists(st.floats(1, 60), min_size=1, max_size=4), st.integers(1, 80))
@settings(deadline=None, max_examples=50)
def test_no_burst_is_quicker_than_its_bound(frame_ms: list[float], frames: int) -> None:
    found = stream(frame_ms, frames)
    assert found.bound_ns == pytest.approx(burst_ns(frames, [(0.0, ms * MS) for ms in frame_ms]))
    assert found.bound_ns <= found.elapsed_ns + 1
    # Before the end is known everybody holds two chunks: somebody may hold them too many.
    assert found.elapsed_ns <= found.bound_ns + 2 * max(*frame_ms, 2) * MS + frames


@given(
    st.lists(st.floats(0.5, 30), min_size=1, max_size=4),
    st.integers(1, 150),
    st.floats(0, 0.5),
    st.data(),
)
@settings(deadline=None, max_examples=60)
def test_whoever_dies_or_slows_down_every_frame_comes_out_once(
    frame_ms: list[float], frames: int, jitter: float, data: st.DataObject
) -> None:
    moments = st.none() | st.integers(0, 400 * MS)
    workers = [Worker("immortal", frame_ms[0] * MS, 3.0, data.draw(moments))]
    workers += [Worker(str(ms), ms * MS, 0.5, data.draw(moments), data.draw(moments)) for ms in frame_ms[1:]]
    found = simulate(workers, frames, jitter=jitter)
    assert len(found.delays_ns) == frames == sum(worker.frames for worker in found.workers)
    assert min(found.delays_ns) >= 0
    for worker, did in zip(workers, found.workers, strict=True):
        assert did.alive or worker.dies_ns is not None
        assert did.busy_ns <= found.elapsed_ns


def test_frames_come_out_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    out: list[tuple[int, int]] = []
    counted = Line.delay_ns

    def seen(line: Line, number: int, now_ns: int) -> int:
        out.append((number, now_ns))
        return counted(line, number, now_ns)

    monkeypatch.setattr(Line, "delay_ns", seen)
    workers = [Worker("a", 5 * MS), Worker("b", 20 * MS, dies_ns=700 * MS), Worker("c", 33 * MS, 3.0, 500 * MS)]
    found = simulate(workers, 500, jitter=0.3)
    assert [number for number, _ in out] == list(range(500))
    assert [now for _, now in out] == sorted(now for _, now in out)
    assert not found.workers[1].alive and found.elapsed_ns == out[-1][1]
    assert min(found.delays_ns) > 0 and found.delay_ns(0.5) <= found.delay_ns(0.95) <= max(found.delays_ns)


def test_the_same_seed_gives_the_same_stream_and_another_another() -> None:
    first, again, other = (stream((5, 20), 300, 0.2, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_spread_keeps_the_mean_and_order_costs_little() -> None:
    assert stream((10,), 20_000, 0.3).per_s == pytest.approx(100, rel=0.01)
    found = stream((5, 20), 4000, 0.05)
    assert found.bound_ns / found.elapsed_ns > 0.99
    assert found.delay_ns(0.95) <= 1.5 * 5 * MS


@pytest.mark.parametrize("frame_ms", [(4, 16), (4, 6), (2, 4, 16), (1, 20)])
def test_a_slow_one_is_hardly_ever_late(frame_ms: tuple[int, ...]) -> None:
    """Whose frames differ by a tenth: who waits for the next answer does not see that somebody slow had it."""
    run = simulate([Worker(str(each), each * MS) for each in frame_ms], 1500, jitter=0.1)
    assert run.per_s > 0.98 * sum(1e9 / (each * MS) for each in frame_ms)
    assert run.delay_ns(0.95) < 1.35 * min(frame_ms) * MS


def test_one_that_slows_down_gets_fewer_frames_and_one_that_dies_none() -> None:
    halved = simulate([Worker("a", 10 * MS, 2.0, 0), Worker("b", 10 * MS)], 600)
    assert halved.per_s == pytest.approx(150, rel=0.02)
    dead = simulate([Worker("a", 10 * MS, dies_ns=0), Worker("b", 10 * MS)], 200)
    assert [worker.frames for worker in dead.workers] == [0, 200]
    assert [worker.alive for worker in dead.workers] == [False, True]


def test_a_stream_without_anybody_left_is_refused() -> None:
    with pytest.raises(InputError, match=r"nobody is left after \d+ of 50 frames"):
        simulate([Worker("a", 10 * MS, dies_ns=100 * MS)], 50)
    for bad in ({"frames": 0}, {"frames": 1, "jitter": -1.0}, {"frames": 1, "jitter": math.nan}):
        with pytest.raises(InputError):
            simulate([Worker("a", MS)], **bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no worker"):
        simulate([], 1)
    with pytest.raises(InputError, match="frame_ns of a is 0"):
        Worker("a", 0)


def test_contention_takes_its_part_the_moment_somebody_begins() -> None:
    """Half the pace beside each other, and the whole pace when the other is dead."""

    def half(rates: Sequence[float]) -> list[float]:
        return [0.5 if all(rates) else 1.0] * 2

    both = simulate([Worker("a", 10 * MS), Worker("b", 10 * MS)], 400, contention=half)
    assert both.per_s == pytest.approx(100, rel=0.01)
    alone = simulate([Worker("a", 10 * MS), Worker("b", 10 * MS, dies_ns=1000 * MS)], 300, contention=half)
    assert alone.elapsed_ns == pytest.approx(3000 * MS, rel=0.02)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_described_chip_has_the_figures_of_the_paper(chip: str) -> None:
    found, columns = socs.named(chip), COLUMNS[chip]
    for record in table("socs-throughput").records():
        network = found.network(str(record["network"]).lower())
        paper = {name: record[f"{column}_images_per_s"] for name, column in columns.items()}
        assert network.per_s == {name: value for name, value in paper.items() if value is not None}
    short = chip.removesuffix("5422").removesuffix("970")
    for record in table("socs-coexecution").records():
        said = found.said(str(record["network"]).lower(), ("small", "big", "gpu"))
        assert said and said.per_s == record[f"{short}_images_per_s"] and said.source == "Table 2"
    by_label = {record["component"]: record for record in table("socs-components").records()}
    for component in found.components:
        record = by_label[columns[component.name].upper()]
        hz = float(record["clock_ghz"] or 0) * 1e9 or float(record["clock_mhz"] or 0) * 1e6 or None
        assert component.clock_hz == (pytest.approx(hz) if hz else None)
        wide = record["bandwidth_gb_per_s"]
        assert component.bandwidth_bytes_per_s == (pytest.approx(float(wide) * 1e9) if wide else None)


def test_all_of_the_kirin_with_its_shares_is_table_3() -> None:
    kirin = socs.named("kirin970")
    for record in table("socs-coexecution-npu").records():
        said = kirin.said(str(record["network"]).lower(), tuple(COLUMNS["kirin970"]))
        assert said and said.shares and said.per_s == record["together_images_per_s"]
        for name, column in COLUMNS["kirin970"].items():
            assert said.shares[name] * 100 == pytest.approx(record[f"{column}_share_pct"])
    assert [len(socs.named(chip).published) for chip in CHIPS] == [5, 9]
    # Two figures typed from the paper, should both files have been made from a wrong one.
    assert kirin.network("squeezenet").per_s["npu"] == 49.3
    assert kirin.said("alexnet", ("gpu", "big", "small")) == kirin.published[0] and kirin.published[0].per_s == 33.4


def test_the_m2_has_the_means_of_its_paper() -> None:
    means = dict(zip(table("m2-latency").column("compute_units"), table("m2-latency").column("mean_ms"), strict=True))
    found = socs.named("apple_m2").network("mobilenet_v2")
    for name, units in (("cpu", "CPU_ONLY"), ("gpu", "CPU_AND_GPU"), ("ne", "CPU_AND_NE")):
        assert 1e3 / found.per_s[name] == pytest.approx(means[units])


def test_feeding_takes_from_clusters_that_work_and_never_all() -> None:
    parts = [Part("cpu", 10.0), Part("cpu", 10.0), Part("gpu", 50.0)]
    assert FEEDING.paces(0.1, parts, [10.0, 10.0, 0.0]) == [1.0, 1.0, 1.0]
    assert FEEDING.paces(0.1, parts, [10.0, 10.0, 50.0]) == [0.75, 0.75, 1.0]
    # The cluster with nothing else to do takes it.
    assert FEEDING.paces(0.1, parts, [10.0, 0.0, 50.0]) == [1.0, 1.0, 1.0]
    assert FEEDING.paces(1.0, parts, [10.0, 10.0, 50.0]) == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_leaves_one_that_is_alone_its_pace(name: str) -> None:
    parts = [Part("cpu", 10.0), Part("gpu", 50.0), Part("npu", 70.0)]
    for who, part in enumerate(parts):
        now = [part.per_s if place == who else 0.0 for place in range(3)]
        assert MODELS[name].paces(MODELS[name].most / 2, parts, now)[who] == 1.0
    for pace in MODELS[name].paces(MODELS[name].most, parts, [part.per_s for part in parts]):
        assert 0 < pace <= 1


@pytest.mark.parametrize("name", [name for name in MODELS if name != "none"])
def test_a_number_is_found_again_in_what_it_predicts(name: str) -> None:
    model, chip = MODELS[name], socs.named("exynos5422")
    true = {"frames": 0.01}.get(name, 0.08)
    made = [
        socs.Published(net.name, tuple(net.per_s), steady(chip, net, tuple(net.per_s), model, true), "")
        for net in chip.networks
    ]
    assert fit([(chip, each) for each in made], model) == pytest.approx(true, rel=1e-3)


def test_predictions_are_as_far_off_as_the_guide_says() -> None:
    """The figures of docs/guides/simulate.md, by arithmetic; and the model in use is the one that errs least."""
    errors: dict[str, list[float]] = {}
    for name, model in MODELS.items():
        for chip in map(socs.named, CHIPS):
            for said, value in zip(chip.published, fitted(chip, model).without, strict=True):
                predicted = steady(chip, chip.network(said.network), said.over, model, value)
                errors.setdefault(name, []).append(math.log(predicted / said.per_s))
    loss = {name: sum(error * error for error in those) for name, those in errors.items()}
    assert min(loss, key=lambda name: loss[name]) == DEFAULT
    mean = {name: sum(abs(math.expm1(error)) for error in those) / 14 for name, those in errors.items()}
    assert mean[DEFAULT] == pytest.approx(0.065, abs=0.001)
    assert mean["none"] == pytest.approx(0.127, abs=0.001)
    assert max(abs(math.expm1(error)) for error in errors[DEFAULT]) == pytest.approx(0.134, abs=0.001)


def test_a_number_of_one_chip_serves_the_other_as_well_as_the_guide_says() -> None:
    exynos, kirin = map(socs.named, CHIPS)
    errors = []
    for of, on in ((exynos, kirin), (kirin, exynos)):
        value = fitted(of, FEEDING).value
        predicted = [steady(on, on.network(said.network), said.over, FEEDING, value) for said in on.published]
        errors += [abs(p / said.per_s - 1) for p, said in zip(predicted, on.published, strict=True)]
    assert sum(errors) / 14 == pytest.approx(0.060, abs=0.001)
    assert max(errors) == pytest.approx(0.132, abs=0.001)


@pytest.mark.slow
def test_choosing_the_model_without_a_case_predicts_it_as_well_as_the_guide_says() -> None:
    """The model in use was chosen by the same cases it is judged by: so the choice is made anew without each."""
    every = [(chip, said) for chip in map(socs.named, CHIPS) for said in chip.published]
    kept: dict[tuple[str, frozenset[int]], float] = {}

    def ratio(name: str, place: int, out: frozenset[int]) -> float:
        chip, said = every[place]
        used = frozenset(n for n, each in enumerate(every) if each[0] is chip and n not in out)
        if (name, used) not in kept:
            kept[name, used] = fit([every[n] for n in sorted(used)], MODELS[name])
        return steady(chip, chip.network(said.network), said.over, MODELS[name], kept[name, used]) / said.per_s

    errors, chosen = [], []
    for place in range(len(every)):
        rest = [other for other in range(len(every)) if other != place]
        loss = {name: sum(math.log(ratio(name, n, frozenset({place, n}))) ** 2 for n in rest) for name in MODELS}
        chosen.append(min(loss, key=lambda name: loss[name]))
        errors.append(abs(ratio(chosen[-1], place, frozenset({place})) - 1))
    assert chosen.count(DEFAULT) == 13
    assert sum(errors) / 14 == pytest.approx(0.068, abs=0.001)
    assert max(errors) == pytest.approx(0.160, abs=0.001)


def test_a_simulated_chip_does_what_its_steady_state_says() -> None:
    for chip in map(socs.named, CHIPS):
        number = fitted(chip, FEEDING)
        for name, over in cases(chip):
            found = forecast(chip, name, over, number, Terms(1000))
            plain = steady(chip, chip.network(name), over, FEEDING, number.value)
            assert found.streamed.per_s == pytest.approx(plain, rel=0.02)
            assert found.error is not None and abs(found.error) < 0.15


def test_leaving_one_out_and_losing_one() -> None:
    kirin = socs.named("kirin970")
    number, terms = fitted(kirin, FEEDING), Terms(600)
    whole = forecast(kirin, "resnet50", (), number, terms)
    assert whole.over == ("small", "big", "gpu", "npu") and whole.published is not None
    without = without_each(whole, kirin, number, terms)
    assert list(without) == list(whole.over)
    assert without["npu"].streamed.per_s < without["gpu"].streamed.per_s < whole.streamed.per_s
    assert without_each(forecast(kirin, "resnet50", ["npu"], number, terms), kirin, number, terms) == {}
    died = forecast(kirin, "resnet50", (), number, Terms(600, changes=(Change("npu", dies_ns=10**9),)))
    assert died.published is None and died.error is None
    assert sum(worker.frames for worker in died.streamed.workers) == 600
    with pytest.raises(InputError, match="npu is to change and takes no part"):
        forecast(kirin, "resnet50", ["gpu"], number, Terms(600, changes=(Change("npu", dies_ns=1),)))


def test_a_chip_without_published_figures_takes_the_number_of_the_others() -> None:
    own = socs.read(OWN, "mine", "mine.toml")
    number = fitted(own, FEEDING)
    assert (number.own, number.cases, number.without) == (False, 14, ())
    left = beside(own, own.network("mine"), ("little", "gpu"), FEEDING, number.value)([10.0, 40.0])
    assert left == [pytest.approx(max(0.5, 1 - 4 * number.value)), 1.0]
    one = socs.read(
        OWN + '[[published]]\nnetwork = "mine"\nover = ["little", "gpu"]\nper_s = 46\n', "mine", "mine.toml"
    )
    number = fitted(one, FEEDING)
    assert number.own and number.value == pytest.approx(0.1, abs=1e-3)
    assert number.without == (pytest.approx(fitted(own, FEEDING).value),)


def test_a_file_gives_times_or_rates() -> None:
    timed = socs.read(OWN.replace("per_s = { little = 10, gpu = 40 }", "frame_ms = { gpu = 25 }"), "mine", "mine.toml")
    assert timed.network("mine").per_s == {"gpu": 40.0}
    assert timed.components[1].clock_hz == 800e6 and timed.components[0].clock_hz is None


@pytest.mark.parametrize(
    ("wrong", "by", "says"),
    [
        ('source = "measured by hand"', "", "mine.toml: source is missing, expected a text"),
        ('source = "measured by hand"', 'sauce = "x"', "unknown key 'sauce'; did you mean source?"),
        ('kind = "gpu"', "", "mine.toml, [components.gpu]: kind is missing, expected one of cpu, gpu, npu, dsp"),
        ('kind = "gpu"', 'kind = "gpo"', "mine.toml, [components.gpu]: unknown kind 'gpo'; did you mean"),
        (
            "clock_hz = 800_000_000",
            'clock_hz = "fast"',
            "[components.gpu]: clock_hz is text ('fast'), expected a number",
        ),
        ("gpu = 40", "gpu = 0", "[networks.mine], per_s: gpu is a whole number (0), expected a number above 0"),
        ("gpu = 40", "gpu = 1e300", "[networks.mine]: gpu does 1e+300 frames per second, expected from 1e-06 to 1e+09"),
        ("gpu = 40", "gpu = true", "per_s: gpu is true or false (True), expected a number"),
        ("gpu = 40", "npu = 40", "[networks.mine], per_s has an unknown key 'npu'"),
        ("per_s = {", "frame_ms = { gpu = 1 }\nper_s = {", "[networks.mine] has both of per_s and frame_ms"),
        ("per_s = { little = 10, gpu = 40 }", "", "[networks.mine] has neither of per_s and frame_ms"),
        (
            "per_s = { little = 10, gpu = 40 }",
            "per_s = {}",
            "per_s is a table, expected a table such as { little = 12.5 }",
        ),
        ("[networks.mine]", "[netwerks.mine]", "unknown key 'netwerks'; did you mean networks or notes?"),
        ("[networks.mine]", "[networks]\nmine = 3\n[networks.two]", "[networks]: mine is a whole number (3)"),
        ("[components.gpu]", "[components.gpu", "mine.toml is not TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(wrong: str, by: str, says: str) -> None:
    assert wrong in OWN
    with pytest.raises(InputError) as refused:
        socs.read(OWN.replace(wrong, by), "mine", "mine.toml")
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("published", "says"),
    [
        ('network = "other"\nover = ["little", "gpu"]\nper_s = 1', "[[published]] 1: unknown network 'other'"),
        ('network = "mine"\nover = ["gpu"]\nper_s = 1', "expected at least two components"),
        ('network = "mine"\nover = ["gpu", "npu"]\nper_s = 1', "'npu' in over has no figure for mine"),
        ('network = "mine"\nover = ["gpu", "little"]', "per_s is missing, expected a number from 1e-06 to 1e+09"),
        ('network = "mine"\nover = ["gpu", "little"]\nper_s = 1\nshares = { npu = 1 }', "unknown key 'npu'"),
    ],
)
def test_what_is_wrong_with_a_published_figure_is_named(published: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        socs.read(f"{OWN}[[published]]\n{published}\n", "mine", "mine.toml")
    assert says in refused.value.message


def test_what_a_chip_has_no_figures_for_is_named() -> None:
    kirin = socs.named("kirin970")
    with pytest.raises(InputError, match="no described chip 'kirin97'; did you mean kirin970"):
        socs.named("kirin97")
    with pytest.raises(InputError, match="no figures for 'resnet'; did you mean resnet50"):
        kirin.network("resnet")
    with pytest.raises(InputError, match="has no component 'dsp'"):
        kirin.over(kirin.network("resnet50"), ["dsp"])
    with pytest.raises(Unsupported, match="no figure for mobilenet on npu"):
        kirin.over(kirin.network("mobilenet"), ["npu"])


@pytest.mark.parametrize("name", ["snapdragon855", "Kirin 985"])
def test_a_chip_without_figures_is_known_and_says_so(name: str) -> None:
    with pytest.raises(Unsupported, match=r"CPU\+GPU\+DSP.*published as a drawing only \(Liu et al. 2024\)"):
        chips(name)
