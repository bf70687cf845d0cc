"""Whether an execution would work now, and if not, why."""

from __future__ import annotations

import structlog

from orchestrator.domain.errors import NotReady, OrchestratorError
from orchestrator.service.ports import Engine, Journal

log = structlog.get_logger()


class Readiness:
    def __init__(self, engine: Engine, journal: Journal, instance: str = "") -> None:
        self._engine = engine
        self._journal = journal
        self._instance = instance
        self._recovered = False
        self.problem: OrchestratorError | None = NotReady("The daemon is starting.", retry_after_seconds=1)

    @property
    def ready(self) -> bool:
        return self.problem is None

    def require(self) -> None:
        """Refuse at once what would only fail later, for instance after the engine's whole timeout."""
        if self.problem is not None:
            raise self.problem

    async def recover(self) -> None:
        """Mark what ran when the daemon last stopped as interrupted, once, before anything new begins."""
        if self._recovered:
            return
        interrupted = await self._journal.mark_interrupted(self._instance)
        self._recovered = True
        if interrupted:
            log.warning("journal.interrupted", executions=interrupted)

    async def check(self) -> None:
        """Note what would keep an execution from working now, if anything."""
        try:
            await self.recover()
            await self._engine.prepare()
            await self._journal.check()
        except OrchestratorError as problem:
            self.problem = problem
        else:
            self.problem = None
