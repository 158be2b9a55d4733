"""Recipes in a study: what is made of a model before it is measured, step by step, each result a model of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..core.errors import EdgewiseError, InputError, StoreError
from ..core.front import AS_IT_IS
from ..core.records import from_json, to_json
from ..core.tables import near
from ..core.text import parse_recipe
from ..core.types import Device, Machine, Model, Recipe, Step, Target
from ..measure import isolate
from ..model import feeds
from ..model.cost import Cost
from ..model.graph import fixed
from ..optimize.apply import PASSES, REVISION, options
from ..optimize.quantize.options import quantizing
from ..optimize.search import DYNAMIC, HALVED, Space
from . import home
from .distill import distilling
from .prepare import Limits, doubt, file_digest, quantized

# Statistics of a large network on thousands of images.
_LONGEST_PASS_S = 3600.0
_PRODUCTS = ("MatMul", "Gemm")
_NAMES = ("quantize", "distill", *PASSES)


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
        elif step.name == "distill":
            distilling(dict(step.options))
        else:
            quantizing(dict(step.options))
    return recipe


def suited(space: Space, model: Model, cost: Cost | None, device: Device, precision: str | None) -> Space:
    """With the forms that may be the quickest for this model there: dynamic, where it is mostly matrix products, as
    transformers are; 16 bits, where the device computes in them and no other `precision` is asked for."""
    if not space.quantized or model.precision != "fp32":
        return space
    nodes = cost.nodes if cost else ()
    work, products = (
        sum(node.multiply_adds or 0 for node in nodes if of is None or node.operator in of) for of in (None, _PRODUCTS)
    )
    dynamic = (DYNAMIC,) if 2 * products > work else ()
    halved = (HALVED,) if "fp16" in device.precisions and precision in (None, "fp16") else ()
    return replace(space, quantized=(*space.quantized, *dynamic), halved=halved)


def made(
    models: Sequence[Model],
    recipes: Sequence[Recipe],
    machine: Machine,
    limits: Limits,
    tell: Callable[[str], None],
    missed: Callable[[str], None],
) -> Iterator[Model]:
    """What each recipe makes of each model. One that cannot be applied is told as missed, and the others go on."""
    if any(map(to_int8, recipes)):
        doubt(machine, tell)
    for model in models:
        for recipe in recipes:
            try:
                yield applied(model, recipe, machine, limits, tell)
            except StoreError:
                raise
            except EdgewiseError as error:
                missed(f"{recipe} of {model.label}: {error.message}")


def applied(
    model: Model,
    recipe: Recipe,
    machine: Machine,
    limits: Limits,
    tell: Callable[[str], None],
    target: Target | None = None,
    eight: bool | None = None,
    call: Callable[..., Any] | None = None,
) -> Model:
    """What the recipe makes of a model; each step's result is checked, and kept by what it depends on. `target`: where
    passes time pieces of it; `eight`: in 8 bits, by default where the recipe ends so. `call` runs a pass in a
    worker, by default in one of its own."""
    if not recipe.steps:
        return model
    tell(f"{recipe} of {model.label}")
    found = model
    eight = to_int8(recipe) if eight is None else eight
    where = replace(target, precision="int8") if target and eight else target
    for step in recipe.steps:
        if step.name == "quantize":
            found = _quantize(step, found, machine, limits)
        elif step.name == "distill":
            found = _distilled(step, found, model, limits)
        else:
            found = _passed(step, found, limits, where, call)
    return replace(found, recipe=str(recipe), parent=model.digest, label=f"{model.label} | {recipe}")


def off(model: Model, made: Model, limits: Limits, *, exact: bool = False) -> float:
    """How far the outputs of what was made are from the model's own; what does not fit together any more is refused."""
    found = isolate.call(
        "edgewise.optimize.check:check_files",
        timeout_s=max(limits.timeout_s, 600.0),
        memory_bytes=limits.memory_bytes,
        before=to_json(model),
        after=to_json(made),
        samples=limits.calibration,
        exact=exact,
        given={name: list(sizes) for name, sizes in limits.shapes.items()},
    )
    return float(found)


def to_int8(recipe: Recipe) -> bool:
    """Whether what it makes computes in 8 bits."""
    own = [step for step in recipe.steps if step.name == "quantize"]
    return any(quantizing(dict(step.options)).precision == "int8" for step in own)


def looks(step: Step) -> bool:
    """Whether it looks at the network at work, and so takes inputs."""
    if step.name in PASSES:
        return PASSES[step.name].data
    return step.name == "distill" or quantizing(dict(step.options)).calibrated


def _quantize(step: Step, model: Model, machine: Machine, limits: Limits) -> Model:
    how = quantizing(dict(step.options))
    if model.precision in ("int8", how.precision):
        raise InputError("it is quantized already")
    if how.precision == "int8":
        doubt(machine)
    return quantized(model, machine, limits, how)


def _passed(step: Step, model: Model, limits: Limits, target: Target | None, call: Callable[..., Any] | None) -> Model:
    """What a pass makes of it."""
    given, known = options(step.name, dict(step.options)), PASSES[step.name]
    samples = limits.calibration if known.data else None
    where = str(target) if target and known.data else None
    arguments = {"name": step.name, "given": given, "samples": samples, "target": where}
    made = "edgewise.study.passes:apply_file"
    subject = fixed(model, feeds.shapes(model, 1, limits.shapes))
    return _made(made, step, model, subject, limits, arguments, known.exact, call)


def _distilled(step: Step, model: Model, teacher: Model, limits: Limits) -> Model:
    """What is left of it after learning from the one that all this is made of."""
    if limits.calibration is None:
        raise InputError("distill needs images to learn on", "--data FOLDER")
    arguments = {
        "teacher": to_json(teacher),
        "samples": limits.calibration,
        **asdict(distilling(dict(step.options))),
    }
    return _made("edgewise.study.distill:distill_file", step, model, model, limits, arguments)


def _made(
    function: str,
    step: Step,
    model: Model,
    subject: Model,
    limits: Limits,
    arguments: dict[str, Any],
    exact: bool = False,
    call: Callable[..., Any] | None = None,
) -> Model:
    """In a worker, once; checked, and kept by all it depends on."""
    samples = arguments["samples"]
    depends = (model.digest, function, REVISION, {**arguments, "samples": file_digest(samples) if samples else ""})
    path = home.cache() / f"{hashlib.sha256(repr(depends).encode()).hexdigest()[:24]}-{step.name}.onnx"
    if path.exists():
        return _of(model, isolate.call("edgewise.model.load:inspect", path=str(home.used(path))))
    home.trim()
    made = (call or isolate.call)(
        function,
        timeout_s=max(limits.timeout_s, _LONGEST_PASS_S),
        memory_bytes=limits.memory_bytes,
        model=to_json(subject),
        path=str(path),
        batched=all(t.shape and not isinstance(t.shape[0], int) for t in model.inputs),
        **arguments,
    )
    try:
        found = _of(model, made)
        off(model, found, limits, exact=exact)
    except BaseException:
        # What was not checked must not be found here next time.
        path.unlink(missing_ok=True)
        raise
    return found


def _of(model: Model, made: object) -> Model:
    found = from_json(Model, made)
    return replace(model, digest=found.digest, path=found.path, inputs=found.inputs, outputs=found.outputs)
