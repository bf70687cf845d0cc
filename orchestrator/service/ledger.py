"""Keeps what an execution did, from the first call to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from orchestrator.domain.ledger import CallOutcome, CallRecord, ToolCall
from orchestrator.service.call_recorder import Recorder

Notify = Callable[[CallRecord], None]


class LedgerEntry:
    """One call under way: never sent until it is, in flight until it is answered."""

    def __init__(self, ledger: Ledger, number: int, server: str, tool: str, request_bytes: int) -> None:
        self.number = number
        self._ledger = ledger
        self._server = server
        self._tool = tool
        self._request_bytes = request_bytes
        self._started = time.monotonic()
        self._sent = False
        self._final: ToolCall | None = None

    def sent(self) -> asyncio.Task[bool]:
        """Note that it is on its way. It is written while the server works, unless somebody waits for that first."""
        self._sent = True
        self._ledger.show(self)
        return self._ledger.record(self)

    async def finish(self, outcome: CallOutcome, *, result_bytes: int = 0, detail: str | None = None) -> None:
        """Return when the journal has it, so that nobody knows of an answer that the journal does not know."""
        if self._final is not None:
            return
        self._final = self._describe(outcome, result_bytes, detail)
        try:
            await asyncio.shield(self._ledger.record(self))
        finally:
            self._ledger.tell(self)

    @property
    def as_of_now(self) -> ToolCall:
        pending = CallOutcome.IN_FLIGHT if self._sent else CallOutcome.NEVER_SENT
        return self._final or self._describe(pending, 0, None)

    def _describe(self, outcome: CallOutcome, result_bytes: int, detail: str | None) -> ToolCall:
        return ToolCall(
            server=self._server,
            tool=self._tool,
            outcome=outcome,
            started_ms=round((self._started - self._ledger.opened_at) * 1000, 3),
            duration_ms=round((time.monotonic() - self._started) * 1000, 3),
            request_bytes=self._request_bytes,
            result_bytes=result_bytes,
            detail=detail,
        )


class Ledger:
    """`notify` hears of each call when it has ended, `watch` also when it is sent."""

    def __init__(
        self, execution_id: str, recorder: Recorder, notify: Notify, watch: Notify = lambda call: None
    ) -> None:
        self._notify = notify
        self._watch = watch
        self.opened_at = time.monotonic()
        self._execution_id = execution_id
        self._recorder = recorder
        self._entries: list[LedgerEntry] = []

    def begin(self, server: str, tool: str, request_bytes: int) -> LedgerEntry:
        entry = LedgerEntry(self, len(self._entries), server, tool, request_bytes)
        self._entries.append(entry)
        self.record(entry)
        return entry

    def record(self, entry: LedgerEntry) -> asyncio.Task[bool]:
        return self._recorder.hand_in(self._execution_id, entry.number, entry.as_of_now)

    def tell(self, entry: LedgerEntry) -> None:
        self.show(entry)
        self._notify(CallRecord(self._execution_id, entry.number, entry.as_of_now))

    def show(self, entry: LedgerEntry) -> None:
        self._watch(CallRecord(self._execution_id, entry.number, entry.as_of_now))

    def __len__(self) -> int:
        return len(self._entries)

    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(entry.as_of_now for entry in self._entries)
