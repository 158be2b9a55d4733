"""T4: multiply-adds as public counters count them, on the networks' original implementations and on our files.

What the counters said is in counters.json, written by `python tools/counters.py --python PYTHON --write`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from outline import draw_outlines, draw_zeros, multiply_adds

from edgewise import zoo
from edgewise.model import feeds
from edgewise.model.cost import cost
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.zoo.catalog import CATALOG
from edgewise.zoo.published import PUBLISHED

FOUND = json.loads((Path(__file__).parent / "counters.json").read_text(encoding="utf-8"))
COUNTERS = ("fvcore", "torch", "thop", "onnx-tool")
LARGE = {name for name, published in PUBLISHED.items() if published.params_m > 40}
# The others would only add gigabytes of zeros to be written and read: their graphs have the same operators.
SMALL = [name for name in PUBLISHED if CATALOG[name].parameters < 30e6]


@pytest.mark.parametrize("name", PUBLISHED)
def test_counters_agree_within_one_percent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_outlines(monkeypatch)
    ours = multiply_adds(zoo.build(name))
    assert ours == CATALOG[name].multiply_adds
    counted = {counter: FOUND["networks"][name][counter] for counter in COUNTERS}
    counted = {counter: record for counter, record in counted.items() if "stopped" not in record}
    originals = [record for record in counted.values() if "of edgewise" not in record["implementation"]]
    assert len(counted) >= 2 and originals
    for counter, record in counted.items():
        assert record["multiply_adds"] == pytest.approx(ours, rel=0.01), counter


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_table_1_counted_is_known(name: str) -> None:
    """The rule in docs/multiply-adds.md, to half a percent: what is left of it is told there, network by network."""
    rule = FOUND["networks"][name]["table 1 rule"]["everything"]
    assert rule / 1e6 == pytest.approx(PUBLISHED[name].flops_m, rel=0.005)


@pytest.mark.parametrize("name", SMALL)
def test_inspect_counts_what_the_catalog_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_zeros(monkeypatch)
    path = tmp_path / f"{name}.onnx"
    zoo.export(name, str(path))
    model = inspect(str(path))
    found = cost(fixed(model, feeds.shapes(model)))
    assert found.multiply_adds == CATALOG[name].multiply_adds
    assert found.declared_parameters == CATALOG[name].parameters
    assert not found.unknown
