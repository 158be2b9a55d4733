"""A study: a file to cells, small batches first; gone on with, cut short by a budget, visited in turns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.core.errors import InputError
from edgewise.core.text import parse_target
from edgewise.core.types import Failure, Measurement, Result
from edgewise.store.db import Store
from edgewise.store.done import Done
from edgewise.study import home
from edgewise.study.conduct import Conduct
from edgewise.study.prepare import Limits
from edgewise.study.request import Request, request
from edgewise.study.schedule import Course, Wanted, blocks, outline
from edgewise.study.study import Study, read
from edgewise.study.survey import EngineFacts

SLOW, FAST = "null:cpu:fp32@1{latency=200us}", "null:cpu:fp32@1{latency=100us}"
SHORT = "[protocol]\nwarmup = 1\nmax_runs = 6\nmin_s = 0\nwidth = 0\n"
TWO = f'models = ["one.onnx", "two.onnx"]\non = ["{SLOW}", "{FAST}"]\nbatch = [2, 1]\n'


@pytest.fixture
def folder(tmp_path: Path, tiny_onnx: Path) -> Path:
    """Two models beside a study: the same network, the second with a byte of metadata more."""
    import onnx

    model = onnx.load(tiny_onnx)
    onnx.save(model, tmp_path / "one.onnx")
    model.producer_name = "another"
    onnx.save(model, tmp_path / "two.onnx")
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "lab.db") as opened:
        yield opened


def _study(folder: Path, text: str) -> Study:
    (folder / "lab.toml").write_text(text)
    return read(str(folder / "lab.toml"))


def _request(study: Study, store: Store) -> Request:
    wanted = request(study.models, study.on, (), study.scenarios, Limits())
    store.save_machine(wanted.machine)
    return wanted


def _conduct(study: Study, wanted: Request, store: Store, budget_s: float | None = None) -> Conduct:
    cells = blocks(study, wanted, Done(store, wanted.machine.id))
    return Conduct(study, wanted, cells, Course(wanted.startup_s, study.protocol.passes, budget_s), store)


def _run(conduct: Conduct, *, resume: bool = True) -> list[Result]:
    return list(conduct.results(lambda cell, number, part: None, resume=resume))


def _starts(store: Store) -> list[tuple[int, str, int]]:
    """Every process in the order of time: when, on what, its number within the result."""
    found = [
        (start.started_ns, str(record.task.placement), number)
        for _, _, _, record in store.results()
        if isinstance(record, Measurement)
        for number, start in enumerate(record.starts)
    ]
    return sorted(found)


def test_a_file_becomes_cells_small_batches_first(folder: Path, store: Store) -> None:
    study = _study(folder, TWO + SHORT)
    cells = [cell for block in blocks(study, _request(study, store), None) for cell in block]
    assert len(cells) == 8
    assert [cell.scenario.batch for cell in cells] == [1] * 4 + [2] * 4
    assert [cell.model.label for cell in cells] == ["one", "one", "two", "two"] * 2
    assert {str(cell.placement) for cell in cells} == {SLOW, FAST}
    assert {cell.scenario.max_runs for cell in cells} == {6}
    # The order of targets is random, and the same each time.
    assert [str(c.placement) for b in blocks(study, _request(study, store), None) for c in b] == [
        str(c.placement) for c in cells
    ]


def test_once_more_it_measures_nothing(folder: Path, store: Store) -> None:
    study = _study(folder, TWO.replace("[2, 1]", "[1]") + SHORT)
    wanted = _request(study, store)
    first = _conduct(study, wanted, store)
    results = _run(first)
    assert [len(result.samples_ns) for result in results if isinstance(result, Measurement)] == [6] * 4
    assert (first.known, first.unmeasured()) == (0, [])
    again = _conduct(study, wanted, store)
    assert all(cell.known for cell in again.cells)
    assert again.left_s() == 0
    assert _run(again) == results
    assert again.known == 4
    assert len(list(store.results())) == 4
    # Unless told to.
    _run(_conduct(study, wanted, store), resume=False)
    assert len(list(store.results())) == 8


def test_nothing_is_converted_for_what_is_there(folder: Path, store: Store) -> None:
    pytest.importorskip("MNN", reason="MNN is not installed")
    study = _study(folder, 'models = ["one.onnx"]\non = ["mnn:cpu:fp32@1"]\n' + SHORT)
    wanted = _request(study, store)
    results = _run(_conduct(study, wanted, store))
    assert isinstance(results[0], Measurement)
    made = [path for path in home.cache().iterdir() if path.name.endswith("-mnn")]
    assert made
    for path in made:
        shutil.rmtree(path)
    assert _run(_conduct(study, wanted, store)) == results
    assert not any(path.exists() for path in made)


def test_only_what_is_missing_is_measured(folder: Path, store: Store) -> None:
    study = _study(folder, TWO.replace("[2, 1]", "[1]") + SHORT)
    _run(_conduct(study, _request(study, store), store))
    more = _study(folder, TWO + SHORT)
    conduct = _conduct(more, _request(more, store), store)
    assert [cell.known for cell in conduct.cells] == [True] * 4 + [False] * 4
    assert len(_run(conduct)) == 8
    assert conduct.known == 4
    assert len(list(store.results())) == 8


def test_a_failure_is_a_result_and_not_tried_again(folder: Path, store: Store) -> None:
    text = 'models = ["one.onnx"]\non = ["null{fail=load}", "null:tpu", "null"]\n' + SHORT
    study = _study(folder, text)
    wanted = _request(study, store)
    errors = {str(r.task.placement): isinstance(r, Failure) for r in _run(_conduct(study, wanted, store))}
    assert list(errors.values()).count(True) == 2
    again = _conduct(study, wanted, store)
    assert [cell.known for cell in again.cells] == [True] * 3
    assert len(_run(again)) == 3
    assert len(list(store.results())) == 3


def test_passes_take_turns_in_fresh_processes(folder: Path, store: Store) -> None:
    targets = ", ".join(f'"null:cpu:fp32@1{{latency={us}us}}"' for us in (100, 200, 300))
    study = _study(folder, f'models = ["one.onnx"]\non = [{targets}]\n{SHORT}passes = 3\n')
    results = _run(_conduct(study, _request(study, store), store))
    for result in results:
        assert isinstance(result, Measurement)
        assert result.complete
        assert len(result.starts) == 3
        # A third of the runs from each process, each after its own warm-up.
        assert [len(r.samples_ns) for r in result.measured] == [2, 2, 2]
        assert [r.start for r in result.measured] == [0, 1, 2]
        assert len([r for r in result.rounds if r.warmup]) == 3
        assert result.task.scenario.max_runs == 6
    order = _starts(store)
    # All once, then all again: never two of the same pass apart by another pass.
    assert [number for _, _, number in order] == [0] * 3 + [1] * 3 + [2] * 3
    visits = [[target for _, target, _ in order[i : i + 3]] for i in (0, 3, 6)]
    assert all(len(set(visit)) == 3 for visit in visits)
    assert len({tuple(visit) for visit in visits}) > 1
    assert [status for _, _, status, _ in store.results()] == ["complete"] * 3


def test_one_process_is_not_three(folder: Path, store: Store) -> None:
    text = f'models = ["one.onnx"]\non = ["{FAST}"]\n{SHORT}'
    once = _study(folder, text)
    wanted = _request(once, store)
    _run(_conduct(once, wanted, store))
    often = _study(folder, text + "passes = 3\n")
    conduct = _conduct(often, wanted, store)
    assert not conduct.cells[0].known
    (result,) = _run(conduct)
    assert isinstance(result, Measurement)
    assert len(result.starts) == 3
    assert len(list(store.results())) == 2


class Clock:
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_a_budget_ends_it_and_says_what_is_left(folder: Path, store: Store) -> None:
    study = _study(folder, TWO + SHORT)
    wanted = _request(study, store)
    cells = blocks(study, wanted, None)
    conduct = Conduct(study, wanted, cells, Course(0.0, 1, 12.0, Clock()), store)
    results = _run(conduct)
    assert 0 < len(results) < 8
    left = conduct.unmeasured()
    assert len(left) == 8 - len(results)
    # What was measured is the beginning of what was wanted, and the rest is had by asking again.
    assert left == conduct.cells[len(results) :]
    assert left[-1].scenario.batch == 2
    again = _conduct(study, wanted, store)
    assert len(_run(again)) == 8
    assert again.known == len(results)


def test_a_budget_spent_between_passes_keeps_what_there_is(folder: Path, store: Store) -> None:
    study = _study(folder, TWO.replace("[2, 1]", "[1]") + SHORT + "passes = 2\n")
    wanted = _request(study, store)
    course = Course(0.0, 2, 1e9)
    conduct = Conduct(study, wanted, blocks(study, wanted, None), course, store)
    results: list[Result] = []
    visits = 0

    def tell(cell: object, number: int, part: object) -> None:
        nonlocal visits
        visits += part is None
        if visits == 3:  # the first visit of the second pass
            course.budget_s = 0.0

    results += conduct.results(tell, resume=True)
    complete = [r.complete for r in results if isinstance(r, Measurement)]
    assert sorted(complete) == [False, True]
    assert len(conduct.unmeasured()) == 3
    # This process still lives, so nobody may take over from it; one that is gone leaves it to the next.
    store.connection.execute("UPDATE results SET owner = '1:0.00' WHERE status = 'running'")
    again = _run(_conduct(study, wanted, store))
    assert [(r.complete, len(r.starts), len(r.samples_ns)) for r in again if isinstance(r, Measurement)] == [
        (True, 2, 6)
    ] * 4
    assert len(list(store.results())) == 4


# How long, and what of it


def _cells(folder: Path, store: Store, text: str) -> tuple[list[Wanted], Study]:
    study = _study(folder, text)
    return [cell for block in blocks(study, _request(study, store), None) for cell in block], study


def test_the_estimate_follows_what_cells_took(folder: Path, store: Store) -> None:
    text = TWO + "[protocol]\nmin_s = 1\nmax_s = 10\ncooldown_s = 2\npasses = 2\n"
    cells, _ = _cells(folder, store, text)
    course = Course(0.5, 2)
    assert course.bounds_s(cells[0]) == (2 * 2.5 + 1, 2 * 2.5 + 13)
    assert course.cell_s(cells[0]) == sum(course.bounds_s(cells[0])) / 2
    assert course.all_s(cells) == (8 * 6, 8 * 18)
    course.took(cells[0], 3.0)
    course.took(cells[0], 5.0)
    assert course.cell_s(cells[1]) == 2 * 4.0
    # A batch not seen yet is taken for like those that were.
    assert course.cell_s(cells[-1]) == 2 * 4.0
    course.took(cells[-1], 7.0)
    assert course.cell_s(cells[-2]) == 2 * 7.0


def test_the_estimate_of_a_number_of_runs_grows_with_the_batch(folder: Path, store: Store) -> None:
    cells, _ = _cells(folder, store, TWO + "[protocol]\nwarmup = 10\nmax_runs = 50\nmin_s = 0\nmax_s = 120\n")
    course = Course(1.0, 1)
    small, large = course.cell_s(cells[0]) - 1, course.cell_s(cells[-1]) - 1
    assert large == pytest.approx(2 * small)
    assert 1 < small < 60
    assert course.about_s(cells) == pytest.approx(4 * (small + 1) + 4 * (large + 1))


def test_a_budget_covers_the_first_cells(folder: Path, store: Store) -> None:
    cells, _ = _cells(folder, store, TWO + "[protocol]\nmin_s = 1\nmax_s = 1\nwarmup = 0\n")
    one = Course(0.0, 1).cell_s(cells[0])
    assert Course(0.0, 1).within(cells) == 8
    assert Course(0.0, 1, 5.5 * one).within(cells) == 5
    assert outline(cells[5:], 2) == "batch 2 (3 cells)"
    assert outline(cells[2:5], 2) == "batch 1 of two (2 cells), batch 2 of one (1 cell)"


# What is measured where nothing is named


def _facts(request_: Request) -> dict[str, EngineFacts]:
    return {engine.name: engine for engine in request_.engines}


def test_every_target_less_what_is_left_out(folder: Path, store: Store) -> None:
    text = 'models = ["one.onnx"]\nengines = ["ort"]\n'
    study = _study(folder, text)
    wanted = request(study.models, study.on, (), study.scenarios, Limits(), engines=study.engines)
    assert set(_facts(wanted)) == {"ort"}

    def targets(more: str) -> list[str]:
        chosen = _study(folder, text + more)
        return sorted(str(cell.placement) for block in blocks(chosen, wanted, None) for cell in block)

    every = targets("")
    assert {parse_target(each).precision for each in every} == {"fp32", "int8"}
    assert targets('precisions = ["fp32"]') == [each for each in every if "fp32" in each]
    assert all(each.endswith("@1") for each in targets('threads = "one"'))
    most = max(parse_target(each).threads or 0 for each in every)
    assert {parse_target(each).threads for each in targets('threads = "all"')} == {most}
    with pytest.raises(InputError, match="none is left by engines, precisions and threads"):
        targets('precisions = ["tf32"]')


def test_a_protocols_own_targets_where_their_engine_is(folder: Path) -> None:
    names = ("one.onnx",)
    own = [parse_target("null:npu"), parse_target("coreml:all")]
    paths = [str(folder / name) for name in names]
    here = request(paths, (), (), _study(folder, TWO).scenarios, Limits(), preferred=own, engines=["null"])
    assert [str(target) for target in here.targets] == ["null:npu"]
    named = request(paths, ["null:cpu"], (), _study(folder, TWO).scenarios, Limits(), preferred=own)
    assert [str(target) for target in named.targets] == ["null:cpu"]


# Files


def test_models_are_files_beside_the_study_names_and_patterns(folder: Path) -> None:
    study = _study(folder, 'models = ["*.onnx", "tiny", "pocket/*", "two.onnx"]\nprotocol = "quick"')
    assert study.models[:3] == (str(folder / "one.onnx"), str(folder / "two.onnx"), "tiny")
    assert all(name.startswith("pocket/") for name in study.models[3:])
    assert len(study.models) > 5
    assert study.name == "lab"


def test_a_study_says_everything_it_may(folder: Path) -> None:
    study = _study(
        folder,
        'name = "all of it"\nprotocol = "embench"\nmodels = "tiny"\nengines = ["ort"]\nprecisions = ["fp32"]\n'
        'threads = "one"\nbatch = 4\nscenarios = ["single", "concurrent(n=2)"]\nbudget = "20min"\nseed = 3\n'
        'energy = "active_minus_idle"\ncost = false\nprofile = true\nsupport = true\nroofs = true\n'
        'accuracy = "pocket"\n',
    )
    assert (study.name, study.models, study.batch, study.budget_s, study.seed) == (
        "all of it",
        ("tiny",),
        (4,),
        1200,
        3,
    )
    assert [load.kind for load in study.scenarios] == ["single", "concurrent"]
    assert {load.max_runs for load in study.scenarios} == {50}
    assert (study.cost, study.profile, study.support, study.roofs, study.accuracy) == (
        False,
        True,
        True,
        True,
        "pocket",
    )
    assert study.energy == "active_minus_idle"


WRONG = [
    ("", r"lab\.toml names no models"),
    ("models = []", "models is a list, expected a list of texts"),
    ("models = 3", r"models is a whole number \(3\), expected a list of texts"),
    ('models = ["tiny", 3]', r"models\[1\] is a whole number \(3\), expected a text"),
    ('models = ["mobilnet_v2"]', r"models\[0\]: there is no file .*mobilnet_v2, .* did you mean mobilenet_v2"),
    ('models = ["*.tflite"]', r"models\[0\]: nothing matches '\*\.tflite'"),
    ('models = ["tiny"]\nmodel = "x"', "unknown key 'model'; did you mean models"),
    ('models = ["tiny"]\nprotocol = "embanch"', "unknown protocol 'embanch'; did you mean embench"),
    ('models = ["tiny"]\nprotocol = ["embench"]', "protocol is a list, expected one of bound"),
    ('models = ["tiny"]\non = ["orr:cpu"]', r"on\[0\]: unknown engine 'orr'; did you mean ort"),
    ('models = ["tiny"]\non = ["ort:cpu:fp33"]', r"on\[0\]: unknown precision 'fp33'"),
    ('models = ["tiny"]\non = ["ort", "deal(ort, orr)"]', r"on\[1\]: unknown engine 'orr'; did you mean ort"),
    ('models = ["tiny"]\non = ["deal(ort)"]', r"on\[0\]: a deal placement over 1 target"),
    ('models = ["tiny"]\non = ["ort"]\nengines = ["ort"]', "engines narrows down every target there is"),
    ('models = ["tiny"]\nengines = ["tensorrt"]', "unknown engine 'tensorrt'; known: "),
    ('models = ["tiny"]\nprecisions = ["int9"]', "unknown precision 'int9'; did you mean int8"),
    ('models = ["tiny"]\nthreads = 2', r"threads is a whole number \(2\), expected one of one, all, both"),
    ('models = ["tiny"]\nbatch = [1, "2"]', r"batch\[1\] is text \('2'\), expected a whole number, at least 1"),
    ('models = ["tiny"]\nbatch = 0', r"batch\[0\] is a whole number \(0\)"),
    ('models = ["tiny"]\nscenarios = ["burst"]', r"scenarios\[0\]: unknown scenario 'burst'"),
    ('models = ["tiny"]\nscenarios = ["single(batch=8)"]', "the batch is a key of its own"),
    ('models = ["tiny"]\nbatch = [1]\nscenarios = ["single(batch=8)"]', "the batch is a key of its own"),
    ('models = ["tiny"]\naccuracy = "nowhere"', "accuracy: there is no data at"),
    ('models = ["tiny"]\naccuracy = "pocket(colour=2)"', "accuracy: pocket has no 'colour'"),
    ('models = ["tiny"]\nbudget = 20', r"budget is a whole number \(20\), expected a text"),
    ('models = ["tiny"]\nbudget = "20"', "budget: '20' is not a time; expected such as 90s, 20min or 1h30min"),
    ('models = ["tiny"]\nprofile = "yes"', r"profile is text \('yes'\), expected true or false"),
    ('models = ["tiny"]\nseed = -1', r"seed is a whole number \(-1\)"),
    ('models = ["tiny"]\nenergy = "some"', "unknown energy 'some'; known: off, active_minus_idle"),
    (
        'models = ["tiny"]\nrecipes = ["shrink"]',
        r"recipes\[0\]: unknown step 'shrink'; known: quantize, distill, fuse, lowrank, prune, reorder",
    ),
    ('models = ["tiny"]\nrecipes = ["prune(ratio=2)"]', "ratio of prune is a number between 0 and 1, found '2'"),
    ('models = ["tiny"]\nrecipes = ["prune(share=0.2)"]', "prune has no 'share'; it has ratio"),
    ('models = ["tiny"]\nrecipes = ["reorder(ratio=0.2)"]', "reorder has no 'ratio'; it has none"),
    ('models = ["tiny"]\nrecipes = ["none", "quantize(bits=8)"]', r"recipes\[1\]: quantize has no 'bits'"),
    (
        'models = ["tiny"]\nrecipes = ["quantize(precision=int4)"]',
        "precision of quantize is one of int8, fp16, found 'int4'",
    ),
    ("models = [", "is not TOML: "),
    ("\udcff", "is not TOML: "),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text for text, _ in WRONG])
def test_a_wrong_file_says_where_and_what_was_expected(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message) as refused:
        read(str(file))
    assert str(file) in refused.value.message


def test_a_file_that_is_not_there_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the study .*nowhere\.toml cannot be read: No such file"):
        read(str(tmp_path / "nowhere.toml"))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(str(tmp_path))
    (tmp_path / "large.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(InputError, match="it is no study"):
        read(str(tmp_path / "large.toml"))


def test_the_studies_in_the_docs_are_studies() -> None:
    found = sorted((Path(__file__).parents[2] / "docs" / "studies").glob("*.toml"))
    assert [file.stem for file in found] == ["characterize", "embench", "gpu", "zoo"]
    studies = {file.stem: read(str(file)) for file in found}
    assert len(studies["embench"].models) == 3
    assert len(studies["zoo"].models) >= 8
    assert (studies["zoo"].on, studies["zoo"].engines) == ((), ())
    assert studies["zoo"].batch == (1, 2, 4, 8, 16, 32)
    assert studies["characterize"].profile and studies["characterize"].support and studies["characterize"].roofs
