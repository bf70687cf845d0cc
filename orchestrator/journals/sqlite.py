"""The durable record of executions, in SQLite with a write-ahead log, on one thread of its own.

Tool calls alone are written without it, by a connection that never waits. Before each use the files are looked at:
SQLite would go on writing to files that were deleted or replaced, where nobody reads it again.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import structlog

from orchestrator.domain.documents import from_document, to_document
from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.execution import (
    ExecutionRecord,
    ExecutionResult,
    Filter,
    Limits,
    Outcome,
    Page,
    State,
    Stream,
    Unfinished,
)
from orchestrator.domain.files import File
from orchestrator.domain.ledger import CallRecord, ToolCall
from orchestrator.journals.connection import Connection, JournalLost

log = structlog.get_logger()

R = TypeVar("R")

PRUNE_EVERY = 256
# Quotas of their own: neither refusals nor single calls may push programs out.
MAX_REFUSALS = 1000
MAX_CALLS = 1000

# What is searched by has a column; the rest of a record is a document. Only names from here are ever spelled into SQL,
# never a value, so bandit's B608 does not apply.
COLUMNS = (
    "id", "caller", "role", "kind", "instance", "state", "accepted_at", "finished_at", "language", "outcome",
)  # fmt: skip
IN_DOCUMENT = tuple(
    field.name for field in fields(ExecutionRecord) if field.name not in (*COLUMNS, "sequence", "tool_calls", "files")
)
CALL_FIELDS = tuple(field.name for field in fields(ToolCall))
FILE_FIELDS = tuple(field.name for field in fields(File))

INSERT = f"""
INSERT INTO executions ({", ".join(COLUMNS)}, document, idempotency_key)
VALUES ({", ".join("?" * len(COLUMNS))}, ?, ?)
"""  # nosec B608
# A key names the newest execution that it was used for.
FREE_KEY = "UPDATE executions SET idempotency_key = NULL WHERE caller = ? AND idempotency_key = ?"
# An execution that began in another file: here it may be missing, or look as if an earlier daemon had left it.
RESUME = f"""
INSERT INTO executions ({", ".join(COLUMNS)}, document, idempotency_key)
SELECT {", ".join(f":{name}" for name in COLUMNS)}, :document, CASE WHEN EXISTS (
    SELECT 1 FROM executions WHERE caller = :caller AND idempotency_key = :key
) THEN NULL ELSE :key END WHERE TRUE
ON CONFLICT (id) DO UPDATE SET state = excluded.state, outcome = NULL, finished_at = NULL, document = excluded.document
WHERE state = 'interrupted'
"""  # nosec B608
FINISH = "UPDATE executions SET state = ?, finished_at = ?, outcome = ?, document = ? WHERE id = ?"

RECORDS = f"""
SELECT executions.*, (
    SELECT json_group_array(json_object({", ".join(f"'{name}', {name}" for name in CALL_FIELDS)}))
    FROM (SELECT * FROM tool_calls WHERE execution_id = executions.id ORDER BY number)
) AS tool_calls, (
    SELECT json_group_array(json_object({", ".join(f"'{name}', {name}" for name in FILE_FIELDS)}))
    FROM (SELECT * FROM files WHERE execution_id = executions.id ORDER BY number)
) AS files FROM executions
"""  # nosec B608

# Of executions that have not ended: what is told late does not change a result that was given out.
RECORD_CALL = f"""
INSERT OR REPLACE INTO tool_calls (execution_id, number, {", ".join(CALL_FIELDS)})
SELECT id, ?2, {", ".join(f"?{number + 3}" for number in range(len(CALL_FIELDS)))}
FROM executions WHERE id = ?1 AND state IN ('queued', 'running')
"""  # nosec B608

KEEP_FILE = f"""
INSERT OR REPLACE INTO files (execution_id, number, {", ".join(FILE_FIELDS)}, caller, kept_at)
VALUES ({", ".join("?" * (len(FILE_FIELDS) + 4))})
"""  # nosec B608

INTERRUPT = """
UPDATE executions SET state = ?1, outcome = ?2, finished_at = ?3, document = json_patch(document, json_object(
    'error_code', 'interrupted', 'detail', 'The daemon stopped before the program ended.'
)) WHERE state IN ('queued', 'running') AND instance IN (?4, '')
"""

# Which rows share a quota, by name.
_CLASS = "CASE WHEN state = 'refused' THEN 'refused' ELSE kind END"
# ?1: the class; ?2: how many of it stay.
PRUNE = f"""
DELETE FROM executions WHERE {_CLASS} = ?1 AND state NOT IN ('queued', 'running') AND sequence <= (
    SELECT sequence FROM executions WHERE {_CLASS} = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2
)
"""  # nosec B608

CONDITIONS = {
    "caller": "caller = :caller",
    "kind": "kind = :kind",
    "state": "state = :state",
    "outcome": "outcome = :outcome",
    "language": "language = :language",
    "since": "accepted_at >= :since",
    "until": "accepted_at < :until",
    "before": "sequence < :before",
    "server": "EXISTS (SELECT 1 FROM tool_calls WHERE execution_id = executions.id AND server = :server"
    " AND (:tool IS NULL OR tool = :tool))",
}


class SqliteJournal:
    def __init__(self, path: Path, *, max_executions: int) -> None:
        self._path = path
        self._max_executions = max_executions
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._connection: Connection | None = None
        self._lost: JournalLost | None = None
        self._added_since_prune = 0
        self.renewals = 0

    async def open(self, record: ExecutionRecord, idempotency_key: str | None = None) -> None:
        columns = (getattr(record, name) for name in COLUMNS)
        values = (*columns, _document(record), idempotency_key)

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                if idempotency_key is not None:
                    database.execute(FREE_KEY, (record.caller, idempotency_key))
                database.execute(INSERT, values)

        await self.run(write)
        await self._prune_now_and_then()

    async def mark_running(self, execution_id: str) -> None:
        statement = "UPDATE executions SET state = ? WHERE id = ?"
        await self.run(lambda database: database.execute(statement, (State.RUNNING, execution_id)))

    async def record_calls(self, calls: Sequence[CallRecord]) -> None:
        """Write calls here and now if nobody else writes: a program waits, and the way to the thread takes longer."""
        if self._connection is not None:
            try:
                self._connection.require_in_place()
                _record_calls(self._connection.impatient, calls)
            except (sqlite3.Error, OSError):  # busy, broken or gone: the thread waits, or tells
                pass
            else:
                return
        await self.run(lambda database: _record_calls(database, calls))

    async def finish(self, result: ExecutionResult, idempotency_key: str | None = None) -> None:
        record = result.record
        calls = [CallRecord(record.id, number, call) for number, call in enumerate(record.tool_calls)]
        outputs = ((Stream.STDOUT, result.stdout), (Stream.STDERR, result.stderr))
        files = [
            (record.id, number, *(getattr(file, name) for name in FILE_FIELDS), record.caller, record.finished_at)
            for number, file in enumerate(record.files)
        ]
        ended = (record.state, record.finished_at, record.outcome, _document(record), record.id)

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                if database.execute("SELECT 1 FROM executions WHERE id = ?", (record.id,)).fetchone() is None:
                    database.execute(RESUME, _row(replace(record, state=State.RUNNING), idempotency_key))
                database.executemany(RECORD_CALL, map(_call_row, calls))
                database.execute(FINISH, ended)
                database.executemany(KEEP_FILE, files)
                database.executemany(
                    "INSERT OR REPLACE INTO outputs VALUES (?, ?, ?)",
                    [(record.id, stream, data) for stream, data in outputs if data],
                )

        await self.run(write)

    async def mark_interrupted(self, instance: str) -> int:
        """Tell what this instance had under way as interrupted; what another one runs is its own business."""
        values = (State.INTERRUPTED, Outcome.SANDBOX_ERROR, time.time(), instance)
        return await self.run(lambda database: database.execute(INTERRUPT, values).rowcount)

    async def take_over(self, instance: str, unfinished: Sequence[Unfinished]) -> None:
        """Tell what this instance has under way now, and the rest of what it had as interrupted."""
        interrupted = (State.INTERRUPTED, Outcome.SANDBOX_ERROR, time.time(), instance)
        rows = [_row(each.record, each.idempotency_key) for each in unfinished]
        calls = [
            CallRecord(each.record.id, number, call)
            for each in unfinished
            for number, call in enumerate(each.record.tool_calls)
        ]

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute(INTERRUPT, interrupted)
                database.executemany(RESUME, rows)
                database.executemany(RECORD_CALL, map(_call_row, calls))

        await self.run(write)

    async def find(self, execution_id: str) -> ExecutionRecord | None:
        rows = await self.read(f"{RECORDS} WHERE id = :id", {"id": execution_id})
        return _record(rows[0]) if rows else None

    async def find_by_key(self, caller: str, idempotency_key: str) -> ExecutionRecord | None:
        where = "WHERE caller = :caller AND idempotency_key = :key"
        rows = await self.read(f"{RECORDS} {where}", {"caller": caller, "key": idempotency_key})
        return _record(rows[0]) if rows else None

    async def newest(self, wanted: Filter, limit: int) -> Sequence[ExecutionRecord]:
        """Return the records that fit, newest first, without tool calls and files, of which there may be thousands."""
        values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
        conditions = [text for name, text in CONDITIONS.items() if values[name] is not None] or ["TRUE"]
        query = (
            "SELECT executions.*, '[]' AS tool_calls, '[]' AS files FROM executions"  # nosec B608
            f" WHERE {' AND '.join(conditions)} ORDER BY sequence DESC LIMIT :limit"
        )
        return [_record(row) for row in await self.read(query, {**values, "limit": limit})]

    async def output(self, execution_id: str, stream: Stream, start: int, length: int) -> Page | None:
        rows = await self.read(
            "SELECT substr(data, :start, :length) AS piece, length(data) AS total FROM outputs"
            " WHERE execution_id = :id AND stream = :stream",
            {"start": start + 1, "length": length, "id": execution_id, "stream": stream},
        )
        return Page(rows[0]["piece"] or b"", rows[0]["total"]) if rows else None

    async def check(self) -> None:
        """Take and give up a write lock, so that a read-only or full disk shows before an execution needs it.

        A journal that was lost is said once and replaced the next time: nothing else replaces it, so that until then
        nothing begins.
        """

        def try_to_write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("CREATE TABLE IF NOT EXISTS writable (at REAL) STRICT")
                database.execute("DELETE FROM writable")
                database.execute("INSERT INTO writable VALUES (?)", (time.time(),))

        await self.run(try_to_write, may_replace=True)

    async def close(self) -> None:
        await self._let_go()
        self._thread.shutdown(wait=False)

    async def _prune_now_and_then(self) -> None:
        """What was added is there, whether old ones can be removed now or not."""
        self._added_since_prune += 1
        if self._added_since_prune >= PRUNE_EVERY:
            self._added_since_prune = 0
            try:
                await self.prune()
            except JournalUnavailable as error:
                log.warning("journal.not_pruned", error=error.message)

    async def prune(self) -> int:
        """Remove the oldest records beyond each quota, with their output and calls."""
        quotas = {"program": self._max_executions, "call": MAX_CALLS, "refused": MAX_REFUSALS}
        return await self.run(lambda database: sum(database.execute(PRUNE, q).rowcount for q in quotas.items()))

    async def read(self, query: str, values: dict[str, Any]) -> list[sqlite3.Row]:
        return await self.run(lambda database: database.execute(query, values).fetchall())

    async def run(self, use: Callable[[sqlite3.Connection], R], *, may_replace: bool = False) -> R:
        def on_the_thread() -> R:
            if self._connection is None:
                if self._lost is not None and not may_replace:
                    raise JournalLost(self._lost.connection, str(self._lost))
                self._connection = Connection.to(self._path)
            self._connection.require_in_place()
            return use(self._connection.database)

        lost = self._lost
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, on_the_thread)
        except JournalLost as error:
            await self._note_loss(error)
            raise JournalUnavailable(f"The journal cannot be used: {error}.", retry_after_seconds=10) from error
        except (sqlite3.Error, OSError) as error:
            raise JournalUnavailable(f"The journal cannot be used: {error}.", retry_after_seconds=10) from error
        if lost is not None and self._lost is lost:
            self._lost = None
            self.renewals += 1
            log.warning("journal.replaced", file=str(self._path))
        return result

    async def _note_loss(self, error: JournalLost) -> None:
        if self._connection is error.connection:
            log.error("journal.lost", file=str(self._path), reason=str(error))
            self._lost = error
            await self._let_go()

    async def _let_go(self) -> None:
        # Here, where the impatient one is used, and not on the thread: nobody uses it while it is closed.
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.impatient.close()
            await asyncio.get_running_loop().run_in_executor(self._thread, connection.close)


def _record_calls(database: sqlite3.Connection, calls: Sequence[CallRecord]) -> None:
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.executemany(RECORD_CALL, map(_call_row, calls))


def _row(record: ExecutionRecord, idempotency_key: str | None) -> dict[str, Any]:
    columns = {name: getattr(record, name) for name in COLUMNS}
    return {**columns, "document": _document(record), "key": idempotency_key}


def _call_row(record: CallRecord) -> tuple[Any, ...]:
    return (record.execution_id, record.number, *(_storable(getattr(record.call, name)) for name in CALL_FIELDS))


def _storable(value: Any) -> Any:
    """A lone surrogate, legal in the JSON of a program or of a tool, is no text to SQLite."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "replace").decode()


def _document(record: ExecutionRecord) -> str:
    rest = {name: to_document(getattr(record, name)) for name in IN_DOCUMENT if name != "limits"}
    rest["detail"] = _storable(record.detail)
    limits = "null" if record.limits is None else _limits_json(record.limits)
    return f'{json.dumps(rest)[:-1]}, "limits": {limits}}}'


@lru_cache(maxsize=64)  # most executions have the same ones
def _limits_json(limits: Limits) -> str:
    return json.dumps(to_document(limits))


def _record(row: sqlite3.Row) -> ExecutionRecord:
    columns = {name: row[name] for name in (*COLUMNS, "sequence")}
    listed = {name: json.loads(row[name]) for name in ("tool_calls", "files")}
    return from_document(ExecutionRecord, {**json.loads(row["document"]), **columns, **listed})
