"""Who runs now, who waits, who is refused. Callers take turns, so none can keep the others waiting by asking often."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from types import TracebackType

from orchestrator.domain.errors import QueueFull

RETRY_AFTER_SECONDS = 5


class Ticket:
    """A place in the queue, then a place among the running; given back exactly once, by leaving the context."""

    def __init__(self, admission: Admission, caller: str) -> None:
        self._admission = admission
        self.caller = caller
        self._turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def position(self) -> int:
        """Return 0 when it runs, 1 when it is next."""
        return self._admission.position_of(self)

    def call(self) -> None:
        if not self._turn.done():
            self._turn.set_result(None)

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
    def __init__(
        self, *, max_running: int, max_waiting: int, max_running_per_caller: int, max_waiting_per_caller: int
    ) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._max_running_per_caller = max_running_per_caller
        self._max_waiting_per_caller = max_waiting_per_caller
        self._running: set[Ticket] = set()
        self._running_of: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[Ticket]] = OrderedDict()  # the caller whose turn it is comes first

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def request(self, caller: str, *, was_accepted: bool = False) -> Ticket:
        """Give a place in the queue or among the running, or refuse when both are full.

        Who was accepted before, and has waited elsewhere, is not refused any more.
        """
        own = len(self._queues.get(caller, ()))
        is_full = self.running >= self._max_running or self._running_of[caller] >= self._max_running_per_caller
        must_wait = is_full and not was_accepted
        if must_wait and own >= self._max_waiting_per_caller:
            raise QueueFull(f"{own} of your executions are already waiting.", retry_after_seconds=RETRY_AFTER_SECONDS)
        if must_wait and self.waiting >= self._max_waiting:
            message = f"{self.running} executions are running and {self.waiting} are waiting."
            raise QueueFull(message, retry_after_seconds=RETRY_AFTER_SECONDS)
        ticket = Ticket(self, caller)
        self._queues.setdefault(caller, deque()).append(ticket)
        self._call_next()
        return ticket

    def position_of(self, ticket: Ticket) -> int:
        """Return when the ticket will be called, if nobody else comes: callers take turns."""
        queues = [list(queue) for queue in self._queues.values()]
        longest = max((len(queue) for queue in queues), default=0)
        order = [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]
        return next((place for place, other in enumerate(order, start=1) if other is ticket), 0)

    def leave(self, ticket: Ticket) -> None:
        if ticket in self._running:
            self._running.remove(ticket)
            self._running_of[ticket.caller] -= 1
        elif ticket in (queue := self._queues.get(ticket.caller, deque())):
            queue.remove(ticket)
            self._forget_if_empty(ticket.caller)
        self._call_next()

    def _call_next(self) -> None:
        while self.running < self._max_running:
            free = (caller for caller in self._queues if self._running_of[caller] < self._max_running_per_caller)
            caller = next(free, None)
            if caller is None:
                return
            ticket = self._queues[caller].popleft()
            self._queues.move_to_end(caller)
            self._forget_if_empty(caller)
            self._running.add(ticket)
            self._running_of[caller] += 1
            ticket.call()

    def _forget_if_empty(self, caller: str) -> None:
        if not self._queues[caller]:
            del self._queues[caller]
