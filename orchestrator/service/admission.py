"""Who runs now, who waits, who is refused."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

from orchestrator.domain.errors import QueueFull

RETRY_AFTER_SECONDS = 5


class Ticket:
    """A place in the queue, then a place among the running; given back exactly once, by leaving the context."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def position(self) -> int:
        return self._admission.position_of(self)

    def call(self) -> bool:
        if self._turn.done():
            return False
        self._turn.set_result(None)
        return True

    async def __aenter__(self) -> None:
        try:
            await self._turn
        except asyncio.CancelledError:
            self._admission.leave(self)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.leave(self)


class Admission:
    def __init__(self, *, max_running: int, max_waiting: int) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._running: set[Ticket] = set()
        self._waiting: deque[Ticket] = deque()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def request(self) -> Ticket:
        if self.running >= self._max_running and self.waiting >= self._max_waiting:
            raise QueueFull(
                f"{self.running} executions run and {self.waiting} wait.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )
        ticket = Ticket(self)
        self._waiting.append(ticket)
        self._call_next()
        return ticket

    def position_of(self, ticket: Ticket) -> int:
        """0 when it runs, 1 when it is next."""
        return self._waiting.index(ticket) + 1 if ticket in self._waiting else 0

    def leave(self, ticket: Ticket) -> None:
        self._running.discard(ticket)
        if ticket in self._waiting:
            self._waiting.remove(ticket)
        self._call_next()

    def _call_next(self) -> None:
        while self._waiting and self.running < self._max_running:
            ticket = self._waiting.popleft()
            if ticket.call():
                self._running.add(ticket)
