"""Removes what nobody owns: containers of an earlier start of the daemon, strays of this one, and what is overdue.

The engine completes a create even after its client has gone, so this runs at start and periodically. Ages are counted
from the first sight of a container, by a clock that does not jump.
"""

from __future__ import annotations

import time
from collections.abc import Callable

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
        found = await self._engine.list_owned()
        self._forget_gone({container.id for container in found})
        removed = 0
        for container in found:
            if self._is_orphan(container):
                removed += await self._remove(container)
        return removed

    def _is_orphan(self, container: OwnedContainer) -> bool:
        if container.tampered or self._is_overdue(container):
            return True  # ours or not: the pool replaces what dies
        if container.in_use or container.id in self._owned_ids():
            self._unowned_since.pop(container.id, None)
            return False
        if not container.of_this_epoch:
            return True
        # One of ours that is just being made or destroyed is not yet, or no longer, known: give it time.
        return _age(self._unowned_since, container.id) > self._stray_after_seconds

    def _is_overdue(self, container: OwnedContainer) -> bool:
        age = _age(self._first_seen, container.id)
        return container.lifetime_seconds is not None and age > container.lifetime_seconds + OVERDUE_AFTER_SECONDS

    def _forget_gone(self, present: set[str]) -> None:
        for noted in (self._first_seen, self._unowned_since):
            for container_id in noted.keys() - present:
                del noted[container_id]

    async def _remove(self, container: OwnedContainer) -> int:
        try:
            await self._engine.remove(container.id)
        except OrchestratorError as error:
            log.warning("reaper.removal_failed", container=container.id, error=error.message)
            return 0
        log.info("reaper.removed", container=container.id, kind=container.kind)
        return 1


def _age(since: dict[str, float], container_id: str) -> float:
    now = time.monotonic()
    return now - since.setdefault(container_id, now)
