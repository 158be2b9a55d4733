"""Ordered, transactional changes to the schema; the number applied is the database's `user_version`."""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from ..core.errors import StoreError

# "edge", so that `file lab.db` and we can tell a store from any other database.
APPLICATION_ID = 0x65646765

MIGRATIONS: tuple[str, ...] = (files("edgewise.store").joinpath("schema.sql").read_text(encoding="utf-8"),)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the database up to date; several processes may try at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION_ID and tables:
            raise StoreError(f"{path} is a database, but not an edgewise store", "name another file with --save")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{path} was written by a newer edgewise (schema {version}, this one knows {len(MIGRATIONS)})",
                "pip install --upgrade edgewise",
            )
        for script in MIGRATIONS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """Single statements: `executescript` would commit behind our back."""
    found, part = [], ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
