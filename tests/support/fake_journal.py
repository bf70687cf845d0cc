"""A journal in memory, for the service's unit tests; the contract suite keeps it honest against SQLite."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.execution import (
    ExecutionRecord,
    ExecutionResult,
    Filter,
    Outcome,
    Page,
    State,
    Stream,
    Unfinished,
)
from orchestrator.domain.ledger import CallRecord, ToolCall
from orchestrator.domain.statistics import Span, Statistics

LARGEST_KEPT_PROGRAM_BYTES = 256 * 1024
UNFINISHED = (State.QUEUED, State.RUNNING)


class FakeJournal:
    def __init__(self) -> None:
        self.records: dict[str, ExecutionRecord] = {}
        self.outputs: dict[tuple[str, Stream], bytes] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.calls: dict[str, dict[int, ToolCall]] = {}
        self.programs: dict[str, str] = {}
        self.broken = False
        self.renewals = 0

    def lose_everything(self) -> None:
        """As when its file was deleted, and another took its place."""
        self.records, self.outputs, self.keys, self.calls = {}, {}, {}, {}
        self.renewals += 1

    async def open(
        self, record: ExecutionRecord, idempotency_key: str | None = None, program: str | None = None
    ) -> None:
        self._require_writable()
        if program is not None and len(program.encode(errors="replace")) <= LARGEST_KEPT_PROGRAM_BYTES:
            self.programs[record.id] = program
        if idempotency_key is not None:
            self.keys[record.caller, idempotency_key] = record.id
        self.records[record.id] = replace(record, sequence=len(self.records) + 1)

    async def mark_running(self, execution_id: str) -> None:
        self._require_writable()
        if execution_id in self.records:
            self.records[execution_id] = replace(self.records[execution_id], state=State.RUNNING)

    async def record_calls(self, calls: Sequence[CallRecord]) -> None:
        self._require_writable()
        for record in calls:
            known = self.records.get(record.execution_id)
            if known is not None and known.state in UNFINISHED:
                self._calls_of(record.execution_id)[record.number] = record.call

    async def finish(self, result: ExecutionResult, idempotency_key: str | None = None) -> None:
        self._require_writable()
        record = result.record
        if record.id not in self.records:
            self._resume(record, idempotency_key)
        self._calls_of(record.id).update(enumerate(record.tool_calls))
        sequence = self.records[record.id].sequence
        self.records[record.id] = replace(record, sequence=sequence, tool_calls=())
        printed = {Stream.STDOUT: result.stdout, Stream.STDERR: result.stderr}
        self.outputs |= {(record.id, stream): data for stream, data in printed.items() if data}

    async def mark_interrupted(self, instance: str) -> int:
        unfinished = [r for r in self.records.values() if r.state in UNFINISHED and r.instance in (instance, "")]
        for record in unfinished:
            self.records[record.id] = replace(
                record,
                state=State.INTERRUPTED,
                outcome=Outcome.SANDBOX_ERROR,
                finished_at=time.time(),
                error_code="interrupted",
                detail="The daemon stopped before the program ended.",
            )
        return len(unfinished)

    async def take_over(self, instance: str, unfinished: Sequence[Unfinished]) -> None:
        self._require_writable()
        await self.mark_interrupted(instance)
        for each in unfinished:
            known = self.records.get(each.record.id)
            if known is None or known.state is State.INTERRUPTED:
                self._resume(each.record, each.idempotency_key)
                self._calls_of(each.record.id).update(enumerate(each.record.tool_calls))

    def _resume(self, record: ExecutionRecord, idempotency_key: str | None) -> None:
        known = self.records.get(record.id)
        sequence = known.sequence if known is not None else len(self.records) + 1
        self.records[record.id] = replace(record, sequence=sequence, tool_calls=())
        if idempotency_key is not None:
            self.keys.setdefault((record.caller, idempotency_key), record.id)

    async def find(self, execution_id: str) -> ExecutionRecord | None:
        record = self.records.get(execution_id)
        return record and self._with_calls(record)

    async def find_by_key(self, caller: str, idempotency_key: str) -> ExecutionRecord | None:
        return await self.find(self.keys.get((caller, idempotency_key), ""))

    async def newest(self, wanted: Filter, limit: int) -> Sequence[ExecutionRecord]:
        newest_first = sorted(self.records.values(), key=lambda record: record.sequence, reverse=True)
        fitting = [record for record in newest_first if self._fits(record, wanted)][:limit]
        return [replace(self._with_calls(record), files=(), tool_calls=()) for record in fitting]

    def _fits(self, record: ExecutionRecord, wanted: Filter) -> bool:
        equal = all(
            getattr(wanted, name) in (None, getattr(record, name))
            for name in ("caller", "kind", "state", "outcome", "language")
        )
        calls = self._calls_of(record.id).values()
        called = wanted.server is None or any(
            call.server == wanted.server and wanted.tool in (None, call.tool) for call in calls
        )
        in_time = (wanted.since is None or record.accepted_at >= wanted.since) and (
            wanted.until is None or record.accepted_at < wanted.until
        )
        printed = (self.outputs.get((record.id, stream), b"").decode(errors="replace") for stream in Stream)
        told = (record.id, record.detail or "", self.programs.get(record.id, ""), *printed)
        has_text = wanted.text is None or wanted.text.lower() in "\n".join(told).lower()
        return equal and called and in_time and has_text and (wanted.before is None or record.sequence < wanted.before)

    async def output(self, execution_id: str, stream: Stream, start: int, length: int) -> Page | None:
        data = self.outputs.get((execution_id, stream))
        return None if data is None else Page(data[start : start + length], len(data))

    async def program(self, execution_id: str) -> str | None:
        return self.programs.get(execution_id)

    async def forget_programs_before(self, moment: float) -> None:
        for record in self.records.values():
            if record.accepted_at < moment:
                self.programs.pop(record.id, None)

    async def statistics(self, span: Span) -> Statistics:
        raise NotImplementedError("counted by SQLite only")

    async def check(self) -> None:
        self._require_writable()

    def _calls_of(self, execution_id: str) -> dict[int, ToolCall]:
        return self.calls.setdefault(execution_id, {})

    def _with_calls(self, record: ExecutionRecord) -> ExecutionRecord:
        calls = tuple(call for _, call in sorted(self._calls_of(record.id).items()))
        return replace(record, tool_calls=calls, program_kept=record.id in self.programs).counted

    def _require_writable(self) -> None:
        if self.broken:
            raise JournalUnavailable("The journal cannot be used: disk full (test).")
