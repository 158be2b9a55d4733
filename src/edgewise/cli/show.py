"""`edgewise show`: what a store holds, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from ..core.evaluation import Evaluation
    from ..core.types import Failure, Result, Section


def run(
    store: Annotated[str | None, "the store (default: your own)"] = None,
    *,
    csv_: Annotated[bool, "one line per sample as CSV"] = False,
    json_: Annotated[bool, "every record, samples included, as JSON"] = False,
) -> None:
    """Show what a store holds, or export it."""
    from ..core.records import dumps
    from ..report import terminal
    from ..store.db import Store
    from ..store.evaluations import Evaluations
    from ..study import home

    with Store(store or home.default_store(), create=False) as opened:
        results = list(opened.results())
        evaluations = list(Evaluations(opened).all())
        machines = opened.machines()
    if json_:
        heads = ("id", "created_ns", "status")
        records = [dict(zip((*heads, "result"), each, strict=True)) for each in results]
        answers = [dict(zip((*heads, "evaluation"), each, strict=True)) for each in evaluations]
        print(dumps({"machines": tuple(machines.values()), "results": records, "evaluations": answers}))
        return
    if csv_:
        _write_csv(results)
        return
    labels = {machine.id: machine.label for machine in machines.values()}
    out = terminal.console(sys.stdout)
    terminal.draw(_results(results, labels), out, keep=("id", "model", "target", "status"))
    if evaluations:
        out.print("\n[bold]Accuracy[/bold]")
        terminal.draw(_evaluations(evaluations, labels), out, keep=("id", "model", "target", "data", "status"))
    counted = f"{len(results)} results" + (f", {len(evaluations)} evaluations" if evaluations else "")
    out.print(f"\n{counted} from {len(machines)} machine(s)")


def _results(results: Iterable[tuple[int, int, str, Result]], machines: Mapping[str, str]) -> Section:
    from ..core import stats
    from ..core.types import Column, Failure, Section

    rows: list[tuple[object, ...]] = []
    for number, created, status, record in results:
        where = machines.get(record.machine, record.machine)
        scenario, target = str(record.task.scenario), str(record.task.placement)
        key = (number, _when(created), where, record.label, scenario, target, status)
        if isinstance(record, Failure):
            rows.append((*key, None, None, record.message))
            continue
        samples = record.samples_ns
        rows.append((*key, len(samples), stats.quantile(samples, 0.5) if samples else None, ""))
    names = ("id", "when", "machine", "model", "scenario", "target", "status")
    columns = (*map(Column, names), Column("runs", "count"), Column("p50", "ns"), Column("reason"))
    return Section("Store", columns, tuple(rows))


def _evaluations(
    evaluations: Iterable[tuple[int, int, str, Evaluation | Failure]], machines: Mapping[str, str]
) -> Section:
    from ..analyze.accuracy import Outcome
    from ..core.types import Column, Failure, Section

    rows: list[tuple[object, ...]] = []
    for number, created, status, record in evaluations:
        where = machines.get(record.machine, record.machine)
        if isinstance(record, Failure):
            target = str(record.task.placement)
            rows.append((number, _when(created), where, record.label, None, target, status, None, None, record.message))
            continue
        key = (number, _when(created), where, record.label, record.data_label, str(record.placement), status)
        right = float(Outcome.of(record).right.mean()) if record.answered else None
        rows.append((*key, record.answered, right, ""))
    names = ("id", "when", "machine", "model", "data", "target", "status")
    columns = (*map(Column, names), Column("images", "count"), Column("top1", "accuracy"), Column("reason"))
    return Section("Accuracy", columns, tuple(rows))


def _when(created_ns: int) -> str:
    return datetime.fromtimestamp(created_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def _write_csv(results: object) -> None:
    """Long form, so that a spreadsheet or data frame needs no parsing: one row per sample."""
    from ..core.types import Measurement

    writer = csv.writer(sys.stdout)
    head = (
        "id",
        "model",
        "target",
        "scenario",
        "machine",
        "start",
        "round",
        "warmup",
        "started_ns",
        "sample_ns",
    )
    writer.writerow(head)
    assert isinstance(results, list)
    for number, _, _, record in results:
        if not isinstance(record, Measurement):
            continue
        key = (number, record.label, record.task.placement, record.task.scenario, record.machine)
        for ordinal, part in enumerate(record.rounds):
            for sample in part.samples_ns:
                writer.writerow((*key, part.start, ordinal, int(part.warmup), part.started_ns, sample))
