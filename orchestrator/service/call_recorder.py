"""Brings the ledgers into the journal while the programs run, so that they survive the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from orchestrator.domain.ledger import CallRecord, ToolCall

log = structlog.get_logger()


class CallJournal(Protocol):
    async def record_calls(self, calls: Sequence[CallRecord]) -> None: ...


class Recorder:
    """Writes one batch after another: what comes while one is written is the next, so many calls take few commits."""

    def __init__(self, journal: CallJournal) -> None:
        self._journal = journal
        self._waiting: dict[tuple[str, int], ToolCall] = {}
        self._next: asyncio.Task[bool] | None = None
        self._batches: set[asyncio.Task[bool]] = set()
        # Two batches at once could let an older state of a call replace a newer one.
        self._writing = asyncio.Lock()
        self._failing = False

    def hand_in(self, execution_id: str, number: int, call: ToolCall) -> asyncio.Task[bool]:
        """Begin to write a call as it stands; the task tells whether it could be written."""
        self._waiting[execution_id, number] = call
        if self._next is None:
            self._next = asyncio.create_task(self._write_next())
            self._batches.add(self._next)
            self._next.add_done_callback(self._batches.discard)
        return self._next

    async def finish(self) -> None:
        """Return when everything that was handed in is written, or could not be."""
        if self._batches:
            await asyncio.wait(self._batches)

    async def _write_next(self) -> bool:
        async with self._writing:
            waiting, self._waiting, self._next = self._waiting, {}, None
            batch = [CallRecord(*place, call) for place, call in waiting.items()]
            try:
                await self._journal.record_calls(batch)
            except Exception as error:  # whatever it is: the calls of others are in the batch, too
                # Said once until it works again. The calls go on: an execution's end brings its whole ledger once more.
                if not self._failing:
                    executions = sorted({record.execution_id for record in batch})
                    log.error("calls.not_recorded", execution_ids=executions, error=str(error))
                self._failing = True
            else:
                self._failing = False
            return not self._failing
