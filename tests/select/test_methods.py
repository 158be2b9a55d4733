"""Methods as text: what is typed is what is fitted, and what makes no sense is refused before anybody is asked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from classifiers import brightness, pictures, quick
from test_select_study import planted

from edgewise.cli import _main
from edgewise.cli import select as command
from edgewise.core import registry
from edgewise.core.errors import InputError
from edgewise.select import methods
from edgewise.select.features import NAMES
from edgewise.select.policies.cascade import Cascade
from edgewise.select.policies.premodel import Premodel
from edgewise.select.table import Table
from edgewise.select.tree import Tree
from edgewise.study.choosers import read
from edgewise.study.select import Wish, evaluated, fit


def looked_at(images: int = 300) -> Table:
    features = np.random.default_rng(0).uniform(size=(images, len(NAMES)))
    return dataclasses.replace(planted(images), features=features)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("premodel", {}),
        (
            "premodel(levels=tree, k=7, sound=0.9, otherwise=refuse, theta=0.01)",
            {"levels": "tree", "k": 7, "sound": 0.9, "otherwise": "refuse", "theta": 0.01},
        ),
        ("premodel(features=hue1+contrast, count=2)", {"features": ("hue1", "contrast"), "count": 2}),
        ("cascade(how=greedy, stages=2)", {"how": "greedy", "stages": 2}),
        ("deferral(careful=1)", {"careful": 1.0}),
    ],
)
def test_a_method_is_read_as_it_is_written(text: str, options: dict[str, object]) -> None:
    found = methods.parse(text)
    assert (str(found), found.options) == (text, options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("premodl", "did you mean premodel"),
        ("magic(k=5)", "known: agreement, cascade"),
        ("premodel(technique=tree)", "premodel has no 'technique'; it has theta, k, levels, otherwise, sound"),
        ("single(k=5)", "single has no 'k'; it has none"),
        ("premodel(k=many)", "k of premodel is a whole number, found 'many'"),
        ("premodel(k=0)", "how many neighbours"),
        ("premodel(sound=2)", "above 0 and up to 1"),
        ("premodel(sound=nan)", "sound of premodel is a number"),
        ("premodel(theta=-1)", "from 0 to below 1"),
        ("premodel(levels=forest)", "one of knn, tree, svm, cnn"),
        ("premodel(otherwise=guess)", "best is asked or refuse said"),
        ("premodel(features=beauty)", "features are some of"),
        ("premodel(count=0)", "one candidate or more"),
        ("cascade(how=luck)", "by search, greedy or plain"),
        ("cascade(stages=0)", "one stage or more"),
        ("deferral(careful=-1)", "0 or more"),
        ("premodel(k)", "is not key=value"),
        ("premodel(k=5, k=6)", "twice"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        methods.parse(text)


def test_what_all_methods_are_told_has_its_flag() -> None:
    with pytest.raises(InputError, match="every method alike") as told:
        methods.parse("cascade(max_loss=1)")
    assert told.value.hint == "--max-loss 1"


def test_what_is_asked_for_is_fitted() -> None:
    table = looked_at()
    found = fit(table, Wish("premodel(levels=tree, k=7, sound=0.9, otherwise=refuse, features=hue1+contrast)")).policy
    assert isinstance(found, Premodel)
    assert all(isinstance(level, Tree) for level in found.levels)
    assert (found.k, found.default, found.features) == (7, None, ("hue1", "contrast"))
    assert found.farthest is not None and found.farthest < np.inf
    short = fit(planted(), Wish("cascade(stages=1)")).policy
    assert isinstance(short, Cascade) and len(short.chain) == 1


def test_a_method_with_options_is_evaluated_beside_the_others() -> None:
    found = evaluated(looked_at(), Wish("premodel(features=contrast, k=3)"), folds=2)
    assert {"premodel", "premodel(features=contrast, k=3)", "cascade"} <= {each.name for each in found.methods}
    found = evaluated(planted(900), Wish("cascade(stages=2)", max_loss=0.05, risk=0.1), folds=2)
    assert {"cascade", "cascade(stages=2)", "cascade(stages=2), promised"} <= {each.name for each in found.methods}


def test_the_help_names_every_method() -> None:
    text = get_type_hints(command.fit, include_extras=True)["method"].__metadata__[0]
    assert all(name in text for name in registry.names(methods.PACKAGE))


def test_from_the_command_line_to_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(brightness(tmp_path / f"{name}.onnx", gain)) for name, gain in (("weak", 4.0), ("strong", 30.0))]
    path, data = str(tmp_path / "c.plan.json"), str(pictures(tmp_path / "pictures"))
    asked = ["select", "fit", "--models", *models, "--data", data, "--preprocess", "unit(resize=8, crop=8)"]
    kept = ["--save", str(tmp_path / "lab.db")]
    method = "premodel(k=3, features=avg_brightness, otherwise=refuse)"
    with quick(tmp_path):
        assert _main([*asked, *kept, "-o", path, "--method", "premodel(k=three)"]) == 2
        assert "whole number" in capsys.readouterr().err
        assert _main([*asked, *kept, "-o", path, "--method", method]) == 0
        assert method in capsys.readouterr().out
        plan = read(path)
        assert (plan.policy, plan.method, plan.how) == ("premodel", method, method)
        assert (plan.fields["k"], plan.fields["features"], plan.fields["default"]) == (3, ["avg_brightness"], None)
        assert _main(["select", "evaluate", path, "--folds", "2", "--live", "0", *kept, "--json"]) == 0
        names = [each["name"] for each in json.loads(capsys.readouterr().out)["selected"]["selection"]["methods"]]
        assert method in names
        # So few images show nothing: what was asked for is kept, and what came of it is called what it is.
        assert _main([*asked, *kept, "-o", path, "--method", "cascade(stages=2)", "--risk", "0.01"]) == 0
        plan = read(path)
        assert (plan.policy, plan.method, plan.how) == ("single", "cascade(stages=2)", "single")
