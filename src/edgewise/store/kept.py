"""Records kept beside the results: profiles, support, roofs, costs. A newer one of the same key takes its place."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TypeVar

from ..core.records import from_json, to_json
from .db import Store

R = TypeVar("R")


class Kept:
    """The part of a store that holds records of any kind, whole, by a key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, kind: str, key: str, record: object) -> None:
        row = (time.time_ns(), kind, key, json.dumps(to_json(record)))
        with self._store.transaction() as db:
            db.execute("INSERT INTO kept (created_ns, kind, key, body) VALUES (?, ?, ?, ?)", row)

    def find(self, kind: str, key: str, record: type[R]) -> R | None:
        """The newest of that key."""
        with self._store.guard():
            row = self._store.connection.execute(
                "SELECT body FROM kept WHERE kind = ? AND key = ? ORDER BY id DESC LIMIT 1", (kind, key)
            ).fetchone()
            return from_json(record, json.loads(row["body"])) if row else None

    def all(self, kind: str, record: type[R]) -> Iterator[R]:
        """The newest of every key, in the order they were kept."""
        return (found for _, found in self.dated(kind, record))

    def dated(self, kind: str, record: type[R]) -> Iterator[tuple[int, R]]:
        """The same, each with the time it was kept."""
        with self._store.guard():
            rows = self._store.connection.execute(
                "SELECT created_ns, body FROM kept"
                " WHERE id IN (SELECT max(id) FROM kept WHERE kind = ? GROUP BY key) ORDER BY id",
                (kind,),
            ).fetchall()
        for row in rows:
            yield row["created_ns"], from_json(record, json.loads(row["body"]))
