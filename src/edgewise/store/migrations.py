"""Ordered, transactional changes to the schema; the number applied is the database's `user_version`."""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from ..core.errors import StoreError

# "edge", so that `file lab.db` and we can tell a store from any other database.
APPLICATION_ID = 0x65646765

MIGRATIONS: tuple[str, ...] = tuple(
    files("edgewise.store").joinpath(script).read_text(encoding="utf-8")
    for script in ("schema.sql", "evaluations.sql", "characterize.sql", "parallel.sql")
)


def refuse_foreign(connection: sqlite3.Connection, path: str) -> int:
    """The schema version of a store this edgewise knows (0: an empty file); an error, and no change, for any other."""
    # One statement, so one state of the file: another process may be creating it.
    version, application, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreError(f"{path} is a database, but not an edgewise store", "name another file with --save")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer edgewise (schema {version}, this one knows {len(MIGRATIONS)})",
            "pip install --upgrade edgewise",
        )
    return int(version)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the database up to date; several processes may try at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = refuse_foreign(connection, path)
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
