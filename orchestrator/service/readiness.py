"""Whether an execution would work now, and if not, why."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import structlog

from orchestrator.domain.errors import EngineUnavailable, NotReady, OrchestratorError
from orchestrator.domain.sandbox import Finding
from orchestrator.service.ports import Engine, Journal

log = structlog.get_logger()

LOOK_EVERY_SECONDS = 60.0


class Readiness:
    def __init__(
        self, engine: Engine, journal: Journal, instance: str = "", load: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._instance = instance
        self._load = load
        self._recovered = False
        self._engine_failed: tuple[float, EngineUnavailable] | None = None
        self._looked: tuple[float, bool] | None = None
        self.findings: tuple[Finding, ...] = ()
        self.problem: OrchestratorError | None = NotReady("The daemon is starting.", retry_after_seconds=1)

    @property
    def ready(self) -> bool:
        return self.problem is None

    def require(self) -> None:
        """Refuse at once what would only fail later, for instance after the engine's whole timeout."""
        if self.problem is not None:
            raise self.problem.with_traceback(None)  # else it would keep those of all whom it refused

    def note(self, problem: OrchestratorError) -> None:
        """Take up at once what somebody else found out; the next check tells whether it still holds."""
        if self.problem is None:
            self.problem = problem

    async def recover(self) -> None:
        """Mark what ran when the daemon last stopped as interrupted, and load what is kept, before anything begins."""
        if self._recovered:
            return
        interrupted = await self._journal.mark_interrupted(self._instance)
        if interrupted:
            log.warning("journal.interrupted", executions=interrupted)
        if self._load is not None:
            await self._load()
        self._recovered = True

    async def check(self) -> None:
        """Note what would keep an execution from working now, if anything."""
        try:
            await self._journal.check()  # first: it replaces a journal that was lost, whatever the engine does
            await self.recover()
            await self._ask_engine()
        except OrchestratorError as problem:
            self.problem = problem
        else:
            self.problem = None

    async def look_now_and_then(self) -> None:
        """Keep what there is to know of the engine and the host; look again when it is old, or readiness changed."""
        now = time.monotonic()
        if self._looked is None or now - self._looked[0] >= LOOK_EVERY_SECONDS or self._looked[1] != self.ready:
            self._looked = now, self.ready
            self.findings = tuple(await self._engine.describe())

    async def engine_fault_since(self, moment: float) -> EngineUnavailable | None:
        """Return what kept the engine from answering now or at a check since a moment of the monotonic clock."""
        if self._engine_failed is None or self._engine_failed[0] < moment:
            try:
                await self._ask_engine()
            except EngineUnavailable as problem:
                self.note(problem)
                return problem
            except OrchestratorError:
                pass  # it answers, if only that it lacks something
            return None
        return self._engine_failed[1]

    async def _ask_engine(self) -> None:
        try:
            await self._engine.prepare()
        except EngineUnavailable as problem:
            self._engine_failed = time.monotonic(), problem
            raise
