"""Brings a SQLite journal up to date: each migration once, in order, in a transaction of its own."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path

import structlog

from orchestrator.domain.errors import JournalUnavailable

log = structlog.get_logger()

# Journals from before versions were counted; each of them lacks some of these.
_UNCOUNTED = {"tool_calls": "TEXT", "idempotency_key": "TEXT"}
_OF_THE_FIRST_VERSION = {"sequence", "id", "caller", "role", "state", "accepted_at", "limits", "timings", "usage"}


@cache
def migrations() -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return each migration's number and statements, in order."""
    files = [file for file in resources.files(f"{__package__}.migrations").iterdir() if file.name.endswith(".sql")]
    found = []
    for file in sorted(files, key=lambda file: file.name):
        statements = tuple(text for text in file.read_text().split(";\n") if text.strip())
        found.append((int(file.name.partition("_")[0]), statements))
    return tuple(found)


def set_aside_if_foreign(path: Path, timeout_seconds: float) -> None:
    """Keep a file that holds something else under another name: it is nobody's journal that we know of."""
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=timeout_seconds)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        columns = _columns(database)
        is_ours = not tables or _version(database) > 0 or columns >= _OF_THE_FIRST_VERSION
    if not is_ours:
        kept = path.with_suffix(f".before-{int(time.time())}.sqlite3")
        path.rename(kept)
        log.warning("journal.set_aside", kept_as=kept.name, reason="its tables are not those of a journal")


def bring_up_to_date(database: sqlite3.Connection) -> None:
    newest = migrations()[-1][0]
    if _version(database) > newest:
        raise JournalUnavailable(
            f"The journal has version {_version(database)}, and this daemon knows versions up to {newest}. "
            "Start the newer daemon again, or name another CODE_EXECUTOR_DATA_DIR."
        )
    if _version(database) == 0 and (columns := _columns(database)):
        with database:
            database.execute("BEGIN IMMEDIATE")
            for name in _UNCOUNTED.keys() - columns:
                database.execute(f"ALTER TABLE executions ADD COLUMN {name} {_UNCOUNTED[name]}")
            database.execute(
                "CREATE UNIQUE INDEX IF NOT EXISTS executions_by_key ON executions (caller, idempotency_key)"
                " WHERE idempotency_key IS NOT NULL"
            )
            database.execute("PRAGMA user_version = 1")
    found = _version(database)
    for number, statements in migrations():
        if _version(database) < number:
            _apply(database, number, statements)
    if 0 < found < newest:
        log.info("journal.migrated", from_version=found, to_version=newest)


def _apply(database: sqlite3.Connection, number: int, statements: tuple[str, ...]) -> None:
    with database:
        database.execute("BEGIN IMMEDIATE")
        if _version(database) >= number:  # another process was faster
            return
        for statement in statements:
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {number}")


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _columns(database: sqlite3.Connection) -> set[str]:
    return {row[1] for row in database.execute("PRAGMA table_info(executions)")}
