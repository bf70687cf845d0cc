"""Prepared network namespaces, each lent to one sandbox at a time: making one costs most of a start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from orchestrator.engines.runner.relay import Accept
from orchestrator.engines.runner.session import KeeperSession

log = structlog.get_logger()

# Returns when the engine has removed a container that was let go.
SeeOff = Callable[[str], Awaitable[None]]


class Slot:
    """A container that holds a network namespace open, and its keeper."""

    def __init__(self, container_id: str, keeper: KeeperSession, see_off: SeeOff) -> None:
        self.id = container_id
        self._keeper = keeper
        self._see_off = see_off

    @property
    def alive(self) -> bool:
        return self._keeper.alive

    def serve(self, sandbox_id: str, accept: Accept) -> None:
        self._keeper.serve(sandbox_id, accept)

    def disconnect(self) -> None:
        self._keeper.disconnect()

    async def destroy(self) -> None:
        self._keeper.close()
        await self._see_off(self.id)


class Slots:
    """Grows with demand, to as many slots as there were sandboxes at once."""

    def __init__(self, make: Callable[[], Awaitable[Slot]]) -> None:
        self._make = make
        self._free: list[Slot] = []
        self._all: dict[str, Slot] = {}

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._all)

    async def borrow(self) -> Slot:
        while self._free:
            slot = self._free.pop()
            if slot.alive:
                return slot
            await self.retire(slot)
        slot = await self._make()
        self._all[slot.id] = slot
        return slot

    def give_back(self, slot: Slot) -> None:
        slot.disconnect()
        if slot.id in self._all:
            self._free.append(slot)

    async def retire(self, slot: Slot) -> None:
        """Destroy a slot that must not be lent again."""
        self._all.pop(slot.id, None)
        try:
            await slot.destroy()
        except Exception as error:  # the reaper removes what could not be removed here
            log.warning("slot.destruction_failed", slot=slot.id, error=str(error))

    async def retire_all(self) -> None:
        self._free.clear()
        for slot in list(self._all.values()):
            await self.retire(slot)
