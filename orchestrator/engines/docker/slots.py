"""Prepared network namespaces, kept and repaired; each is lent to one sandbox at a time."""

from __future__ import annotations

import structlog

from orchestrator.service.ports import Engine, Slot

log = structlog.get_logger()


class Slots:
    """Grows with demand: as many slots as there were sandboxes at once, since making one costs most of a start."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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
        slot = await self._engine.create_slot()
        self._all[slot.id] = slot
        return slot

    def give_back(self, slot: Slot) -> None:
        slot.disconnect()
        if slot.id in self._all:
            self._free.append(slot)

    async def retire(self, slot: Slot) -> None:
        self._all.pop(slot.id, None)
        try:
            await slot.destroy()
        except Exception as error:  # the reaper removes what could not be removed here
            log.warning("slot.destruction_failed", slot=slot.id, error=str(error))

    async def retire_all(self) -> None:
        self._free.clear()
        for slot in list(self._all.values()):
            await self.retire(slot)
