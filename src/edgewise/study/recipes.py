"""Recipes in a study: what is made of a model before it is measured, step by step, each result a model of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..core.errors import EdgewiseError, InputError, StoreError
from ..core.records import from_json, to_json
from ..core.tables import near
from ..core.text import parse_recipe
from ..core.types import Machine, Model, Recipe, Step
from ..measure import isolate
from ..model import feeds
from ..model.graph import fixed
from ..optimize.apply import PASSES, options
from ..optimize.quantizing import quantizing, unprofitable
from . import home
from .prepare import Limits, quantized

# The model as it is, among others that something is made of.
AS_IT_IS = "none"
_NAMES = ("quantize", *PASSES)


def parse(text: str) -> Recipe:
    """A recipe whose steps and options are all known; no step for `none`."""
    if text.strip() == AS_IT_IS:
        return Recipe(())
    recipe = parse_recipe(text)
    for step in recipe.steps:
        if step.name not in _NAMES:
            raise InputError(f"unknown step {step.name!r}; {near(step.name, (*_NAMES, AS_IT_IS))}")
        if step.name in PASSES:
            options(step.name, dict(step.options))
        else:
            quantizing(dict(step.options))
    return recipe


def made(
    models: Sequence[Model],
    recipes: Sequence[Recipe],
    machine: Machine,
    limits: Limits,
    tell: Callable[[str], None],
    missed: Callable[[str], None],
) -> Iterator[Model]:
    """What each recipe makes of each model. One that cannot be applied is told as missed, and the others go on."""
    doubt = unprofitable(machine) if any(_to_int8(step) for recipe in recipes for step in recipe.steps) else None
    if doubt:
        tell(doubt)
    for model in models:
        for recipe in recipes:
            try:
                yield _applied(model, recipe, machine, limits, tell)
            except StoreError:
                raise
            except EdgewiseError as error:
                missed(f"{recipe} of {model.label}: {error.message}")


def _applied(model: Model, recipe: Recipe, machine: Machine, limits: Limits, tell: Callable[[str], None]) -> Model:
    if not recipe.steps:
        return model
    tell(f"{recipe} of {model.label}")
    found = model
    for step in recipe.steps:
        found = _quantize(step, found, machine, limits) if step.name == "quantize" else _passed(step, found, limits)
    return replace(found, recipe=str(recipe), parent=model.digest, label=f"{model.label} | {recipe}")


def _to_int8(step: Step) -> bool:
    return step.name == "quantize" and quantizing(dict(step.options)).precision == "int8"


def _quantize(step: Step, model: Model, machine: Machine, limits: Limits) -> Model:
    how = quantizing(dict(step.options))
    if model.precision in ("int8", how.precision):
        raise InputError("it is quantized already")
    return quantized(model, machine, limits, how)


def _passed(step: Step, model: Model, limits: Limits) -> Model:
    """What a pass makes of it: once, kept by digest."""
    given = options(step.name, dict(step.options))
    key = hashlib.sha256(repr((model.digest, step.name, sorted(given.items()))).encode()).hexdigest()[:24]
    path = home.cache() / f"{key}-{step.name}.onnx"
    if path.exists():
        made = isolate.call("edgewise.model.load:inspect", path=str(home.used(path)))
    else:
        home.trim()
        made = isolate.call(
            "edgewise.optimize.apply:apply_file",
            timeout_s=max(limits.timeout_s, 600.0),
            memory_bytes=limits.memory_bytes,
            model=to_json(fixed(model, feeds.shapes(model, 1, limits.shapes))),
            name=step.name,
            given=given,
            path=str(path),
            batched=all(t.shape and not isinstance(t.shape[0], int) for t in model.inputs),
        )
    found = from_json(Model, made)
    return replace(model, digest=found.digest, path=found.path, inputs=found.inputs, outputs=found.outputs)
