"""Costs are counted once per store and model, in a worker; what cannot be counted is no error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import zoo
from edgewise.analyze.evidence import Costed
from edgewise.measure import isolate
from edgewise.model.load import inspect
from edgewise.store.db import Store
from edgewise.store.kept import Kept
from edgewise.study.costs import keep_cost
from edgewise.study.prepare import Limits
from edgewise.zoo.catalog import CATALOG


def test_a_cost_is_counted_once_and_kept(tiny_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = inspect(str(tiny_onnx))
    with Store(tmp_path / "lab.db") as store:
        first = keep_cost(store, model, 1, Limits())
        assert first is not None
        assert first.cost.multiply_adds == CATALOG["tiny"].multiply_adds
        assert first.cost.declared_parameters == CATALOG["tiny"].parameters
        assert (first.subject, first.batch) == (model.digest, 1)

        def never(*_: object, **__: object) -> None:
            raise AssertionError("counted again")

        monkeypatch.setattr(isolate, "call", never)
        assert keep_cost(store, model, 8, Limits()) == first
        assert list(Kept(store).all("cost", Costed)) == [first]


def test_what_cannot_be_counted_is_none_and_not_kept(tiny_onnx: Path, tmp_path: Path) -> None:
    model = inspect(str(tiny_onnx))
    open_sizes = replace(model, inputs=tuple(replace(t, shape=("N", 3, "H", "W")) for t in model.inputs))
    gone = replace(model, path=str(tmp_path / "gone.onnx"))
    with Store(tmp_path / "lab.db") as store:
        assert keep_cost(store, open_sizes, 1, Limits()) is None
        assert keep_cost(store, gone, 1, Limits()) is None
        assert not list(Kept(store).all("cost", Costed))


def test_another_model_has_its_own(tiny_onnx: Path, tmp_path: Path) -> None:
    small = inspect(str(tiny_onnx))
    large = inspect(zoo.export("tiny", str(tmp_path / "large.onnx"), size=64))
    with Store(tmp_path / "lab.db") as store:
        a, b = (keep_cost(store, model, 2, Limits()) for model in (small, large))
    assert a and b and b.cost.multiply_adds > 3 * a.cost.multiply_adds
    assert a.cost.multiply_adds == 2 * CATALOG["tiny"].multiply_adds
