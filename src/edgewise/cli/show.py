"""`edgewise show`: what a store holds, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime
from typing import Annotated


def run(
    store: Annotated[str | None, "the store (default: your own)"] = None,
    *,
    csv_: Annotated[bool, "one line per sample as CSV"] = False,
    json_: Annotated[bool, "every record, samples included, as JSON"] = False,
) -> None:
    """Show what a store holds, or export it."""
    from ..core import stats
    from ..core.records import dumps
    from ..core.types import Column, Failure, Section
    from ..report import terminal
    from ..store.db import Store
    from ..study import home

    with Store(store or home.default_store(), create=False) as opened:
        results = list(opened.results())
        machines = opened.machines()
    if json_:
        records = [
            {"id": number, "created_ns": created, "status": status, "result": record}
            for number, created, status, record in results
        ]
        print(dumps({"machines": tuple(machines.values()), "results": records}))
        return
    if csv_:
        _write_csv(results)
        return
    rows: list[tuple[object, ...]] = []
    for number, created, status, record in results:
        when = datetime.fromtimestamp(created / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
        machine = machines[record.machine].label if record.machine in machines else record.machine
        key = (
            number,
            when,
            machine,
            record.label,
            str(record.task.scenario),
            str(record.task.placement),
            status,
        )
        if isinstance(record, Failure):
            rows.append((*key, None, None, record.message))
            continue
        samples = record.samples_ns
        rows.append((*key, len(samples), stats.quantile(samples, 0.5) if samples else None, ""))
    names = ("id", "when", "machine", "model", "scenario", "target", "status")
    columns = (*map(Column, names), Column("runs", "count"), Column("p50", "ns"), Column("reason"))
    out = terminal.console(sys.stdout)
    terminal.draw(Section("Store", columns, tuple(rows)), out, keep=("id", "model", "target", "status"))
    out.print(f"\n{len(rows)} results from {len(machines)} machine(s)")


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
