"""How much is kept for whom. A caller's oldest files make room for its new ones; nobody's make room for another's."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import TracebackType

from orchestrator.domain.counts import count_down
from orchestrator.domain.execution import Shares
from orchestrator.service.ports import FileIndex


class Room:
    """What a caller was promised; to be given back once it is stored, or is not going to be."""

    def __init__(self, quota: Quota, caller: str) -> None:
        self._quota = quota
        self.caller = caller
        self.bytes = 0

    async def grow_to(self, size: int) -> bool:
        """Return whether there may be so much, after the caller's oldest files have made room if that helps."""
        return size <= self.bytes or await self._quota._grow(self, size)

    def give_back(self) -> None:
        self._quota._shrink(self)

    def __enter__(self) -> Room:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()


class Quota:
    def __init__(self, index: FileIndex, stored_bytes: Shares) -> None:
        self._index = index
        self._stored_bytes = stored_bytes
        self._promised: Counter[str] = Counter()
        self._looking = asyncio.Lock()  # from a look at what is stored until the promise, so that none is given twice

    def room(self, caller: str) -> Room:
        return Room(self, caller)

    async def _grow(self, room: Room, size: int) -> bool:
        if size > self._stored_bytes.per_caller:
            return False
        async with self._looking:
            more = size - room.bytes
            missing = more - await self._free_bytes(room.caller)
            if missing > 0:
                missing -= await self._index.drop_oldest_files(room.caller, missing)
            if missing > 0:
                return False
            self._promised[room.caller] += more
            room.bytes = size
            return True

    def _shrink(self, room: Room) -> None:
        if room.bytes:
            count_down(self._promised, room.caller, room.bytes)
            room.bytes = 0

    async def _free_bytes(self, caller: str) -> int:
        """Return how much may be added for a caller as things are."""
        own = self._stored_bytes.per_caller - self._promised[caller] - await self._index.stored_bytes(caller)
        return min(own, self._stored_bytes.total - self._promised.total() - await self._index.stored_bytes())
