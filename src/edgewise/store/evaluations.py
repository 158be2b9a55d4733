"""Evaluations in the store: begin one, add its answers as they come, read them back as records."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator

from ..core.evaluation import Answers, Evaluation
from ..core.text import parse_placement
from ..core.types import Failure, Scenario, Task
from .blobs import pack, pack_floats, unpack, unpack_floats
from .db import Store
from .owner import alive, me

# What an evaluation is found by.
_KEY = ("subject", "placement", "machine", "versions", "prepared", "data", "preprocess")


class Evaluations:
    """The part of a store that holds what models answered."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, evaluation: Evaluation) -> int:
        """A new one, running, without answers yet; its number."""
        columns = {
            **_key(evaluation),
            "label": evaluation.label,
            "data_label": evaluation.data_label,
            "images": evaluation.images,
            "classes": json.dumps(evaluation.classes),
            "created_ns": time.time_ns(),
            "status": "running",
            "owner": me(),
        }
        with self._store.transaction() as db:
            marks = ", ".join("?" for _ in columns)
            insert = f"INSERT INTO evaluations ({', '.join(columns)}) VALUES ({marks})"
            number = db.execute(insert, tuple(columns.values())).lastrowid
            assert number is not None
            return number

    def add(self, number: int, part: Answers) -> None:
        with self._store.transaction() as db:
            db.execute(
                "INSERT INTO answers"
                " VALUES (?, (SELECT count(*) FROM answers WHERE evaluation = ?), ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    number,
                    number,
                    pack(part.labels),
                    pack(place for row in part.ranked for place in row),
                    pack_floats(part.confidence),
                    part.decode_ns,
                    part.prepare_ns,
                    part.run_ns,
                    part.ran,
                    part.outputs,
                ),
            )

    def finish(self, number: int, failure: Failure | None = None) -> None:
        reason = (
            ("complete", None, None, None, None, None)
            if failure is None
            else ("failed", failure.stage, failure.error, failure.message, failure.hint, failure.stderr)
        )
        with self._store.transaction() as db:
            db.execute(
                "UPDATE evaluations SET owner = NULL, status = ?, stage = ?, error = ?, message = ?, hint = ?,"
                " stderr = ? WHERE id = ?",
                (*reason, number),
            )

    def find(self, evaluation: Evaluation) -> tuple[int, Evaluation] | None:
        """The newest for exactly this model, target, machine, versions, images and preprocessing that did not fail:
        its number, and what it has."""
        key = _key(evaluation)
        where = " AND ".join(f"{name} = ?" for name in _KEY)
        with self._store.guard():
            row = self._store.connection.execute(
                f"SELECT * FROM evaluations WHERE {where} AND status != 'failed' ORDER BY id DESC LIMIT 1",
                tuple(key[name] for name in _KEY),
            ).fetchone()
            found = self._record(row) if row else None
            return (row["id"], found) if isinstance(found, Evaluation) else None

    def claim(self, number: int) -> bool:
        """Take over one whose writer is gone; False where it is still being written."""
        with self._store.transaction() as db:
            row = db.execute("SELECT status, owner FROM evaluations WHERE id = ?", (number,)).fetchone()
            if row["status"] != "running" or alive(row["owner"]):
                return False
            db.execute("UPDATE evaluations SET owner = ? WHERE id = ?", (me(), number))
            return True

    def all(self) -> Iterator[tuple[int, int, str, Evaluation | Failure]]:
        """Everything, oldest first: number, creation time, status, record."""
        with self._store.guard():
            for row in self._store.connection.execute("SELECT * FROM evaluations ORDER BY id").fetchall():
                status = row["status"]
                if status == "running" and not alive(row["owner"]):
                    status = "interrupted"
                yield row["id"], row["created_ns"], status, self._record(row)

    def _record(self, row: sqlite3.Row) -> Evaluation | Failure:
        placement = parse_placement(row["placement"])
        if row["status"] == "failed":
            reason = (row["stage"], row["error"], row["message"], row["hint"], row["stderr"] or "")
            return Failure(Task(row["subject"], placement, Scenario()), row["machine"], *reason, row["label"])
        parts = self._store.connection.execute(
            "SELECT * FROM answers WHERE evaluation = ? ORDER BY ordinal", (row["id"],)
        )
        return Evaluation(
            row["subject"],
            placement,
            row["machine"],
            tuple((name, version) for name, version in json.loads(row["versions"])),
            row["data"],
            row["images"],
            row["prepared"],
            row["preprocess"],
            tuple(json.loads(row["classes"])),
            tuple(map(_answers, parts)),
            row["label"],
            row["data_label"],
        )


def _key(evaluation: Evaluation) -> dict[str, object]:
    return {
        "subject": evaluation.subject,
        "placement": str(evaluation.placement),
        "machine": evaluation.machine,
        "versions": json.dumps(evaluation.versions),
        "prepared": evaluation.prepared,
        "data": evaluation.data,
        "preprocess": evaluation.preprocess,
    }


def _answers(row: sqlite3.Row) -> Answers:
    labels, places = unpack(row["labels"]), unpack(row["ranked"])
    kept = len(places) // len(labels)
    ranked = tuple(places[first : first + kept] for first in range(0, len(places), kept))
    confidence = unpack_floats(row["confidence"])
    counts = (row[name] for name in ("decode_ns", "prepare_ns", "run_ns", "ran", "outputs"))
    return Answers(labels, ranked, confidence, *counts)
