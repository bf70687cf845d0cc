"""A journal in memory, for the service's unit tests; the contract suite keeps it honest against SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.execution import (
    Execution,
    ExecutionRecord,
    ExecutionResult,
    Outcome,
    Page,
    Refusal,
    State,
    Stream,
)
from orchestrator.domain.ledger import CallRecord, ToolCall

UNFINISHED = (State.QUEUED, State.RUNNING)


class FakeJournal:
    def __init__(self) -> None:
        self.records: dict[str, ExecutionRecord] = {}
        self.outputs: dict[tuple[str, Stream], bytes] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.calls: dict[str, dict[int, ToolCall]] = {}
        self.broken = False

    async def open(self, execution: Execution, state: State = State.QUEUED) -> None:
        self._require_writable()
        if execution.idempotency_key is not None:
            self.keys[execution.caller.key_name, execution.idempotency_key] = execution.id
        self.records[execution.id] = ExecutionRecord(
            sequence=len(self.records) + 1,
            id=execution.id,
            caller=execution.caller.key_name,
            role=execution.caller.role.name,
            state=state,
            accepted_at=execution.accepted_at,
            language=execution.language,
            code_sha256=execution.code_sha256,
            code_bytes=execution.code_bytes,
            limits=execution.limits,
        )

    async def mark_running(self, execution_id: str) -> None:
        self._require_writable()
        self.records[execution_id] = replace(self.records[execution_id], state=State.RUNNING)

    async def record_calls(self, calls: Sequence[CallRecord]) -> None:
        self._require_writable()
        for record in calls:
            if self.records[record.execution_id].state in UNFINISHED:
                self._calls_of(record.execution_id)[record.number] = record.call

    async def finish(self, result: ExecutionResult) -> None:
        self._require_writable()
        self._calls_of(result.execution_id).update(enumerate(result.tool_calls))
        self.records[result.execution_id] = replace(
            self.records[result.execution_id],
            state=State.FINISHED,
            outcome=result.outcome,
            exit_code=result.ending.exit_code,
            signal=result.ending.signal,
            error_code=result.ending.error_code,
            detail=result.ending.detail,
            finished_at=result.finished_at,
            stdout_bytes=len(result.stdout),
            stderr_bytes=len(result.stderr),
            timings=result.timings,
            usage=result.ending.usage,
        )
        printed = {Stream.STDOUT: result.stdout, Stream.STDERR: result.stderr}
        self.outputs |= {(result.execution_id, stream): data for stream, data in printed.items() if data}

    async def refuse(self, refusal: Refusal) -> None:
        self._require_writable()
        self.records[refusal.execution_id] = ExecutionRecord(
            sequence=len(self.records) + 1,
            id=refusal.execution_id,
            caller=refusal.caller.key_name,
            role=refusal.caller.role.name,
            state=State.REFUSED,
            accepted_at=refusal.at,
            finished_at=refusal.at,
            error_code=refusal.error_code,
            detail=refusal.detail,
        )

    async def mark_interrupted(self) -> int:
        unfinished = [r for r in self.records.values() if r.state in UNFINISHED]
        for record in unfinished:
            self.records[record.id] = replace(
                record, state=State.INTERRUPTED, outcome=Outcome.SANDBOX_ERROR, error_code="interrupted"
            )
        return len(unfinished)

    async def find(self, execution_id: str) -> ExecutionRecord | None:
        record = self.records.get(execution_id)
        return record and self._with_calls(record)

    async def find_by_key(self, caller: str, idempotency_key: str) -> ExecutionRecord | None:
        return await self.find(self.keys.get((caller, idempotency_key), ""))

    async def newest(self, *, caller: str | None, limit: int, before: int | None) -> Sequence[ExecutionRecord]:
        matching = [
            record
            for record in reversed(list(self.records.values()))
            if caller in (None, record.caller) and (before is None or record.sequence < before)
        ]
        return matching[:limit]

    async def output(self, execution_id: str, stream: Stream, start: int, length: int) -> Page | None:
        data = self.outputs.get((execution_id, stream))
        return None if data is None else Page(data[start : start + length], len(data))

    async def check(self) -> None:
        self._require_writable()

    def _calls_of(self, execution_id: str) -> dict[int, ToolCall]:
        return self.calls.setdefault(execution_id, {})

    def _with_calls(self, record: ExecutionRecord) -> ExecutionRecord:
        return replace(record, tool_calls=tuple(call for _, call in sorted(self._calls_of(record.id).items())))

    def _require_writable(self) -> None:
        if self.broken:
            raise JournalUnavailable("The journal cannot be used: disk full (test).")
