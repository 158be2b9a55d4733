"""Recipes in a study: what is made of a model before it is measured, step by step, each result a model of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..core.errors import EdgewiseError, InputError, StoreError
from ..core.tables import near
from ..core.text import parse_recipe
from ..core.types import Machine, Model, Recipe, Step
from .prepare import Limits, quantized

# The model as it is, among others that something is made of.
AS_IT_IS = "none"
_OPTIONS = {"quantize": {"precision": ("int8",)}}


def parse(text: str) -> Recipe:
    """A recipe whose steps and options are all known; no step for `none`."""
    if text.strip() == AS_IT_IS:
        return Recipe(())
    recipe = parse_recipe(text)
    for step in recipe.steps:
        if step.name not in _OPTIONS:
            raise InputError(f"unknown step {step.name!r}; {near(step.name, (*_OPTIONS, AS_IT_IS))}")
        for key, value in step.options:
            known = _OPTIONS[step.name]
            if key not in known:
                raise InputError(f"{step.name} has no {key!r}; it has {', '.join(known)}")
            if value not in known[key]:
                raise InputError(f"{key} of {step.name} is one of {', '.join(known[key])}, found {value!r}")
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
        found = _STEPS[step.name](step, found, machine, limits)
    return replace(found, label=f"{model.label} | {recipe}")


def _quantize(step: Step, model: Model, machine: Machine, limits: Limits) -> Model:
    if model.precision == "int8":
        raise InputError("it is quantized already")
    return quantized(model, machine, limits)


_STEPS: dict[str, Callable[[Step, Model, Machine, Limits], Model]] = {"quantize": _quantize}
