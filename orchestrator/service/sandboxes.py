"""Starts sandboxes in turn and destroys them in the background, counted until they are gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from orchestrator.domain.sandbox import SandboxSpec
from orchestrator.service.ports import Accept, Engine, Sandbox

log = structlog.get_logger()

# Calls of the engine run on threads that compete with the event loop: the execution's reply goes out before them.
REPLY_FIRST_SECONDS = 0.02
# A start takes most of a core. More at once would not start more of them, only make each wait longer for the others.
STARTS_AT_ONCE = 2 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Lease:
    """Ownership of a sandbox for one execution; ends in its destruction."""

    sandbox: Sandbox
    warm: bool = False


class UnderWay:
    """Counts what is between entering and leaving it, so that others can wait until nothing is."""

    def __init__(self) -> None:
        self.count = 0
        self.nothing = asyncio.Event()
        self.nothing.set()

    def __enter__(self) -> None:
        self.count += 1
        self.nothing.clear()

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        if not self.count:
            self.nothing.set()


class Turn:
    """One of the starts that the machine takes at once, until the engine is done with it, wanted or not."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self.starting: asyncio.Task[Lease] | None = None

    def end(self) -> None:
        if self.starting is None or self.starting.done():
            self._turns.release()
        else:
            self.starting.add_done_callback(lambda _: self._turns.release())


class Sandboxes:
    def __init__(self, engine: Engine, accept: Accept) -> None:
        self._engine = engine
        self._accept = accept
        self._alive: set[str] = set()
        self._turns = asyncio.Semaphore(STARTS_AT_ONCE)
        self._starts = UnderWay()
        self._in_background: set[asyncio.Task[Any]] = set()

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._alive)

    @property
    def starting(self) -> int:
        """Return how many start now or wait for their turn."""
        return self._starts.count

    async def until_no_start_is_under_way(self) -> None:
        await self._starts.nothing.wait()

    @asynccontextmanager
    async def turn_to_start(self) -> AsyncIterator[Turn]:
        """Wait until not too many sandboxes start at once, and start one inside."""
        with self._starts:
            await self._turns.acquire()
            turn = Turn(self._turns)
            try:
                yield turn
            finally:
                turn.end()

    async def start(self, spec: SandboxSpec, turn: Turn) -> Lease:
        # A create cannot be taken back once sent: when the caller goes away, it is completed and then destroyed.
        starting = turn.starting = self._do_in_background(self._start(spec))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._do_in_background(self._destroy_once_started(starting))
            raise

    def destroy(self, lease: Lease) -> None:
        self._do_in_background(self._destroy(lease))

    async def all_destroyed(self) -> None:
        # A start that has just ended is not in the background any more, but its owner has yet to destroy it.
        while self._in_background or self._starts.count:
            await self._starts.nothing.wait()
            if self._in_background:
                await asyncio.wait(self._in_background)

    async def _start(self, spec: SandboxSpec) -> Lease:
        sandbox = await self._engine.create_sandbox(spec, self._accept)
        self._alive.add(sandbox.id)
        return Lease(sandbox)

    async def _destroy_once_started(self, starting: asyncio.Task[Lease]) -> None:
        try:
            lease = await starting
        except Exception as error:
            log.info("sandbox.abandoned_start_failed", error=str(error))
        else:
            await self._destroy(lease)

    async def _destroy(self, lease: Lease) -> None:
        await asyncio.sleep(REPLY_FIRST_SECONDS)
        try:
            await lease.sandbox.destroy()
        except Exception as error:  # the reaper removes it
            log.warning("sandbox.destruction_failed", sandbox=lease.sandbox.id, error=str(error))
        finally:
            self._alive.discard(lease.sandbox.id)

    def _do_in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._in_background.add(task)
        task.add_done_callback(self._in_background.discard)
        return task
