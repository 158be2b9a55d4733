"""What a store has finished, without reading it: enough to say beforehand what a study will skip."""

from __future__ import annotations

import json

from ..core.types import Task
from .db import Store


class Done:
    """Tasks measured alone on one machine, by engine versions: how many processes each was measured in."""

    def __init__(self, store: Store, machine: str) -> None:
        with store.guard():
            rows = store.connection.execute(
                "SELECT task, versions, status, (SELECT count(*) FROM starts WHERE result = results.id) AS starts"
                " FROM results WHERE study = 'bench' AND machine = ? AND status != 'running' ORDER BY id",
                (machine,),
            ).fetchall()
        self._found: dict[tuple[str, str], tuple[str, int]] = {
            (row["task"], row["versions"]): (row["status"], row["starts"]) for row in rows
        }

    def has(self, task: Task, versions: tuple[tuple[str, str], ...], passes: int = 1) -> bool:
        status, starts = self._found.get((task.digest, json.dumps(versions)), ("", 0))
        return status == "failed" or (status == "complete" and starts >= passes)
