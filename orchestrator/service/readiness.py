"""Whether an execution would work now, and if not, why."""

from __future__ import annotations

from orchestrator.domain.errors import NotReady, OrchestratorError
from orchestrator.service.ports import Engine, Journal


class Readiness:
    def __init__(self, engine: Engine, journal: Journal) -> None:
        self._engine = engine
        self._journal = journal
        self.problem: OrchestratorError | None = NotReady("The daemon is starting.", retry_after_seconds=1)

    @property
    def ready(self) -> bool:
        return self.problem is None

    def require(self) -> None:
        """Refuses at once what would only fail later, for instance after the engine's whole timeout."""
        if self.problem is not None:
            raise self.problem

    async def check(self) -> None:
        try:
            await self._engine.prepare()
            await self._journal.check()
        except OrchestratorError as problem:
            self.problem = problem
        else:
            self.problem = None
