"""The papers' tables: their form, figures read from the papers by hand, and the contradictions, computed."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from statistics import fmean

import pytest

from edgewise.core.errors import InputError
from edgewise.reference import UNITS, Cell, Table, table, tables, unit
from edgewise.zoo.published import PUBLISHED

EVERY = pytest.mark.parametrize("found", tables(), ids=lambda found: found.name)


def numbers(name: str, column: str) -> list[float]:
    """A column without an empty cell."""
    cells = table(name).column(column)
    assert all(isinstance(cell, int | float) for cell in cells)
    return [float(cell) for cell in cells if isinstance(cell, int | float)]


def row(name: str, *key: str) -> tuple[Cell, ...]:
    """The cells after the words `key` with which one row begins."""
    (found,) = (cells for cells in table(name).rows if cells[: len(key)] == key)
    return found[len(key) :]


@EVERY
def test_a_row_has_a_cell_for_each_column_and_no_column_comes_twice(found: Table) -> None:
    assert found.rows
    assert {len(cells) for cells in found.rows} == {len(found.columns)}
    assert len(set(found.columns)) == len(found.columns)
    assert len(set(found.rows)) == len(found.rows)


@EVERY
def test_a_column_with_a_unit_holds_numbers_and_one_without_holds_words(found: Table) -> None:
    for column in found.columns:
        kind = str if unit(column) is None else int | float
        cells = [cell for cell in found.column(column) if cell is not None]
        assert cells and all(isinstance(cell, kind) and not isinstance(cell, bool) for cell in cells), column
        assert all(isfinite(cell) and cell > 0 for cell in cells if not isinstance(cell, str)), column
        assert all(cell.strip() == cell != "" for cell in cells if isinstance(cell, str)), column


@EVERY
def test_a_table_says_whose_it_is_and_where_it_stands(found: Table) -> None:
    assert found.paper.authors and found.paper.title and found.place and found.about
    assert found.paper.year is None or 2018 <= found.paper.year <= 2024
    assert all(note.endswith(".") for note in found.notes)


def test_every_unit_is_used_and_the_longest_that_fits_is_taken() -> None:
    assert {unit(column) for found in tables() for column in found.columns} == {*UNITS, None}
    assert unit("bandwidth_gb_per_s") == "gb_per_s"
    assert unit("year") == "year"
    assert unit("processors") is None


def test_the_tables_that_were_wanted_are_there() -> None:
    places = {(found.paper.authors, found.place) for found in tables()}
    wanted = {"Wang": (1, 4), "Liu et al.": (1, 2, 3, 4), "Almeida et al.": (1, 2), "Wang et al.": (1, 2, 3)}
    assert {(authors, f"Table {number}") for authors, found in wanted.items() for number in found} <= places
    assert sum(found.paper.authors == "Taylor et al." for found in tables()) == 8
    assert len({found.name for found in tables()}) == len(tables())


def test_a_row_is_had_by_the_names_of_its_columns() -> None:
    fastest = table("m2-latency").records()[0]
    assert fastest == {"compute_units": "CPU_AND_NE", "mean_ms": 0.64, "p90_ms": 0.67, "min_ms": 0.55, "max_ms": 1.71}


def test_what_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(InputError, match="no reference table m3-latency, only m2-hardware, m2-latency"):
        table("m3-latency")
    with pytest.raises(InputError, match="m2-latency has no column p99_ms, only compute_units, mean_ms"):
        table("m2-latency").column("p99_ms")


@pytest.mark.parametrize(
    ("name", "key", "cells"),
    [
        ("m2-latency", ["CPU_AND_GPU"], (3.13, 1.94, 1.64, 138.10)),
        ("m2-latency", ["ALL"], (0.87, 0.68, 0.53, 25.95)),
        ("pitfalls-devices", ["D7"], ("Huawei Matepad Pro", "Snapdragon 870", "CPU+GPU+DSP", 6)),
        ("pitfalls-cross-level", ["backend", "operator fusion"], (76.23, 47.24, 136.66, 35.91)),
        ("pitfalls-estimation", ["VGG-16", "CoDL on CPU+GPU"], (171, 220, 307, 326, 387, 29, 80, 91, 126)),
        ("embench-platforms", ["Qualcomm Kryo 385 CPU"], (4, 4, 2.8, 1.8, 6, 10, 5)),
        ("embench-platforms", ["Intel NCS 2"], (16, None, 0.7, None, 0.5, 16, 1)),
        ("embench-networks", ["mobilenet_v2"], (2017, 336.43, 3.50, 71.81, 90.42)),
        ("selection-accuracy", ["oracle"], (91.2, 98.3)),
        ("selection-overheads", ["ResNet_v2_152"], (9.52, 7)),
        ("selection-gains", ["Inception"], (7.6, 0.34)),
        ("socs-throughput", ["MobileNet"], (1.5, 5.7, 8.5, 6.5, 17.7, 29.1, None)),
        ("socs-coexecution", ["SqueezeNet"], (8.0, 13.8, 73.9, 43.0, 54.5, 26.7)),
        ("socs-coexecution-npu", ["ResNet50"], (21.9, 30.9, 40.9, 2.63, 1.32, 26.97, 69.08)),
        ("socs-components", ["T628"], ("Exynos 5422", "GPU", 6, None, 600, 57.6, None, 6.15)),
    ],
)
def test_rows_are_as_the_papers_print_them(name: str, key: list[str], cells: tuple[Cell, ...]) -> None:
    assert row(name, *key) == cells


def test_the_networks_are_those_of_the_zoo() -> None:
    assert table("embench-networks").column("network") == tuple(PUBLISHED)
    assert table("embench-networks").column("top5_pct") == tuple(published.top5 for published in PUBLISHED.values())


def test_reductions_are_of_the_baseline_but_for_the_last_row_which_has_what_is_left() -> None:
    baseline, *latencies = numbers("pitfalls-cross-level", "latency_ms")
    printed = table("pitfalls-cross-level").column("speedup_pct")[1:]
    reductions = [100 * (1 - latency / baseline) for latency in latencies]
    assert reductions[:-1] == pytest.approx(printed[:-1], abs=0.006)
    assert reductions[-1] == pytest.approx(51.6, abs=0.05)
    assert 100 - reductions[-1] == pytest.approx(printed[-1], abs=0.05)
    assert "51.6 %" in table("pitfalls-cross-level").notes[0]


def test_choosing_is_printed_as_better_than_the_union_of_what_is_chosen_from() -> None:
    union = sum(numbers("selection-networks", "gain_points"))
    assert union == pytest.approx(86.14)
    adaptive, oracle = numbers("selection-accuracy", "top1_pct")
    assert union < adaptive < oracle
    assert "86.14 %" in table("selection-accuracy").notes[0]


def test_the_steps_to_that_union_agree_with_each_other() -> None:
    first, second, _ = table("selection-networks").records()
    assert first["gain_points"] == pytest.approx(100 - 29.25)
    assert second["gain_points"] == pytest.approx(29.25 * 43.91 / 100, abs=0.005)
    assert second["still_failing_pct"] == pytest.approx(29.25 - 12.84)


def test_the_share_of_the_oracle_is_over_96_percent_for_top_5_only() -> None:
    shares = [
        100 * adaptive / oracle for adaptive, oracle in (numbers("selection-accuracy", f"top{k}_pct") for k in (1, 5))
    ]
    assert shares == pytest.approx([95.8, 97.0], abs=0.1)


def test_the_mean_of_all_compute_units_is_not_that_of_the_neural_engine() -> None:
    means = dict(zip(table("m2-latency").column("compute_units"), numbers("m2-latency", "mean_ms"), strict=True))
    assert means["ALL"] - means["CPU_AND_NE"] == pytest.approx(0.23)


def test_512_cores_do_not_make_the_peak_of_an_rtx_2080_ti() -> None:
    cores, _, clock_ghz, *_ = row("embench-platforms", "NVIDIA RTX 2080 Ti")
    peak_tflops = row("embench-peaks", "NVIDIA RTX 2080 Ti")[0]
    assert isinstance(cores, int) and isinstance(clock_ghz, float) and isinstance(peak_tflops, float)
    assert 2 * cores * clock_ghz / 1000 == pytest.approx(1.5, abs=0.05)
    assert peak_tflops == 13.4


@pytest.mark.parametrize(("newer", "older", "factor"), [("a73", "a15", 2.6), ("a53", "a7", 4.3), ("g72", "t628", 4.2)])
def test_the_factors_of_the_two_cpu_clusters_are_exchanged_in_the_text(newer: str, older: str, factor: float) -> None:
    pairs = zip(
        numbers("socs-throughput", f"{newer}_images_per_s"),
        numbers("socs-throughput", f"{older}_images_per_s"),
        strict=True,
    )
    assert fmean(new / old for new, old in pairs) == pytest.approx(factor, abs=0.05)


def test_estimation_errors_are_within_a_point_of_what_the_latencies_give() -> None:
    for _, _, offline, *rest in table("pitfalls-estimation").rows:
        assert isinstance(offline, int)
        for latency, error in zip(rest[:4], rest[4:], strict=True):
            assert isinstance(latency, int) and isinstance(error, int)
            assert abs(100 * (latency / offline - 1) - error) < 1


def test_both_rows_of_reuse_lead_back_to_one_baseline() -> None:
    for kind, column, baseline in (("latency", "latency_ms", 99.8), ("quality", "quality_vmaf", 49.0)):
        reductions = numbers("pitfalls-reuse", f"{kind}_reduction_pct")
        for value, reduction in zip(numbers("pitfalls-reuse", column), reductions, strict=True):
            assert value / (1 - reduction / 100) == pytest.approx(baseline, abs=0.05)


def test_gains_of_running_together_are_those_of_the_throughputs_up_to_rounding() -> None:
    tripled = [
        ("socs-coexecution", ("t628_images_per_s", "exynos_images_per_s", "exynos_gain_pct")),
        ("socs-coexecution", ("g72_images_per_s", "kirin_images_per_s", "kirin_gain_pct")),
        ("socs-coexecution-npu", ("npu_images_per_s", "together_images_per_s", "gain_pct")),
    ]
    for name, columns in tripled:
        for alone, together, gain in zip(*(numbers(name, column) for column in columns), strict=True):
            least, most = (together - 0.05) / (alone + 0.05), (together + 0.05) / (alone - 0.05)
            assert least <= 1 + gain / 100 <= most, (name, alone)


def test_shares_of_the_images_add_up_and_the_same_throughput_is_printed_in_each_table() -> None:
    for cells in table("socs-coexecution-npu").rows:
        assert sum(cell for cell in cells[-4:] if isinstance(cell, float)) == pytest.approx(100, abs=0.02)
    for component in ("t628", "g72"):
        columns = [table(name).column(f"{component}_images_per_s") for name in ("socs-throughput", "socs-coexecution")]
        assert all(one == other for one, other in pairwise(columns))
