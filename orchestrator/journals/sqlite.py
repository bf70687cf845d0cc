"""The durable record of executions, in SQLite with a write-ahead log, on one thread of its own.

Tool calls alone are written without it, by a connection that never waits. Lists and figures are read on threads of
their own, so that nobody's questions hold up anybody's executions. Before each use the files are looked at: SQLite
would go on writing to files that were deleted or replaced, where nobody reads it again.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import structlog

from orchestrator.domain.documents import from_document, to_document
from orchestrator.domain.errors import JournalUnavailable, QuestionTooLarge
from orchestrator.domain.execution import (
    MOST_CALLED,
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
from orchestrator.domain.statistics import Span, Statistics
from orchestrator.journals.connection import Connection, JournalLost
from orchestrator.journals.statistics import statistics

log = structlog.get_logger()

R = TypeVar("R")

PRUNE_EVERY = 256
# Large outputs take long to remove. Between two batches, whoever waits to write has their turn.
REMOVED_AT_ONCE = 8
# Quotas of their own: neither refusals nor single calls may push programs out.
MAX_REFUSALS = 1000
MAX_CALLS = 1000

# What is found by a piece of text: the beginnings of the program and of stdout, and the end of stderr.
SEARCHED_CODE = 1500
SEARCHED_OUTPUT = 500
LARGEST_KEPT_PROGRAM_BYTES = 256 * 1024
LONGEST_LIST_SECONDS = 2.0
LONGEST_QUESTION_SECONDS = 5.0
INSTRUCTIONS_BETWEEN_LOOKS = 10_000

# What is searched by has a column; the rest of a record is a document. Only names from here are ever spelled into SQL,
# never a value, so bandit's B608 does not apply.
COLUMNS = (
    "id", "caller", "role", "kind", "instance", "state", "accepted_at", "finished_at", "language", "outcome",
)  # fmt: skip
COUNTED = ("sequence", "tool_calls", "files", "call_count", "called", "file_count", "program_kept")
IN_DOCUMENT = tuple(field.name for field in fields(ExecutionRecord) if field.name not in (*COLUMNS, *COUNTED))
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

KEEP_PROGRAM = "INSERT OR REPLACE INTO programs VALUES (?, ?)"
SEARCH_IN = """
INSERT INTO texts SELECT sequence, ?2, ?3 FROM executions WHERE id = ?1
ON CONFLICT (sequence) DO UPDATE SET rest = CAST(texts.rest || excluded.rest AS BLOB)
"""
SEARCH_IN_UNLESS_FOUND = "INSERT OR IGNORE INTO texts SELECT sequence, x'', ?2 FROM executions WHERE id = ?1"
WITH_PROGRAM_BEFORE = """
SELECT sequence FROM executions WHERE accepted_at < ? AND (
    EXISTS (SELECT 1 FROM programs WHERE execution_id = executions.id)
    OR EXISTS (SELECT 1 FROM texts WHERE texts.sequence = executions.sequence AND code != x'')
)
"""
FORGET_PROGRAM = (
    "DELETE FROM programs WHERE execution_id = (SELECT id FROM executions WHERE sequence = ?)",
    "UPDATE texts SET code = x'' WHERE sequence = ?",
)

_EXTENT = f"""
(SELECT count(*) FROM tool_calls WHERE execution_id = executions.id) AS call_count,
(SELECT json_group_array(path) FROM (
    SELECT server || '/' || tool AS path FROM (
        SELECT server, tool, number FROM tool_calls WHERE execution_id = executions.id ORDER BY number LIMIT 100
    ) GROUP BY path ORDER BY min(number) LIMIT {MOST_CALLED}
)) AS called,
(SELECT count(*) FROM files WHERE execution_id = executions.id) AS file_count,
EXISTS (SELECT 1 FROM programs WHERE execution_id = executions.id) AS program_kept
"""  # nosec B608
RECORDS = f"""
SELECT executions.*, {_EXTENT}, (
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
BEYOND_QUOTA = f"""
SELECT sequence FROM executions WHERE {_CLASS} = ?1 AND state NOT IN ('queued', 'running') AND sequence <= (
    SELECT sequence FROM executions WHERE {_CLASS} = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2
)
"""  # nosec B608
# One that was interrupted may have been resumed in the meantime.
REMOVE = "DELETE FROM executions WHERE sequence = ? AND state NOT IN ('queued', 'running')"

CONDITIONS = {
    "caller": "caller = :caller",
    "kind": "kind = :kind",
    "state": "state = :state",
    "outcome": "outcome = :outcome",
    "language": "language = :language",
    "since": "accepted_at >= :since",
    "until": "accepted_at < :until",
    "before": "sequence < :before",
    "text": "EXISTS (SELECT 1 FROM texts WHERE texts.sequence = executions.sequence"
    " AND (instr(code, :text) OR instr(rest, :text)))",
    "server": "EXISTS (SELECT 1 FROM tool_calls WHERE execution_id = executions.id AND server = :server"
    " AND (:tool IS NULL OR tool = :tool))",
}


class SqliteJournal:
    def __init__(self, path: Path, *, max_executions: int) -> None:
        self._path = path
        self._max_executions = max_executions
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._lists = ThreadPoolExecutor(1, thread_name_prefix="lists")
        self._figures = ThreadPoolExecutor(1, thread_name_prefix="figures")
        self._connection: Connection | None = None
        self._lost: JournalLost | None = None
        self._added_since_prune = 0
        self._pruning: asyncio.Task[None] | None = None
        self.renewals = 0

    async def open(
        self, record: ExecutionRecord, idempotency_key: str | None = None, program: str | None = None
    ) -> None:
        columns = (getattr(record, name) for name in COLUMNS)
        values = (*columns, _document(record), idempotency_key)
        code = _storable(program or "")
        is_kept = program is not None and len(code.encode()) <= LARGEST_KEPT_PROGRAM_BYTES
        searched = _searched((code[:SEARCHED_CODE],)), _found_by(record)

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                if idempotency_key is not None:
                    database.execute(FREE_KEY, (record.caller, idempotency_key))
                database.execute(INSERT, values)
                if is_kept:
                    database.execute(KEEP_PROGRAM, (record.id, code))
                database.execute(SEARCH_IN, (record.id, *searched))

        await self.run(write)
        self._prune_now_and_then()

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
        printed = (result.stdout[:SEARCHED_OUTPUT], result.stderr[-SEARCHED_OUTPUT:])
        searched = _searched(("", record.detail or "", *(data.decode(errors="replace") for data in printed)))

        def write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                if database.execute("SELECT 1 FROM executions WHERE id = ?", (record.id,)).fetchone() is None:
                    database.execute(RESUME, _row(replace(record, state=State.RUNNING), idempotency_key))
                    database.execute(SEARCH_IN, (record.id, b"", _found_by(record)))
                database.executemany(RECORD_CALL, map(_call_row, calls))
                database.execute(FINISH, ended)
                database.executemany(KEEP_FILE, files)
                database.execute(SEARCH_IN, (record.id, b"", searched))
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
        found_by = [(each.record.id, _found_by(each.record)) for each in unfinished]
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
                database.executemany(SEARCH_IN_UNLESS_FOUND, found_by)
                database.executemany(RECORD_CALL, map(_call_row, calls))

        await self.run(write)

    async def find(self, execution_id: str) -> ExecutionRecord | None:
        return await self._one("WHERE id = :id", {"id": execution_id})

    async def find_by_key(self, caller: str, idempotency_key: str) -> ExecutionRecord | None:
        where = "WHERE caller = :caller AND idempotency_key = :key"
        return await self._one(where, {"caller": caller, "key": idempotency_key})

    async def _one(self, where: str, values: dict[str, Any]) -> ExecutionRecord | None:
        """Return a record, made on the thread: it may have a thousand calls."""

        def read(database: sqlite3.Connection) -> ExecutionRecord | None:
            row = database.execute(f"{RECORDS} {where}", values).fetchone()
            return None if row is None else _record(row)

        return await self.run(read)

    async def newest(self, wanted: Filter, limit: int) -> Sequence[ExecutionRecord]:
        """Return the records that fit, newest first, without tool calls and files, of which there may be thousands."""
        values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
        values["text"] = _searched((wanted.text,)) if wanted.text else None
        conditions = [text for name, text in CONDITIONS.items() if values[name] is not None] or ["TRUE"]
        # What there is to tell of each is found out only for those that are told.
        query = (
            f"SELECT executions.*, {_EXTENT}, '[]' AS tool_calls, '[]' AS files FROM executions WHERE sequence IN ("  # nosec B608
            f"SELECT sequence FROM executions WHERE {' AND '.join(conditions)} ORDER BY sequence DESC LIMIT :limit"
            ") ORDER BY sequence DESC"
        )
        values["limit"] = limit

        def read(database: sqlite3.Connection) -> list[ExecutionRecord]:
            return [_record(row) for row in database.execute(query, values)]

        return await self._ask(self._lists, lambda connection: connection.lists, read, LONGEST_LIST_SECONDS)

    async def statistics(self, span: Span) -> Statistics:
        def count(database: sqlite3.Connection) -> Statistics:
            return statistics(database, span)

        return await self._ask(self._figures, lambda connection: connection.figures, count, LONGEST_QUESTION_SECONDS)

    async def program(self, execution_id: str) -> str | None:
        rows = await self.read("SELECT code FROM programs WHERE execution_id = :id", {"id": execution_id})
        return str(rows[0]["code"]) if rows else None

    async def forget_programs_before(self, moment: float) -> None:
        found = await self.run(lambda database: database.execute(WITH_PROGRAM_BEFORE, (moment,)).fetchall())
        await self._in_batches(FORGET_PROGRAM, map(tuple, found))

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
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])
        await self._let_go()
        for thread in (self._thread, self._lists, self._figures):
            thread.shutdown(wait=False)

    def _prune_now_and_then(self) -> None:
        """Remove old executions without keeping the new one waiting."""
        self._added_since_prune += 1
        if self._added_since_prune >= PRUNE_EVERY and (self._pruning is None or self._pruning.done()):
            self._added_since_prune = 0
            self._pruning = asyncio.create_task(self._try_to_prune())

    async def _try_to_prune(self) -> None:
        try:
            await self.prune()
        except JournalUnavailable as error:
            log.warning("journal.not_pruned", error=error.message)

    async def prune(self) -> None:
        """Remove the oldest records beyond each quota, with their output and calls."""
        quotas = {"program": self._max_executions, "call": MAX_CALLS, "refused": MAX_REFUSALS}
        found = await self.run(
            lambda database: [row for quota in quotas.items() for row in database.execute(BEYOND_QUOTA, quota)]
        )
        await self._in_batches((REMOVE,), map(tuple, found))

    async def _in_batches(self, statements: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Execute statements for each row, a few rows in one transaction."""

        def write(database: sqlite3.Connection, batch: Sequence[tuple[Any, ...]]) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                for statement in statements:
                    database.executemany(statement, batch)

        left = iter(rows)
        while batch := tuple(islice(left, REMOVED_AT_ONCE)):
            await self.run(partial(write, batch=batch))

    async def read(self, query: str, values: dict[str, Any]) -> list[sqlite3.Row]:
        return await self.run(lambda database: database.execute(query, values).fetchall())

    async def _ask(
        self,
        thread: ThreadPoolExecutor,
        chosen: Callable[[Connection], sqlite3.Connection],
        use: Callable[[sqlite3.Connection], R],
        seconds: float,
    ) -> R:
        """Read without keeping those waiting who write, and not for ever."""
        if self._connection is None:
            await self.run(lambda database: None)
        connection = self._connection
        if connection is None:  # lost at this moment
            raise JournalUnavailable("The journal cannot be used: it is being replaced.", retry_after_seconds=10)

        def on_the_thread() -> R:
            connection.require_in_place()
            database, deadline = chosen(connection), time.monotonic() + seconds
            database.set_progress_handler(lambda: time.monotonic() > deadline, INSTRUCTIONS_BETWEEN_LOOKS)
            try:
                return use(database)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                    raise
                raise QuestionTooLarge(f"The search took longer than {seconds:g} s.") from error

        return await self._on(thread, on_the_thread)

    async def run(self, use: Callable[[sqlite3.Connection], R], *, may_replace: bool = False) -> R:
        def on_the_thread() -> R:
            if self._connection is None:
                if self._lost is not None and not may_replace:
                    raise JournalLost(self._lost.connection, str(self._lost))
                self._connection = Connection.to(self._path)
            self._connection.require_in_place()
            return use(self._connection.database)

        lost = self._lost
        result = await self._on(self._thread, on_the_thread)
        if lost is not None and self._lost is lost:
            self._lost = None
            self.renewals += 1
            log.warning("journal.replaced", file=str(self._path))
        return result

    async def _on(self, thread: ThreadPoolExecutor, work: Callable[[], R]) -> R:
        """Have work done on a thread, and say what keeps the journal from doing it."""
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work)
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, JournalLost):
                await self._note_loss(error)
            raise JournalUnavailable(f"The journal cannot be used: {error}.", retry_after_seconds=10) from error

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
            loop = asyncio.get_running_loop()
            # Each on the thread that uses it, after what is under way there.
            await loop.run_in_executor(self._lists, connection.lists.close)
            await loop.run_in_executor(self._figures, connection.figures.close)
            await loop.run_in_executor(self._thread, connection.close)


def _record_calls(database: sqlite3.Connection, calls: Sequence[CallRecord]) -> None:
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.executemany(RECORD_CALL, map(_call_row, calls))


def _row(record: ExecutionRecord, idempotency_key: str | None) -> dict[str, Any]:
    columns = {name: getattr(record, name) for name in COLUMNS}
    return {**columns, "document": _document(record), "key": idempotency_key}


def _call_row(record: CallRecord) -> tuple[Any, ...]:
    return (record.execution_id, record.number, *(_storable(getattr(record.call, name)) for name in CALL_FIELDS))


def _found_by(record: ExecutionRecord) -> bytes:
    """Return what an execution is found by from its beginning on, besides its program."""
    return _searched((record.id, record.detail or ""))


def _searched(pieces: Iterable[str]) -> bytes:
    """Return text as it is searched."""
    return "\n".join(pieces).lower().encode(errors="replace")


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
    columns = {name: row[name] for name in (*COLUMNS, "sequence", "call_count", "file_count")}
    listed = {name: json.loads(row[name]) for name in ("tool_calls", "files", "called")}
    listed["program_kept"] = bool(row["program_kept"])
    return from_document(ExecutionRecord, {**json.loads(row["document"]), **columns, **listed})
