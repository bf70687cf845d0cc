"""What the daemon and the servers hold for tool calls: reserved before it is taken, and for each caller not all of it.

Nobody can wait for each other in a circle, because everybody reserves in this order, each thing once: room for the
request, a turn of the execution, a place at the server, room for the result, a turn to read it. Whoever has the last of
them needs nothing more from the others.

A session of an execution's own is kept until the execution ends, so it is opened before there is a place at the server:
whoever waits for one must not hold what those need that have theirs. Two executions that wait for each other's, at two
servers, wait no longer than a call may take.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Self, TypeVar

from orchestrator.domain.errors import LimitExceeded
from orchestrator.domain.execution import RoomLimits
from orchestrator.service.budget import Budget, Reservation

T = TypeVar("T")

# Of threads that read large JSON. They share one interpreter, so more of them would not be faster.
READERS = 4
READERS_OF_A_CALLER = 2
# Searches, lists of tools and searches in output that are under way; a caller has one at a time.
QUESTIONS = 3


class Rooms:
    def __init__(self, limits: RoomLimits) -> None:
        self._limits = limits
        self._requests = Budget(limits.request_bytes.total, limits.request_bytes.per_caller)
        self._servers: dict[str, tuple[Budget, Budget]] = {}
        self._sessions: dict[str, Budget] = {}
        self.results = Budget(limits.result_bytes.total, limits.result_bytes.per_caller)
        self.readers = Budget(READERS, READERS_OF_A_CALLER)
        self.executions_reading = Budget(sys.maxsize, 1)
        self.questions = Budget(QUESTIONS, 1)
        self.threads = ThreadPoolExecutor(READERS, thread_name_prefix="reader")

    def for_request(self, caller: str, size: int) -> Reservation:
        """Wait until so many bytes of a request may be read, and held until they are sent."""
        shares = self._limits.request_bytes
        return self._requests.reserve(caller, min(size, shares.per_caller, shares.total))

    def at_server(self, server: str, caller: str, size: int) -> PlaceAtServer:
        """Wait until a server may be given one more call, with a request of so many bytes."""
        calls, request_bytes = self._servers.get(server) or self._new_server(server)
        shares = self._limits.request_bytes_per_server
        most = min(size, shares.per_caller, shares.total)
        return PlaceAtServer(calls.reserve(caller, 1), request_bytes.reserve(caller, most))

    def session_at(self, server: str, caller: str) -> Reservation:
        """Wait until a server may have one more session that belongs to an execution."""
        shares = self._limits.sessions_per_server
        budget = self._sessions.setdefault(server, Budget(shares.total, shares.per_caller))
        return budget.reserve(caller, 1)

    def _new_server(self, server: str) -> tuple[Budget, Budget]:
        calls, request_bytes = self._limits.calls_per_server, self._limits.request_bytes_per_server
        budgets = Budget(calls.total, calls.per_caller), Budget(request_bytes.total, request_bytes.per_caller)
        self._servers[server] = budgets
        return budgets


class PlaceAtServer(AbstractAsyncContextManager[None]):
    """One of the calls that a server may have at once, and the bytes of its request."""

    __slots__ = ("_call", "_request_bytes")

    def __init__(self, call: Reservation, request_bytes: Reservation) -> None:
        self._call = call
        self._request_bytes = request_bytes

    async def __aenter__(self) -> None:
        await self._call.__aenter__()
        try:
            await self._request_bytes.__aenter__()
        except BaseException:
            self._call.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._request_bytes.release()
        self._call.release()


class ResultRoom:
    """Room for one result: of the execution's own first, then of what all share. Whoever delivers it gives it back."""

    __slots__ = ("_asked", "_caller", "_closed", "_execution_id", "_held", "_own", "_rooms")

    def __init__(self, rooms: Rooms, own: Budget, caller: str, execution_id: str) -> None:
        self._rooms = rooms
        self._own = own
        self._caller = caller
        self._execution_id = execution_id
        self._held: list[Reservation] = []
        self._asked = False
        self._closed = False

    @property
    def owner(self) -> str:
        """Return the caller, whose share of the room it is."""
        return self._caller

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._release()

    async def reserve(self, size: int) -> None:
        """Return when the result may take up so many bytes; a result has one reservation, so later ones do nothing."""
        if self._asked:
            return
        self._asked = True
        try:
            for reservation in (self._own.reserve("", size), self._rooms.results.reserve(self._caller, size)):
                await reservation.__aenter__()
                self._held.append(reservation)
                if self._closed:  # who wanted the result has gone, while somebody else waited on its behalf
                    raise LimitExceeded("The result is no longer wanted.")
        except ValueError:
            raise LimitExceeded(f"A result of {size} bytes is larger than all that may be held at once.") from None
        except BaseException:
            self._release()
            raise

    def shrink(self, size: int) -> None:
        for reservation in self._held:
            reservation.shrink(size)

    async def in_turn(self, work: Callable[[], T]) -> T:
        """Do what takes long in a thread. Callers take turns, and of each so do its executions, one thread each."""
        turns = (
            self._rooms.executions_reading.reserve(self._execution_id, 1),
            self._rooms.readers.reserve(self._caller, 1),
        )
        async with AsyncExitStack() as taken:
            for turn in turns:
                await taken.enter_async_context(turn)
            reading = asyncio.get_running_loop().run_in_executor(self._rooms.threads, work)
            taken.pop_all()

        def end(read: asyncio.Future[T]) -> None:
            for turn in turns:
                turn.release()
            if not read.cancelled():
                read.exception()  # seen: whoever wanted it may have gone

        # A thread goes on when whoever wanted its work has gone, and its turn lasts as long.
        reading.add_done_callback(end)
        return await asyncio.shield(reading)

    def _release(self) -> None:
        while self._held:
            self._held.pop().release()
