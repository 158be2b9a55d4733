"""The search for a smaller model: which forms of it are tried, by the network and by what the engine computes in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import zoo
from edgewise.cli import _main
from edgewise.core.front import AS_IT_IS
from edgewise.core.records import from_json, to_json
from edgewise.core.types import Device
from edgewise.model.cost import Cost, cost_of
from edgewise.model.load import inspect
from edgewise.optimize.search import DYNAMIC, HALVED, QUANTIZED, Search, Space
from edgewise.study import recipes

FLOATS, HALVES = (Device("cpu", "cpu", "a processor", precisions=of) for of in (("fp32",), ("fp32", "fp16", "int8")))


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cost]:
    folder = tmp_path_factory.mktemp("costs")
    found = {}
    for name in ("vit_tiny_patch16", "tiny"):
        path = zoo.export(name, str(folder / f"{name}.onnx"), batch=1, size=32, classes=10)
        found[name] = from_json(Cost, cost_of(to_json(inspect(path))))
    return found


def test_transformers_are_tried_with_ranges_as_they_come(costs: dict[str, Cost], tiny_onnx: Path) -> None:
    model = inspect(str(tiny_onnx))
    forms = {name: recipes.suited(Space(), model, cost, FLOATS, None) for name, cost in costs.items()}
    assert forms["vit_tiny_patch16"] == Space(quantized=(*QUANTIZED, DYNAMIC))
    assert forms["tiny"] == Space()
    assert recipes.suited(Space(), model, None, FLOATS, None) == Space(), "a network that nobody can count"


def test_16_bits_are_tried_where_the_device_computes_in_them(costs: dict[str, Cost], tiny_onnx: Path) -> None:
    model, cost = inspect(str(tiny_onnx)), costs["tiny"]
    assert recipes.suited(Space(), model, cost, HALVES, None).halved == (HALVED,)
    assert recipes.suited(Space(), model, cost, HALVES, "fp32").halved == (), "asked for as it is"
    assert recipes.suited(Space(quantized=()), model, cost, HALVES, None) == Space(quantized=()), "--without quantize"
    assert recipes.suited(Space(), replace(model, precision="fp16"), cost, HALVES, None) == Space()


def test_a_search_is_given_what_suits_its_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[Space] = []

    def search(space: Space) -> Search:
        def asked() -> Iterator[str]:
            yield AS_IT_IS

        given.append(space)
        return asked()  # type: ignore[return-value]

    monkeypatch.setattr("edgewise.study.optimize.search", search)
    monkeypatch.chdir(tmp_path)
    quick = ("--starts", "2", "--rounds", "2", "--data", "pocket(count=40)", "--save", "lab.db")
    _main(["optimize", "pocket/nano", "--on", "null:cpu@1{latency=300us,wait=sleep}", *quick])
    assert [space.halved for space in given] == [(HALVED,)]
