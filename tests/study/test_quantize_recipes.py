"""The step quantize of a study's recipes: options, each with a file of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.core.errors import InputError
from edgewise.core.types import Model
from edgewise.measure import isolate
from edgewise.model.load import inspect
from edgewise.study import home, recipes
from edgewise.study.prepare import Limits
from edgewise.system.machine import machine

ALL = "quantize(calibrate=percentile, correct=bias, equalize=yes, keep=1)"


@pytest.fixture
def model(tiny_onnx: Path) -> Model:
    return inspect(str(tiny_onnx))


def made(model: Model, *texts: str) -> tuple[list[Model], list[str], list[str]]:
    told: list[str] = []
    missed: list[str] = []
    parsed = [recipes.parse(text) for text in texts]
    found = list(recipes.made([model], parsed, machine(), Limits(), told.append, missed.append))
    return found, told, missed


def test_every_set_of_options_is_a_model_of_its_own_and_made_once(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("quantize", "quantize(precision=int8)", ALL, "quantize(calibrate=mse)", "quantize(precision=fp16)")
    found, _, missed = made(model, *texts)
    assert not missed
    assert [each.recipe for each in found] == list(texts)
    assert [each.precision for each in found] == ["int8"] * 4 + ["fp16"]
    plain, same, *others = [each.digest for each in found]
    assert plain == same
    assert len({plain, *others, model.digest}) == 5
    # The name of a file without options is what it always was.
    names = [path.name for path in home.cache().glob(f"{model.digest}*.onnx")]
    always = [name for name in names if re.fullmatch(rf"{model.digest}-int8-[78]bit-seeded-[0-9a-f]{{8}}\.onnx", name)]
    assert (len(names), len(always)) == (4, 1)
    calls: list[str] = []
    real = isolate.call

    def call(function: str, **keywords: object) -> object:
        calls.append(function)
        return real(function, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(isolate, "call", call)
    again, _, _ = made(model, *texts)
    assert [each.digest for each in again] == [each.digest for each in found]
    assert set(calls) == {"edgewise.model.load:inspect"}


def test_nothing_is_quantized_twice(model: Model) -> None:
    found, _, missed = made(model, "quantize(precision=fp16) | quantize(precision=fp16)", "quantize | quantize")
    assert not found
    assert len(missed) == 2
    assert all("it is quantized already" in each for each in missed)


def test_a_processor_without_the_instructions_is_told_of_first(model: Model) -> None:
    parsed = [recipes.parse("quantize")]
    told: list[str] = []
    old = replace(machine(), cpu="An Old One", isa=("avx2", "sse4_2"))
    for _ in recipes.made([model], parsed, old, Limits(), told.append, told.append):
        pass
    assert told[0].startswith("An Old One has no instructions for products of 8 bits")
    assert [path.name for path in Path(home.cache()).glob("*-int8-7bit-*")]
    told.clear()
    list(recipes.made([model], [recipes.parse("none")], old, Limits(), told.append, told.append))
    assert not told


def test_what_cannot_be_kept_is_missed_with_the_reason(model: Model) -> None:
    _, _, missed = made(model, "quantize(keep=400)")
    assert "keep=400 leaves nothing to quantize" in missed[0]
    with pytest.raises(InputError, match="calibrate of quantize is one of"):
        recipes.parse("quantize(calibrate=often)")
