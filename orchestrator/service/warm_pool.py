"""Sandboxes started in advance, never used before; each serves one execution and is then destroyed.

How many are kept follows demand, between a floor and a ceiling per recipe and within one memory budget.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import islice

import structlog

from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.execution import Language, Limits, Recipe
from orchestrator.domain.sandbox import PoolSize, SandboxSpec
from orchestrator.service.sandboxes import REPLY_FIRST_SECONDS, Lease, Sandboxes, UnderWay

log = structlog.get_logger()

DEMAND_WINDOW_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.5
LET_PROGRAMS_RUN_SECONDS = 0.1
REFILLS_AT_ONCE = 2
PRELOADS_AT_ONCE = 2
PRELOAD_TIMEOUT_SECONDS = 5.0
LONGEST_BACKOFF_SECONDS = 5.0
NOT_YET_KNOWN = "warm"
IDLE_BYTES = {language: language.idle_bytes for language in Language}

Files = Mapping[str, str]
Recipes = Callable[[], Mapping[Recipe, Files]]


@dataclass(slots=True)
class WarmSandbox:
    lease: Lease
    started_at: float
    preloaded: bool = False

    async def preload(self) -> None:
        try:
            async with asyncio.timeout(PRELOAD_TIMEOUT_SECONDS):
                await self.lease.sandbox.preload()
        except (OrchestratorError, TimeoutError):
            log.info("pool.preload_failed", sandbox=self.lease.sandbox.id)  # it is no worse a sandbox without
        self.preloaded = True

    @property
    def age_seconds(self) -> float:
        return time.monotonic() - self.started_at


class Demand:
    """Counts the leases that were asked for lately."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=1024)

    def note(self) -> None:
        self._times.append(time.monotonic())

    @property
    def recent(self) -> int:
        since = time.monotonic() - DEMAND_WINDOW_SECONDS
        while self._times and self._times[0] < since:
            self._times.popleft()
        return len(self._times)


class WarmPool:
    def __init__(self, sandboxes: Sandboxes, recipes: Recipes, limits: Limits, size: PoolSize) -> None:
        self._sandboxes = sandboxes
        self._recipes = recipes
        self._limits = limits
        self._size = size
        self._idle: dict[Recipe, deque[WarmSandbox]] = {}
        self._demand: dict[Recipe, Demand] = {}
        self._wanted = asyncio.Event()
        self._leases = UnderWay()
        self._failures = 0
        self._closed = False

    @property
    def idle(self) -> int:
        return sum(len(waiting) for waiting in self._idle.values())

    @property
    def preloaded(self) -> int:
        return sum(warm.preloaded for waiting in self._idle.values() for warm in waiting)

    @asynccontextmanager
    async def lease(
        self, recipe: Recipe, files: Files, execution_id: str, timeout_seconds: float = 0
    ) -> AsyncIterator[Lease]:
        # No warm sandbox lives long enough for a long execution. It is no demand, and the pool does not wait for it.
        is_long = timeout_seconds > self._limits.timeout_seconds
        if not is_long:
            self._demand.setdefault(recipe, Demand()).note()
            self._wanted.set()
        lease = None if is_long else self._take(recipe)
        if lease is None:
            async with self._sandboxes.turn_to_start() as turn:
                # Meanwhile the pool may have been refilled.
                spec = self._spec(recipe, files, execution_id, timeout_seconds)
                lease = (None if is_long else self._take(recipe)) or await self._sandboxes.start(spec, turn)
        try:
            with nullcontext() if is_long else self._leases:
                yield lease
        finally:
            self._sandboxes.destroy(lease)

    async def tend(self) -> None:
        """Fill the pool for one round: at once when somebody took a sandbox, else now and then."""
        await asyncio.sleep(min(LONGEST_BACKOFF_SECONDS, 2.0**self._failures) if self._failures else 0)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await self._wanted.wait()
        self._wanted.clear()
        await self._until_executions_had_their_turn()
        if await self.refill_once() or await self._preload_some():
            self._wanted.set()  # there may be more to do

    async def refill_once(self) -> bool:
        """Retire what is stale and make what is missing; return whether anything was missing."""
        wanted = self._recipes()
        self._retire_stale(wanted)
        missing = self._missing(wanted)
        if missing and not self._closed:
            await asyncio.gather(*(self._make(recipe, wanted[recipe]) for recipe in missing))
        return bool(missing)

    async def _preload_some(self) -> bool:
        """Preload when there is nothing else to do: it costs half a start, and most programs do without."""
        if self._leases.count:
            return False
        idle = (warm for waiting in self._idle.values() for warm in waiting if not warm.preloaded)
        some = list(islice(idle, PRELOADS_AT_ONCE))
        await asyncio.gather(*(warm.preload() for warm in some))
        return bool(some)

    async def _until_executions_had_their_turn(self) -> None:
        """Wait for starts that an execution needs, and for short programs: a start takes most of a core.

        Wait less when the pool runs low: finding it empty costs an execution more than sharing the cores.
        """
        await self._sandboxes.until_no_start_is_under_way()
        with suppress(TimeoutError):
            async with asyncio.timeout(REPLY_FIRST_SECONDS if self._runs_low else LET_PROGRAMS_RUN_SECONDS):
                await self._leases.nothing.wait()
        await asyncio.sleep(REPLY_FIRST_SECONDS)

    @property
    def _runs_low(self) -> bool:
        return any(2 * len(self._idle.get(recipe, ())) < self._target(recipe) for recipe in self._demand)

    def close(self) -> None:
        self._closed = True
        for recipe in list(self._idle):
            self._discard(recipe)

    def _take(self, recipe: Recipe) -> Lease | None:
        waiting = self._idle.get(recipe, deque())
        while waiting:
            warm = waiting.popleft()
            if self._usable(warm):
                return replace(warm.lease, warm=True)
            self._sandboxes.destroy(warm.lease)
        return None

    def _usable(self, warm: WarmSandbox) -> bool:
        return warm.lease.sandbox.alive and warm.age_seconds < self._size.max_age_seconds

    def _missing(self, wanted: Mapping[Recipe, Files]) -> list[Recipe]:
        """Choose what to make next, the emptiest recipe first: at most two sandboxes, within the budget."""
        room = self._size.memory_bytes - sum(
            IDLE_BYTES[recipe.language] * len(waiting) for recipe, waiting in self._idle.items()
        )
        lacking = {recipe: self._target(recipe) - len(self._idle.get(recipe, ())) for recipe in wanted}
        chosen: list[Recipe] = []
        while len(chosen) < REFILLS_AT_ONCE and any(count > 0 for count in lacking.values()):
            neediest = max(lacking, key=lambda recipe: lacking[recipe])
            lacking[neediest] -= 1
            room -= IDLE_BYTES[neediest.language]
            if room < 0:
                break
            chosen.append(neediest)
        return chosen

    def _target(self, recipe: Recipe) -> int:
        recent = self._demand[recipe].recent if recipe in self._demand else 0
        return min(self._size.ceiling, max(self._size.floor, recent))

    async def _make(self, recipe: Recipe, files: Files) -> None:
        try:
            async with self._sandboxes.turn_to_start() as turn:
                lease = await self._sandboxes.start(self._spec(recipe, files, NOT_YET_KNOWN), turn)
        except OrchestratorError as error:
            self._failures = min(self._failures + 1, 6)
            log.warning("pool.refill_failed", language=recipe.language.value, error=error.message)
            return
        self._failures = 0
        if self._closed:
            self._sandboxes.destroy(lease)
        else:
            self._idle.setdefault(recipe, deque()).append(WarmSandbox(lease, time.monotonic()))

    def _retire_stale(self, wanted: Mapping[Recipe, Files]) -> None:
        self._demand = {recipe: demand for recipe, demand in self._demand.items() if recipe in wanted}
        for recipe, waiting in list(self._idle.items()):
            if recipe not in wanted:
                self._discard(recipe)
                continue
            for warm in [warm for warm in waiting if not self._usable(warm)]:
                waiting.remove(warm)
                self._sandboxes.destroy(warm.lease)

    def _discard(self, recipe: Recipe) -> None:
        for warm in self._idle.pop(recipe, deque()):
            self._sandboxes.destroy(warm.lease)

    def _spec(self, recipe: Recipe, files: Files, execution_id: str, timeout_seconds: float = 0) -> SandboxSpec:
        lifetime = max(self._size.max_age_seconds + self._limits.timeout_seconds, timeout_seconds) + 60
        return SandboxSpec(recipe, self._limits, execution_id, lifetime, files)
