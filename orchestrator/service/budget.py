"""Bytes that may be held at once: reserved before they are taken, per owner and in all."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from contextlib import AbstractAsyncContextManager
from types import TracebackType


class Reservation(AbstractAsyncContextManager[None]):
    """A place in the queue, then bytes of the budget; given back exactly once, by leaving the context."""

    __slots__ = ("_budget", "_granted", "owner", "size")

    def __init__(self, budget: Budget, owner: str, size: int) -> None:
        self._budget = budget
        self._granted: asyncio.Future[None] | None = None  # there only while it has to wait
        self.owner = owner
        self.size = size

    async def __aenter__(self) -> None:
        if self._budget._enter(self):
            return  # at once: whoever finds room does not give way to others
        self._granted = asyncio.get_running_loop().create_future()
        try:
            await self._granted
        except BaseException:
            self.release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the bytes back; doing it twice does no harm."""
        self._budget._leave(self)

    def shrink(self, size: int) -> None:
        """Give back what turns out not to be needed."""
        if size < self.size:
            self._budget._shrink(self, size)

    def _grant(self) -> None:
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)


class Budget:
    """Owners take turns, and each takes its own in the order in which it asked.

    An owner whose share is used up keeps nobody else waiting. Whoever is next and fits into its share but not yet into
    what is left of the total keeps the others waiting, so that small requests never starve a large one.
    """

    def __init__(self, total_bytes: int, per_owner_bytes: int) -> None:
        self._total = total_bytes
        self._share = min(per_owner_bytes, total_bytes)
        self._taken = 0
        self._taken_by: Counter[str] = Counter()
        self._holding: set[Reservation] = set()
        self._queues: OrderedDict[str, deque[Reservation]] = OrderedDict()  # the owner whose turn it is comes first

    @property
    def taken(self) -> int:
        return self._taken

    def reserve(self, owner: str, size: int) -> Reservation:
        """Return a context that is entered when `size` fits into the owner's share and into the total."""
        if not 0 <= size <= self._share:
            raise ValueError(f"A reservation must have 0 to {self._share} bytes, not {size}.")
        return Reservation(self, owner, size)

    def _enter(self, reservation: Reservation) -> bool:
        """Take the bytes or a place in the queue; return whether they were taken."""
        if not self._queues and self._fits(reservation):
            self._give(reservation)
            return True
        self._queues.setdefault(reservation.owner, deque()).append(reservation)
        self._call_next()
        return reservation in self._holding

    def _leave(self, reservation: Reservation) -> None:
        if reservation in self._holding:
            self._shrink(reservation, 0)
            self._holding.remove(reservation)
        elif reservation in (queue := self._queues.get(reservation.owner, deque())):
            queue.remove(reservation)
            self._forget_if_empty(reservation.owner)
            self._call_next()  # it may have kept others waiting

    def _shrink(self, reservation: Reservation, size: int) -> None:
        self._take(reservation.owner, size - reservation.size)
        reservation.size = size
        if self._queues:
            self._call_next()

    def _take(self, owner: str, size: int) -> None:
        self._taken += size
        self._taken_by[owner] += size
        if not self._taken_by[owner]:
            del self._taken_by[owner]

    def _call_next(self) -> None:
        while (owner := self._next_owner()) is not None:
            reservation = self._queues[owner][0]
            if self._taken + reservation.size > self._total:
                return
            self._queues[owner].popleft()
            self._queues.move_to_end(owner)
            self._forget_if_empty(owner)
            self._give(reservation)
            reservation._grant()

    def _fits(self, reservation: Reservation) -> bool:
        own = self._taken_by[reservation.owner] + reservation.size
        return own <= self._share and self._taken + reservation.size <= self._total

    def _give(self, reservation: Reservation) -> None:
        self._holding.add(reservation)
        self._take(reservation.owner, reservation.size)

    def _next_owner(self) -> str | None:
        """Return the first owner in turn whose next request fits into its share."""
        within_share = (
            owner for owner, queue in self._queues.items() if self._taken_by[owner] + queue[0].size <= self._share
        )
        return next(within_share, None)

    def _forget_if_empty(self, owner: str) -> None:
        if not self._queues[owner]:
            del self._queues[owner]
