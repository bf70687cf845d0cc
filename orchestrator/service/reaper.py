"""Removes what nobody owns: containers of an earlier start of the daemon, strays of this one, and what is overdue.

The engine completes a create even after its client has gone, so this runs at start and periodically. Ages are counted
from the first sight of a container, by a clock that does not jump.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.sandbox import OwnedContainer
from orchestrator.service.ports import Engine

log = structlog.get_logger()

Ids = Callable[[], frozenset[str]]

# The runner and the executor end a sandbox long before; should both fail, this does.
OVERDUE_AFTER_SECONDS = 5.0


class Reaper:
    def __init__(self, engine: Engine, owned_ids: Ids, *, stray_after_seconds: float) -> None:
        self._engine = engine
        self._owned_ids = owned_ids
        self._stray_after_seconds = stray_after_seconds
        self._first_seen: dict[str, float] = {}
        self._unowned_since: dict[str, float] = {}

    async def remove_orphans(self) -> int:
        """Remove every container that nobody owns; return how many there were."""
        found = await self._engine.list_owned()
        present = {container.id for container in found}
        for noted in (self._first_seen, self._unowned_since):
            for gone in noted.keys() - present:
                del noted[gone]
        return await self._remove(container for container in found if self._is_orphan(container))

    async def remove_what_is_left(self, within_seconds: float) -> None:
        """When the daemon stops and owns nothing any more, remove what this start of it left, if the engine lets us.

        A connection that broke at the wrong moment leaves a container that the engine made for nobody.
        """
        try:
            async with asyncio.timeout(within_seconds):
                await self._remove(each for each in await self._engine.list_owned() if each.of_this_epoch)
        except (OrchestratorError, TimeoutError) as error:
            log.warning("reaper.gave_up", error=str(error))

    async def _remove(self, containers: Iterable[OwnedContainer]) -> int:
        removed = 0
        for container in containers:
            try:
                await self._engine.remove(container.id)
            except OrchestratorError as error:
                log.warning("reaper.removal_failed", container=container.id, error=error.message)
            else:
                log.info("reaper.removed", container=container.id)
                removed += 1
        return removed

    def _is_orphan(self, container: OwnedContainer) -> bool:
        age, lifetime = _age(self._first_seen, container.id), container.lifetime_seconds
        is_overdue = lifetime is not None and age > lifetime + OVERDUE_AFTER_SECONDS
        if container.tampered or is_overdue:
            return True  # ours or not: the pool replaces what dies
        if container.id in self._owned_ids():
            self._unowned_since.pop(container.id, None)
            return False
        if not container.of_this_epoch:
            return True
        # One of ours that is just being made or destroyed is not yet, or no longer, known: give it time.
        return _age(self._unowned_since, container.id) > self._stray_after_seconds


def _age(since: dict[str, float], container_id: str) -> float:
    now = time.monotonic()
    return now - since.setdefault(container_id, now)
