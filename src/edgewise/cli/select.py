"""`edgewise select`: the right model for each image, chosen among several, with what that saves."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from ..study.select import Told
    from ._progress import Progress


def fit(
    *,
    models: Annotated[tuple[str, ...], "model files, or built-in networks by name: pocket/* are all of them"],
    data: Annotated[
        str | None,
        "labelled images: a folder with one folder per class, a .csv list, an .npz (default: the models' own)",
    ] = None,
    labels: Annotated[str | None, "class names in the order of the models' outputs, one per line"] = None,
    preprocess: Annotated[
        tuple[str, ...], "how an image becomes the input, such as imagenet: one for all models, or one for each"
    ] = (),
    on: Annotated[tuple[str, ...], "a target, such as openvino:cpu:int8; several: every model on each"] = (
        "ort:cpu@1",
    ),
    recipe: Annotated[
        tuple[str, ...], "what is made of each model is one more candidate, such as 'fuse | quantize'; several"
    ] = (),
    calibration: Annotated[
        str | None, "other images for int8, labelled or not, or an .npz of inputs (default: some of the data, left out)"
    ] = None,
    method: Annotated[
        str,
        "agreement, cascade, deferral, premodel or single; with options: 'premodel(levels=tree, sound=0.9)'",
    ] = "cascade",
    max_loss: Annotated[float, "points of accuracy that may be lost beside the best model alone"] = 0.0,
    risk: Annotated[float | None, "promise that: the probability with which more may be lost, such as 0.05"] = None,
    objective: Annotated[str, "what to save: time, energy or memory"] = "time",
    top: Annotated[int, "an answer is right where the class is among that many first"] = 1,
    limit: Annotated[int | None, "ask about that many images only, drawn at random"] = None,
    seed: Annotated[int, "what --limit, calibration and halves draw with"] = 0,
    output: Annotated[str, "where to write the plan"] = "chooser.plan.json",
    save: Annotated[str | None, "the store to save times to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, or for one part of the images"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "everything as JSON"] = False,
) -> int:
    """Ask every model about every image, and learn which one to ask about which.

    Every model on every target is a candidate. What they answer is kept, so that trying another method takes seconds;
    what they cost is measured in turns, on single images. The plan is for `edgewise run`, `edgewise bench` and
    `edgewise.load`.
    """
    from ..analyze import chosen
    from ..core.errors import Unavailable
    from ..core.records import dumps
    from ..core.types import Scenario
    from ..measure.energy import baseline, choose_meters
    from ..report import terminal
    from ..store.db import Store
    from ..study import choosers, home, recipes
    from ..study import select as study
    from ..study.contenders import contenders
    from ..study.images import Question
    from ..study.prepare import Limits, expand
    from ..study.request import request
    from . import _values as values
    from ._progress import Progress

    wish = study.Wish(method, objective, max_loss / 100, risk, top, seed)
    module = study.check(wish)
    steps = [recipes.parse(text) for text in recipe]
    try:
        meters = choose_meters(every=objective == "energy")
    except Unavailable as error:
        raise Unavailable(error.message, "--objective time") from None
    path = save or str(home.default_store())
    progress = Progress(0)
    question = Question(data, labels, None, limit, seed)
    try:
        with Store(path) as store:
            asked = expand(models)
            limits = Limits(timeout, values.size_bytes(memory), {}, calibration)
            wanted = request(asked, tuple(dict.fromkeys(on)), (), [Scenario()], limits)
            store.save_machine(wanted.machine)
            candidates, failures = contenders(wanted, asked, question, preprocess, steps, progress.say)
            for model in [*wanted.models, *(each.model for each in candidates)]:
                store.save_model(model)
            found = study.gathered(
                candidates,
                failures,
                store,
                _told(progress),
                meters=baseline(meters),
                features=study.uses_features(module),
            )
        progress.say("fitting")
        plan = choosers.write(output, found, study.fit(found.table, wish), wish, wanted, question)
    except KeyboardInterrupt:
        progress.done()
        print("interrupted: what was answered is kept, and is not asked again", file=sys.stderr)
        return 130
    finally:
        for meter in meters:
            meter.close()
    progress.done()
    section = chosen.run(plan)
    about = found.findings
    if json_:
        print(dumps({"plan": plan, "section": section, "findings": about, "failures": found.failures}))
        return 0
    out = terminal.console(sys.stdout)
    out.print(f"{len(found.table)} images of {found.exam.label} on {wanted.machine.label}\n", markup=False)
    terminal.draw(section, out, keep=("model", "target"))
    terminal.draw_findings(about, out)
    terminal.draw_failures(found.failures, out)
    out.print(f"\nPlan written to {output}; run it: edgewise run {shlex.quote(output)} IMAGE", markup=False)
    return 0


def evaluate(
    plan: Annotated[str, "the plan, as `edgewise select fit` writes it"],
    *,
    data: Annotated[str | None, "labelled images (default: those it was fitted on)"] = None,
    labels: Annotated[str | None, "class names in the order of the models' outputs, one per line"] = None,
    folds: Annotated[int, "parts of the images; each is answered by policies fitted on the others"] = 10,
    limit: Annotated[int | None, "ask about that many images only, drawn at random"] = None,
    seed: Annotated[int, "what --limit and folds draw with"] = 0,
    live: Annotated[int, "images of the live run, one by one; 0 leaves it out"] = 2000,
    premodel: Annotated[bool, "look into the paper's premodel too: its features, techniques and sizes"] = False,
    save: Annotated[str | None, "the store to save times to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, or for one part of the images"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "everything as JSON"] = False,
) -> int:
    """What a chooser is worth: replayed, run live, and beside every other method on the same images.

    The plan itself is replayed on the images given, and run live on single images in turns with its candidates. Methods
    are compared by cross-validation: each image is answered by policies that were fitted without it. All of it is
    kept, and drawn by `edgewise report`.
    """
    from ..analyze import chosen, selection
    from ..analyze import premodel as looking
    from ..analyze.evidence import Evidence
    from ..core.errors import InputError, Unavailable, rebuild
    from ..core.records import dumps
    from ..core.selected import Selected
    from ..measure.energy import baseline, choose_meters
    from ..report import terminal
    from ..select.chooser import policy_of
    from ..select.looked import look
    from ..store.db import Store
    from ..store.kept import Kept
    from ..study import choosers, home
    from ..study import select as study
    from ..study.images import Question
    from ..study.live import live as run_live
    from ..study.prepare import Limits
    from . import _values as values
    from ._progress import Progress

    if folds < 2:
        raise InputError(f"--folds is at least 2, found {folds}")
    if live < 0:
        raise InputError(f"--live is a number of images, found {live}")
    limits = Limits(timeout, values.size_bytes(memory))
    found = choosers.read(plan)
    question = choosers.seen(plan, found, Question(data, labels, None, limit, seed))
    progress = Progress(0)
    path = save or str(home.default_store())
    with Store(path) as store:
        opened = choosers.opened(plan, found, limits)
        policy = policy_of(opened.ready)
        asked = choosers.contenders(opened, question)
        try:
            meters = choose_meters(every=found.outcome.objective == "energy")
        except Unavailable as error:
            raise Unavailable(error.message, "a plan that saves time: edgewise select fit --objective time") from None
        try:
            rest = baseline(meters)
            table = study.gathered(asked, (), store, _told(progress), meters=rest, features=True)
        finally:
            for meter in meters:
                meter.close()
    for failure in table.failures:
        # A chooser is worth something only with all of its candidates.
        message = f"{failure.label} on {failure.task.placement}: {failure.message}"
        raise rebuild({"error": failure.error, "message": message, "hint": failure.hint})
    objective = found.outcome.objective
    study.refuse_unknown_costs(table.table, objective)
    wish = study.Wish(found.method or found.policy, objective, found.max_loss, found.risk, found.outcome.top, seed)
    told = study.outcome(policy, table.table, wish)
    priced = zip(found.members, table.table.candidates, strict=True)
    now = replace(found, members=tuple(replace(member, candidate=candidate) for member, candidate in priced))
    again = choosers.seen_before(found, table)
    section = chosen.run(now, outcome=told, images=len(table.table), fitted=again)
    progress.say(f"every method on {folds} folds")
    methods = study.evaluated(table.table, wish, folds)
    looked = None
    if premodel:
        progress.say("looking into the premodel")
        looked = look(table.table, objective=told.objective, top=told.top, seed=seed)
    lived = None
    if live:
        progress.say("run live")
        lived = run_live(
            opened, table, limits, lambda done, of: progress.detail(f"{done} of {of} images"), images=live, seed=seed
        )
    progress.done()
    name = ", ".join(dict.fromkeys(candidate.label for candidate in table.table.candidates))
    selected = Selected(name, opened.machine.id, table.exam.label, methods, looked, lived)
    with Store(path) as store:
        store.save_machine(opened.machine)
        Kept(store).keep("selected", selected.key, selected)
    findings = [*opened.findings, *table.findings]
    if json_:
        said = {"plan": found, "section": section, "outcome": told, "selected": selected}
        print(dumps(said | {"findings": findings}))
        return 0
    out = terminal.console(sys.stdout)
    out.print(f"{len(table.table)} images of {table.exam.label} on {opened.machine.label}\n", markup=False)
    terminal.draw(section, out, keep=("model", "target"))
    out.print(f"\n[bold]Methods, on images held out ({folds} folds)[/bold]")
    evidence = Evidence(selected=(selected,))
    terminal.draw(selection.run(evidence), out, keep=("method",))
    if looked is not None:
        out.print("\n[bold]The premodel, by what decides at its levels[/bold]")
        terminal.draw(looking.run(evidence), out, keep=("technique",))
    terminal.draw_findings(findings, out)
    out.print(f"Saved in {path}", markup=False, style="dim")
    return 0


def _told(progress: Progress) -> Told:
    """What is shown while candidates are asked, and while they take turns."""
    from ..study.select import Told

    def asked(who: str, count: int, done: int) -> None:
        if not done or done == count:
            progress.say(f"{who}, {count} images{': all answered' if done else ''}")
        else:
            progress.detail(f"{done} answered")

    def priced(start: int, turn: int) -> None:
        if not turn:
            progress.say(f"on the clock in turns, set {start + 1} of processes")
        progress.detail(f"turn {turn + 1}")

    return Told(asked, priced)
