"""The driver of `edgewise optimize`, on the engine that computes nothing: what is kept, and what is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from edgewise.analyze import front as analysis
from edgewise.analyze.evidence import Evidence
from edgewise.core.errors import EdgewiseError, Unavailable, Unsupported, WorkerCrashed, WorkerTimeout
from edgewise.core.front import AS_IT_IS, Front
from edgewise.core.records import to_json
from edgewise.core.text import parse_target
from edgewise.core.types import Model, Scenario
from edgewise.measure import isolate
from edgewise.model.graph import fixed
from edgewise.optimize.search import Space
from edgewise.report.sentences import remedy, sentence
from edgewise.store.db import Store
from edgewise.store.kept import Kept
from edgewise.study import optimize as driver
from edgewise.study import passes, recipes
from edgewise.study.images import Question
from edgewise.study.optimize import Asked, Optimized, optimize
from edgewise.study.prepare import Limits
from edgewise.study.request import Request, request

NULL = parse_target("null:cpu@1")
RECIPE = Asked(NULL, recipes.parse("reorder"), starts=2, rounds=1)
# No more than `fuse` and one form of 8 bits; answers are the same for all, so that nothing is lost.
SEARCH = Asked(
    NULL,
    max_loss=0.5,
    question=Question("pocket(count=50)"),
    calibration="pocket(split=train, count=10)",
    space=Space((), ("quantize",)),
    starts=2,
    rounds=1,
)


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes nothing is steady from the first run."""
    monkeypatch.setattr(driver, "compare", partial(driver.compare, warmup_ns=1_000_000))


@pytest.fixture(scope="module")
def tiny(tiny_onnx: Path) -> Request:
    return request((str(tiny_onnx),), ("null",), (), [Scenario()], Limits(timeout_s=20.0))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "lab.db") as opened:
        yield opened


class Told:
    """Who listens to what is being done; `until` ends it there, as Ctrl-C would."""

    def __init__(self, until: str = "never") -> None:
        self.said: list[str] = []
        self._until = until

    def __call__(self, what: str) -> None:
        if what == self._until:
            raise KeyboardInterrupt
        self.said.append(what)


def run(
    asked: Asked,
    wanted: Request,
    store: Store,
    told: Callable[[str], None] = lambda what: None,
    ready: Callable[[Optimized], None] = lambda made: None,
) -> Optimized:
    store.save_machine(wanted.machine)
    store.save_model(wanted.models[0])
    return optimize(asked, wanted, store, told, lambda detail: None, ready=ready)


def refusing(error: EdgewiseError, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recipe is refused so."""

    def refused(model: Model, recipe: Any, *_: Any) -> Model:
        if not recipe.steps:
            return model
        raise error

    monkeypatch.setattr(driver.recipes, "applied", refused)


@pytest.mark.parametrize("error", [WorkerTimeout("late"), WorkerCrashed("died"), Unavailable("no torch")])
def test_what_may_come_out_otherwise_is_tried_again(
    tiny: Request, store: Store, monkeypatch: pytest.MonkeyPatch, error: EdgewiseError
) -> None:
    with monkeypatch.context() as patched:
        refusing(error, patched)
        assert run(RECIPE, tiny, store).model is None
    again = run(RECIPE, tiny, store)
    assert again.front.chosen == "reorder" and again.model is not None


def test_what_a_model_does_not_take_is_not_tried_twice(
    tiny: Request, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        refusing(Unsupported("nothing to do", "fuse"), patched)
        run(RECIPE, tiny, store)
    told = Told()
    again = run(RECIPE, tiny, store, told)
    assert told.said == []
    assert [(point.reason, point.hint) for point in again.front.points][1:] == [("nothing to do", "fuse")]


def test_more_turns_are_measured_anew(tiny: Request, store: Store) -> None:
    run(RECIPE, tiny, store)
    told = Told()
    run(replace(RECIPE, rounds=2), tiny, store, told)
    assert told.said == ["the model as it is", "reorder: making it"]


def test_an_interrupted_search_goes_on_where_it_was(store: Store) -> None:
    wanted = request(("pocket/nano",), ("null",), (), [Scenario()], Limits(timeout_s=60.0))
    with pytest.raises(KeyboardInterrupt):
        run(SEARCH, wanted, store, Told("fuse | quantize: making it"))
    told = Told()
    found = run(SEARCH, wanted, store, told)
    assert told.said[0] == "fuse | quantize: making it"
    assert "the model as it is" not in told.said
    tried = [point.recipe for point in found.front.points]
    assert tried[:3] == [AS_IT_IS, "fuse", "fuse | quantize"] and len(tried) == len(set(tried))
    # And once it is there, all of it is.
    third = Told()
    assert run(SEARCH, wanted, store, third).front == found.front
    assert third.said == []


def test_what_was_chosen_is_there_before_layers_are_looked_at(
    tiny: Request, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what goes wrong then is told, and costs nothing that was found."""
    samples = tmp_path / "inputs.npz"
    np.savez(samples, **{tiny.models[0].inputs[0].name: np.zeros((4, 3, 32, 32), np.float32)})
    heard: list[Optimized] = []
    asked = replace(RECIPE, recipe=recipes.parse("quantize"), question=Question(), calibration=str(samples))

    def late(function: str, **arguments: Any) -> Any:
        if function == "edgewise.study.passes:sensitivity_of":
            assert [each.front for each in heard] == list(Kept(store).all("front", Front))
            raise WorkerTimeout("call did not come back within 600 s", "raise the limit with --timeout")
        return isolate.call(function, **arguments)

    with monkeypatch.context() as patched:
        patched.setattr(driver, "isolate", MagicMock(wraps=isolate, call=late))
        made = run(asked, tiny, store, ready=heard.append)
    assert made.model is not None and made.model == heard[0].model
    told = {finding.code: finding for finding in analysis.run(Evidence(fronts=(made.front,))).findings}
    assert "call did not come back" in sentence(told["layers_unseen"])
    assert remedy(told["layers_unseen"]) == "raise the limit with --timeout"
    # The next time they are looked at, and nothing else is done.
    again = Told()
    front = run(asked, tiny, store, again).front
    assert front.layers and not front.unseen
    assert again.said == ["which layers mind being quantized"]


def test_layers_are_looked_at_on_fewer_samples_where_there_is_much_to_do(
    tmp_path: Path, tiny: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tensor,) = tiny.models[0].inputs
    samples = str(tmp_path / "inputs.npz")
    np.savez(samples, **{tensor.name: np.zeros((200, 3, 32, 32), np.float32)})
    seen: list[int] = []

    def looked(graph: Any, observe: Any) -> list[Any]:
        seen.append(sum(len(each[tensor.name]) for each in observe(graph, [tensor.name])))
        return []

    monkeypatch.setattr(passes, "sensitivity", looked)
    model = to_json(fixed(tiny.models[0], {tensor.name: (1, 3, 32, 32)}))
    passes.sensitivity_of(model, samples)
    monkeypatch.setattr(passes, "_SENSITIVITY_MULTIPLY_ADDS", 1.0)
    passes.sensitivity_of(model, samples)
    assert seen == [128, 8]
