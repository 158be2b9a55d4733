"""The store: begin a result, add its parts as they come, read results back as records."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..core.energy import Energy
from ..core.errors import StoreError
from ..core.records import from_json, to_json
from ..core.text import parse_placement, parse_scenario
from ..core.types import Agreement, Failure, Machine, Measurement, Model, Ran, Result, Round, Start, Task
from .blobs import pack, unpack
from .migrations import MIGRATIONS, migrate, refuse_foreign
from .owner import alive, me

# Another writer holds the lock for milliseconds; this long means it is stuck.
_BUSY_MS = 30_000
_MAGIC = b"SQLite format 3\0"
_ROUND_COLUMNS = tuple(f.name for f in fields(Round))
_ENERGY_COLUMNS = tuple(f.name for f in fields(Energy))
_TABLES = {Start: "starts", Round: "rounds", Energy: "energies"}


class Store:
    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = str(path)
        if not create and not Path(self.path).is_file():
            raise StoreError(f"there is no store {self.path}", f"edgewise bench MODEL --save {self.path}")
        with self.guard():
            if create:
                Path(self.path).resolve().parent.mkdir(parents=True, exist_ok=True)
            _refuse_other_files(Path(self.path))
            self.connection = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_MS / 1000)
            try:
                self._prepare()
            except BaseException:
                self.connection.close()
                raise

    def _prepare(self) -> None:
        self.connection.row_factory = sqlite3.Row
        self.connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        self.connection.execute("PRAGMA foreign_keys = ON")
        # Before anything that writes: somebody else's database is left as it is.
        version = refuse_foreign(self.connection, self.path)
        # Readers and writers do not wait for each other, and a killed writer leaves a whole database.
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        # Only where there is something to change: who opens a store to read it must not wait for a writer.
        if version < len(MIGRATIONS):
            migrate(self.connection, self.path)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """The one place where SQLite's errors, and the file system's, become ours."""
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.path} cannot be used: {error.strerror}", "name another file with --save") from None
        except sqlite3.Error as error:
            reason = str(error)
            hint = "name another file with --save"
            if "full" in reason or "disk I/O" in reason:
                hint = "free some space and go on with --resume: what was saved is whole"
            raise StoreError(f"{self.path} cannot be used: {reason}", hint) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self.guard():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def save_machine(self, machine: Machine) -> None:
        with self.transaction() as db:
            row = (machine.id, machine.label, json.dumps(to_json(machine)))
            db.execute("INSERT OR REPLACE INTO machines VALUES (?, ?, ?)", row)

    def save_model(self, model: Model) -> None:
        row = (
            model.digest,
            model.label,
            model.precision,
            model.recipe,
            model.parent,
            json.dumps(to_json(model)),
        )
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?, ?, ?)", row)

    def begin(
        self,
        task: Task,
        machine: str,
        versions: tuple[tuple[str, str], ...],
        inputs: str,
        label: str,
        study: str = "bench",
    ) -> int:
        """A new result, running; its number."""
        with self.transaction() as db:
            key = (task.digest, task.subject, str(task.placement), str(task.scenario), label, study)
            cursor = db.execute(
                "INSERT INTO results (created_ns, task, subject, placement, scenario, label, study, machine, versions,"
                " inputs, status, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?)",
                (time.time_ns(), *key, machine, json.dumps(versions), inputs, me()),
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def add(self, result: int, part: Start | Round | Energy) -> None:
        table = _TABLES[type(part)]
        values: dict[str, Any] = {f.name: getattr(part, f.name) for f in fields(part)}
        if isinstance(part, Start):
            values["ran"] = json.dumps(to_json(part.ran))
            values["agreement"] = json.dumps(to_json(part.agreement)) if part.agreement else None
            values["cores"] = json.dumps(part.cores)
        elif isinstance(part, Round):
            values["samples_ns"] = pack(part.samples_ns)
            values["shares"] = json.dumps(part.shares) if part.shares else None
        columns = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        ordinal = f"(SELECT count(*) FROM {table} WHERE result = {int(result)})"
        with self.transaction() as db:
            db.execute(
                f"INSERT INTO {table} (result, ordinal, {columns}) VALUES ({int(result)}, {ordinal}, {marks})",
                tuple(values.values()),
            )

    def finish(self, result: int, failure: Failure | None = None) -> None:
        with self.transaction() as db:
            if failure is None:
                db.execute("UPDATE results SET status = 'complete', owner = NULL WHERE id = ?", (result,))
            else:
                db.execute(
                    "UPDATE results SET status = 'failed', owner = NULL, stage = ?, error = ?, message = ?, hint = ?,"
                    " stderr = ? WHERE id = ?",
                    (failure.stage, failure.error, failure.message, failure.hint, failure.stderr, result),
                )

    def find(
        self, task: Task, machine: str, versions: tuple[tuple[str, str], ...], inputs: str
    ) -> tuple[int, str, Result] | None:
        """The newest result, measured alone, for exactly this task, machine, engine versions and inputs: number,
        status, record."""
        with self.guard():
            row = self.connection.execute(
                "SELECT * FROM results WHERE study = 'bench' AND task = ? AND machine = ? AND versions = ?"
                " AND inputs = ? ORDER BY id DESC LIMIT 1",
                (task.digest, machine, json.dumps(versions), inputs),
            ).fetchone()
            return (row["id"], row["status"], self._record(row)) if row else None

    def claim(self, result: int) -> bool:
        """Take over a result whose writer is gone; False where it is still being written."""
        with self.transaction() as db:
            row = db.execute("SELECT status, owner FROM results WHERE id = ?", (result,)).fetchone()
            if row["status"] != "running" or alive(row["owner"]):
                return False
            db.execute("UPDATE results SET owner = ? WHERE id = ?", (me(), result))
            return True

    def results(self, study: str | None = None) -> Iterator[tuple[int, int, str, Result]]:
        """Everything, or what was measured for one `study`, oldest first: number, creation time, status, record. What
        nobody writes any more is `interrupted`: --resume goes on with it."""
        with self.guard():
            chosen = "SELECT * FROM results WHERE study = coalesce(?, study) ORDER BY id"
            for row in self.connection.execute(chosen, (study,)).fetchall():
                status = row["status"]
                if status == "running" and not alive(row["owner"]):
                    status = "interrupted"
                yield row["id"], row["created_ns"], status, self._record(row)

    def models(self) -> dict[str, Model]:
        with self.guard():
            rows = self.connection.execute("SELECT facts FROM models").fetchall()
            models = [from_json(Model, json.loads(row["facts"])) for row in rows]
            return {model.digest: model for model in models}

    def machines(self) -> dict[str, Machine]:
        with self.guard():
            rows = self.connection.execute("SELECT facts FROM machines").fetchall()
            machines = [from_json(Machine, json.loads(row["facts"])) for row in rows]
            return {machine.id: machine for machine in machines}

    def _record(self, row: sqlite3.Row) -> Result:
        task = Task(row["subject"], parse_placement(row["placement"]), parse_scenario(row["scenario"]))
        if row["status"] == "failed":
            reason = (row["stage"], row["error"], row["message"], row["hint"], row["stderr"] or "")
            return Failure(task, row["machine"], *reason, row["label"])
        select = "SELECT * FROM {} WHERE result = ? ORDER BY ordinal"
        starts = tuple(map(_start, self.connection.execute(select.format("starts"), (row["id"],))))
        rounds = tuple(map(_round, self.connection.execute(select.format("rounds"), (row["id"],))))
        versions = tuple((name, version) for name, version in json.loads(row["versions"]))
        energies = tuple(map(_energy, self.connection.execute(select.format("energies"), (row["id"],))))
        about = (task, row["machine"], versions, row["inputs"])
        return Measurement(*about, starts, rounds, row["status"] == "complete", row["label"], energies)


def _refuse_other_files(path: Path) -> None:
    """SQLite takes a file shorter than its header for an empty database, and would write over it."""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
        if head and head != _MAGIC:
            raise StoreError(f"{path} cannot be used: file is not a database", "name another file with --save")


def _start(row: sqlite3.Row) -> Start:
    return Start(
        row["started_ns"],
        row["load_ns"],
        row["first_ns"],
        row["baseline_bytes"],
        from_json(Ran, json.loads(row["ran"])),
        from_json(Agreement, json.loads(row["agreement"])) if row["agreement"] else None,
        row["peak_bytes"],
        tuple(json.loads(row["cores"])),
        row["cpus"],
    )


def _round(row: sqlite3.Row) -> Round:
    values = {name: row[name] for name in _ROUND_COLUMNS}
    values |= {"warmup": bool(row["warmup"]), "samples_ns": unpack(row["samples_ns"])}
    return Round(**(values | {"shares": tuple(json.loads(row["shares"] or "[]"))}))


def _energy(row: sqlite3.Row) -> Energy:
    return Energy(**{name: row[name] for name in _ENERGY_COLUMNS})
