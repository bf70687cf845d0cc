"""An execution under way: what it printed so far, who watches it, and the way to end it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice

from orchestrator.domain.execution import (
    CancelledBy,
    Execution,
    ExecutionRecord,
    ExecutionResult,
    Image,
    State,
    Stream,
    Unfinished,
)
from orchestrator.domain.ledger import CallRecord, ToolCall
from orchestrator.service.admission import Ticket
from orchestrator.service.handovers import Handover
from orchestrator.service.scopes import SkillRun
from orchestrator.service.workspaces import Turn

LARGEST_CHUNK_BYTES = 64 * 1024
FAR_BEHIND = 64  # happenings


@dataclass(frozen=True, slots=True)
class OutputChunk:
    stream: Stream
    data: bytes


Happening = OutputChunk | CallRecord


class RunningExecution:
    """Output is kept whole (it is capped), so a slow watcher holds up neither the sandbox nor other watchers."""

    def __init__(
        self,
        execution: Execution,
        record: ExecutionRecord,
        handover: Handover | None = None,
        ticket: Ticket | None = None,
        turn: Turn | None = None,
        skill: SkillRun | None = None,
    ) -> None:
        self.execution = execution
        self.record = record
        self.ticket = ticket  # None while it waits for its workspace
        self.turn = turn
        self.skill = skill
        self._handover = handover
        self.stop: Callable[[], None] | None = None  # there while the program runs
        self.cancelled = asyncio.Event()
        self.cancelled_by: CancelledBy | None = None
        self.in_background = execution.background  # then nobody has to wait for it
        self.watchers = 0
        self.warm = False
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.calls_so_far: Callable[[], tuple[ToolCall, ...]] = tuple
        self.images: tuple[Image, ...] = ()
        self._happenings: list[Happening] = []
        self._sizes: Counter[Stream] = Counter()
        self._waiting: list[asyncio.Future[None]] = []
        self._result: asyncio.Future[ExecutionResult] = asyncio.get_running_loop().create_future()

    @classmethod
    def ended(cls, execution: Execution, result: ExecutionResult) -> RunningExecution:
        """Show one that has ended as those saw it who waited for it."""
        running = cls(execution, result.record)
        for stream, data in ((Stream.STDOUT, result.stdout), (Stream.STDERR, result.stderr)):
            if data:
                running.receive(stream, data)
        running.publish(result)
        return running

    @property
    def position(self) -> int:
        """Return 0 when it runs, 1 when it is next."""
        if self.ticket is not None:
            return self.ticket.position
        return 0 if self.turn is None else 1

    @property
    def handover(self) -> Handover:
        assert self._handover is not None  # noqa: S101  (whatever is run has one)
        return self._handover

    @property
    def state(self) -> State:
        return self.record.state

    @property
    def unfinished(self) -> Unfinished:
        return Unfinished(replace(self.record, tool_calls=self.calls_so_far()), self.execution.idempotency_key)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Wait for the result inside; when the last one who waits leaves before it is there, cancel the execution.

        One in the background goes on.
        """
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1
            if not (self.watchers or self.in_background or self.finished):
                self.cancel(CancelledBy.DISCONNECT)

    @property
    def finished(self) -> bool:
        return self._result.done()

    def receive(self, stream: Stream, data: bytes) -> None:
        self._sizes[stream] += len(data)
        self._note(OutputChunk(stream, data))

    def note_call(self, call: CallRecord) -> None:
        self._note(call)

    def size(self, stream: Stream) -> int:
        return self._sizes[stream]

    def output(self, stream: Stream) -> bytes:
        chunks = (item for item in self._happenings if isinstance(item, OutputChunk))
        return b"".join(chunk.data for chunk in chunks if chunk.stream is stream)

    def cancel(self, by: CancelledBy = CancelledBy.REQUEST) -> None:
        """End it. A request counts for more than an accident before it; otherwise the first is told."""
        if self.cancelled_by is None or by is CancelledBy.REQUEST:
            self.cancelled_by = by
        self.cancelled.set()

    @property
    def abandoned(self) -> bool:
        """Whether it is about to end though nobody asked for that."""
        return self.cancelled_by not in (None, CancelledBy.REQUEST)

    def publish(self, result: ExecutionResult) -> None:
        self._result.set_result(result)
        self._wake_waiting()

    async def result(self) -> ExecutionResult:
        return await asyncio.shield(self._result)

    async def happenings(self, heartbeat_seconds: float) -> AsyncIterator[Happening | None]:
        """Yield what is printed and called, from the beginning, as it comes; None when nothing came for a heartbeat."""
        seen = 0
        while True:
            while seen < len(self._happenings):
                together, seen = self._together(seen)
                for happening in together:
                    yield happening
            if self.finished:
                return
            try:
                async with asyncio.timeout(heartbeat_seconds):
                    await self._next_change()
            except TimeoutError:
                yield None

    async def until(self, news: Callable[[], bool], seconds: float) -> None:
        """Return when there is news, or the result is there, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (self.finished or news()):
                    await self._next_change()

    async def _next_change(self) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        try:
            await change
        finally:
            self._waiting.remove(change)

    def _together(self, first: int) -> tuple[list[Happening], int]:
        """Return a happening with the output that follows it, and where to go on.

        A program can print single bytes, and whoever comes late should not be told of each: pieces of one stream become
        one, and of both streams one each if there are very many.
        """
        happening, after, size = self._happenings[first], first, 0
        if not isinstance(happening, OutputChunk):
            return [happening], first + 1
        is_far_behind = len(self._happenings) - first > FAR_BEHIND
        pieces: dict[Stream, list[bytes]] = {happening.stream: []}
        for more in islice(self._happenings, first, None):
            if not isinstance(more, OutputChunk) or size >= LARGEST_CHUNK_BYTES:
                break
            if more.stream not in pieces and not is_far_behind:
                break
            pieces.setdefault(more.stream, []).append(more.data)
            size, after = size + len(more.data), after + 1
        return [OutputChunk(stream, b"".join(data)) for stream, data in pieces.items()], after

    def _note(self, happening: Happening) -> None:
        self._happenings.append(happening)
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        for change in self._waiting:
            if not change.done():
                change.set_result(None)
