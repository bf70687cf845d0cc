"""The durable record of executions, in SQLite with a write-ahead log, on one thread of its own.

Tool calls alone are written without it, by a connection that never waits.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import structlog

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.execution import (
    Execution,
    ExecutionRecord,
    ExecutionResult,
    Language,
    Limits,
    Outcome,
    Page,
    Refusal,
    State,
    Stream,
    Timings,
    Usage,
)
from orchestrator.domain.ledger import CallOutcome, CallRecord, ToolCall

log = structlog.get_logger()

R = TypeVar("R")

BUSY_TIMEOUT_SECONDS = 5
PRUNE_EVERY = 256
MAX_REFUSALS = 1000  # a quota of their own: refusals must not push executions out
NEW_DATABASE = -1
SCHEMA_VERSION = 2  # one more with each change of the tables

SCHEMA = """
CREATE TABLE IF NOT EXISTS executions (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    caller       TEXT NOT NULL,
    role         TEXT NOT NULL,
    state        TEXT NOT NULL,
    accepted_at  REAL NOT NULL,
    language     TEXT,
    code_sha256  TEXT,
    code_bytes   INTEGER,
    finished_at  REAL,
    outcome      TEXT,
    exit_code    INTEGER,
    signal       INTEGER,
    error_code   TEXT,
    detail       TEXT,
    stdout_bytes INTEGER NOT NULL DEFAULT 0,
    stderr_bytes INTEGER NOT NULL DEFAULT 0,
    limits       TEXT,
    timings      TEXT,
    usage        TEXT,
    idempotency_key TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS executions_by_caller ON executions (caller, sequence);
CREATE INDEX IF NOT EXISTS executions_open ON executions (state) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX IF NOT EXISTS executions_by_key ON executions (caller, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE TABLE IF NOT EXISTS outputs (
    execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    stream       TEXT NOT NULL,
    data         BLOB NOT NULL,
    PRIMARY KEY (execution_id, stream)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tool_calls (
    execution_id  TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
    number        INTEGER NOT NULL,
    server        TEXT NOT NULL,
    tool          TEXT NOT NULL,
    outcome       TEXT NOT NULL,
    started_ms    REAL NOT NULL,
    duration_ms   REAL NOT NULL,
    request_bytes INTEGER NOT NULL,
    result_bytes  INTEGER NOT NULL,
    detail        TEXT,
    PRIMARY KEY (execution_id, number)
) STRICT, WITHOUT ROWID;
"""

RECORDS = """
SELECT executions.*, (
    SELECT json_group_array(json_object(
        'server', server, 'tool', tool, 'outcome', outcome, 'started_ms', started_ms, 'duration_ms', duration_ms,
        'request_bytes', request_bytes, 'result_bytes', result_bytes, 'detail', detail
    )) FROM (SELECT * FROM tool_calls WHERE execution_id = executions.id ORDER BY number)
) AS tool_calls FROM executions
"""

# Of executions that have not ended: what is told late does not change a result that was given out.
RECORD_CALL = """
INSERT OR REPLACE INTO tool_calls
SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM executions WHERE id = ?1 AND state IN ('queued', 'running')
"""


SUMMARIES = "SELECT executions.*, '[]' AS tool_calls FROM executions"

# ?1: of refusals or of executions; ?2: how many of them stay.
PRUNE = """
DELETE FROM executions WHERE (state = 'refused') = ?1 AND state NOT IN ('queued', 'running') AND sequence <= (
    SELECT sequence FROM executions WHERE (state = 'refused') = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2
)
"""


class SqliteJournal:
    def __init__(self, path: Path, *, max_executions: int) -> None:
        self._path = path
        self._max_executions = max_executions
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._database: sqlite3.Connection | None = None
        self._impatient: sqlite3.Connection | None = None
        self._added_since_prune = 0

    async def open(self, execution: Execution, state: State = State.QUEUED) -> None:
        await self._write(
            "INSERT INTO executions (id, caller, role, state, accepted_at, language, code_sha256, code_bytes, limits,"
            " idempotency_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            execution.id,
            execution.caller.key_name,
            execution.caller.role.name,
            state,
            execution.accepted_at,
            execution.language,
            execution.code_sha256,
            execution.code_bytes,
            _limits_json(execution.limits),
            execution.idempotency_key,
        )
        await self._prune_now_and_then()

    async def mark_running(self, execution_id: str) -> None:
        await self._write("UPDATE executions SET state = ? WHERE id = ?", State.RUNNING, execution_id)

    async def record_calls(self, calls: Sequence[CallRecord]) -> None:
        """Here and now if nobody else writes: a program waits for it, and the way to the thread takes longer."""
        if not self._recorded_at_once(calls):
            await self._run(lambda database: _record_calls(database, calls))

    def _recorded_at_once(self, calls: Sequence[CallRecord]) -> bool:
        if self._impatient is None:
            return False
        try:
            _record_calls(self._impatient, calls)
        except sqlite3.Error:  # busy, or broken: the thread waits, or tells
            return False
        return True

    async def finish(self, result: ExecutionResult) -> None:
        await self._run(lambda database: _finish(database, result))

    async def refuse(self, refusal: Refusal) -> None:
        await self._write(
            "INSERT INTO executions (id, caller, role, state, accepted_at, finished_at, error_code, detail)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            refusal.execution_id,
            refusal.caller.key_name,
            refusal.caller.role.name,
            State.REFUSED,
            refusal.at,
            refusal.at,
            refusal.error_code,
            _storable(refusal.detail),
        )
        await self._prune_now_and_then()

    async def mark_interrupted(self) -> int:
        return await self._write(
            "UPDATE executions SET state = ?, outcome = ?, finished_at = ?, error_code = 'interrupted',"
            " detail = 'The daemon stopped before the program ended.' WHERE state IN ('queued', 'running')",
            State.INTERRUPTED,
            Outcome.SANDBOX_ERROR,
            time.time(),
        )

    async def find(self, execution_id: str) -> ExecutionRecord | None:
        rows = await self._read(f"{RECORDS} WHERE id = ?", execution_id)
        return _record(rows[0]) if rows else None

    async def find_by_key(self, caller: str, idempotency_key: str) -> ExecutionRecord | None:
        rows = await self._read(f"{RECORDS} WHERE caller = ? AND idempotency_key = ?", caller, idempotency_key)
        return _record(rows[0]) if rows else None

    async def newest(self, *, caller: str | None, limit: int, before: int | None) -> Sequence[ExecutionRecord]:
        """Without their tool calls, of which there may be thousands."""
        rows = await self._read(
            f"{SUMMARIES} WHERE (?1 IS NULL OR caller = ?1) AND (?2 IS NULL OR sequence < ?2)"
            " ORDER BY sequence DESC LIMIT ?3",
            caller,
            before,
            limit,
        )
        return [_record(row) for row in rows]

    async def output(self, execution_id: str, stream: Stream, start: int, length: int) -> Page | None:
        rows = await self._read(
            "SELECT substr(data, ?1, ?2) AS piece, length(data) AS total FROM outputs"
            " WHERE execution_id = ?3 AND stream = ?4",
            start + 1,
            length,
            execution_id,
            stream,
        )
        return Page(rows[0]["piece"] or b"", rows[0]["total"]) if rows else None

    async def check(self) -> None:
        """Takes and gives up a write lock, so that a read-only or full disk shows before an execution needs it."""

        def try_to_write(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("CREATE TABLE IF NOT EXISTS writable (at REAL) STRICT")
                database.execute("DELETE FROM writable")
                database.execute("INSERT INTO writable VALUES (?)", (time.time(),))

        await self._run(try_to_write)

    async def close(self) -> None:
        def disconnect(database: sqlite3.Connection) -> None:
            if self._impatient is not None:
                self._impatient.close()
            database.close()
            self._database = self._impatient = None

        if self._database is not None:
            await self._run(disconnect)
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
        executions = await self._write(PRUNE, False, self._max_executions)
        return executions + await self._write(PRUNE, True, MAX_REFUSALS)

    async def _write(self, statement: str, *values: Any) -> int:
        return await self._run(lambda database: database.execute(statement, values).rowcount)

    async def _read(self, query: str, *values: Any) -> list[sqlite3.Row]:
        return await self._run(lambda database: database.execute(query, values).fetchall())

    async def _run(self, use: Callable[[sqlite3.Connection], R]) -> R:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, lambda: use(self._connected()))
        except (sqlite3.Error, OSError) as error:
            raise JournalUnavailable(f"The journal cannot be used: {error}.", retry_after_seconds=10) from error

    def _connected(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = _connect(self._path)
            self._impatient = _connect_impatiently(self._path)
        return self._database


@lru_cache(maxsize=64)  # most executions have the same ones
def _limits_json(limits: Limits) -> str:
    return json.dumps(asdict(limits))


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    if _version_of(path) not in (SCHEMA_VERSION, NEW_DATABASE):
        kept = path.with_suffix(f".before-{int(time.time())}.sqlite3")
        path.rename(kept)
        log.warning("journal.set_aside", kept_as=kept.name, reason="it has the tables of another version")
    # Autocommit: each statement is its own transaction, unless one is begun by hand; then `with` commits or undoes it.
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA foreign_keys = ON")
    database.executescript(SCHEMA)
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return database


def _connect_impatiently(path: Path) -> sqlite3.Connection:
    """For the event loop: gives up at once when another writes, and leaves what waits for the disk to the thread."""
    database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    return database


def _version_of(path: Path) -> int:
    if not path.exists():
        return NEW_DATABASE
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS)) as database:
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return NEW_DATABASE
        return int(database.execute("PRAGMA user_version").fetchone()[0])


def _finish(database: sqlite3.Connection, result: ExecutionResult) -> None:
    ending = result.ending
    calls = [CallRecord(result.execution_id, number, call) for number, call in enumerate(result.tool_calls)]
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.executemany(RECORD_CALL, map(_call_row, calls))
        database.execute(
            "UPDATE executions SET state = ?, finished_at = ?, outcome = ?, exit_code = ?, signal = ?, error_code = ?,"
            " detail = ?, stdout_bytes = ?, stderr_bytes = ?, timings = ?, usage = ? WHERE id = ?",
            (
                State.FINISHED,
                result.finished_at,
                ending.outcome,
                ending.exit_code,
                ending.signal,
                ending.error_code,
                _storable(ending.detail),
                len(result.stdout),
                len(result.stderr),
                json.dumps(asdict(result.timings)),
                json.dumps(asdict(ending.usage)),
                result.execution_id,
            ),
        )
        database.executemany(
            "INSERT OR REPLACE INTO outputs VALUES (?, ?, ?)",
            [(result.execution_id, stream, data) for stream, data in _outputs(result) if data],
        )


def _record_calls(database: sqlite3.Connection, calls: Sequence[CallRecord]) -> None:
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.executemany(RECORD_CALL, map(_call_row, calls))


def _call_row(record: CallRecord) -> tuple[Any, ...]:
    # Spelled out, because a program waits for it: dataclasses.astuple takes as long as the commit.
    call = record.call
    return (
        record.execution_id,
        record.number,
        _storable(call.server),
        _storable(call.tool),
        call.outcome,
        call.started_ms,
        call.duration_ms,
        call.request_bytes,
        call.result_bytes,
        _storable(call.detail),
    )


def _storable(text: str | None) -> str | None:
    """A lone surrogate, legal in the JSON of a program or of a tool, is no text to SQLite."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def _outputs(result: ExecutionResult) -> tuple[tuple[Stream, bytes], ...]:
    return (Stream.STDOUT, result.stdout), (Stream.STDERR, result.stderr)


def _record(row: sqlite3.Row) -> ExecutionRecord:
    fields = dict(row)
    del fields["idempotency_key"]
    fields["state"] = State(row["state"])
    fields["language"] = Language(row["language"]) if row["language"] else None
    fields["outcome"] = Outcome(row["outcome"]) if row["outcome"] else None
    fields["limits"] = Limits(**json.loads(row["limits"])) if row["limits"] else None
    fields["timings"] = Timings(**json.loads(row["timings"])) if row["timings"] else None
    fields["usage"] = Usage(**json.loads(row["usage"])) if row["usage"] else None
    fields["tool_calls"] = tuple(_tool_call(call) for call in json.loads(row["tool_calls"]))
    return ExecutionRecord(**fields)


def _tool_call(fields: dict[str, Any]) -> ToolCall:
    return ToolCall(**{**fields, "outcome": CallOutcome(fields["outcome"])})
