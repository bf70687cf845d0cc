"""Records how executions end. What the journal cannot take then, it gets as soon as it can."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import structlog

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.execution import ExecutionResult
from orchestrator.service.ports import Journal

log = structlog.get_logger()


class Ends:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._missing: list[tuple[ExecutionResult, str | None]] = []
        self._recording = asyncio.Lock()  # two at once would record the first one twice and forget the second

    async def record(self, result: ExecutionResult, idempotency_key: str | None = None) -> None:
        """Record an end; whatever happens to the record, what ended has ended, and its caller hears of it."""
        try:
            await self._journal.finish(result, idempotency_key)
        except JournalUnavailable as error:
            log.error("execution.not_recorded", execution_id=result.execution_id, error=error.message)
            self._missing.append((replace(result, images=()), idempotency_key))
        except Exception:
            log.exception("execution.not_recorded", execution_id=result.execution_id)

    def not_yet_recorded(self, execution_id: str) -> ExecutionResult | None:
        return next((result for result, _ in self._missing if result.execution_id == execution_id), None)

    @property
    def contents(self) -> frozenset[str]:
        """Return the hashes of files that the journal will name only when it can be written again."""
        return frozenset(file.sha256 for result, _ in self._missing for file in result.record.files)

    async def record_what_is_missing(self) -> None:
        """Record what the journal could not take. Nothing new begins meanwhile, so it is not much."""
        with suppress(JournalUnavailable):
            async with self._recording:
                while self._missing:
                    await self._journal.finish(*self._missing[0])
                    result, _ = self._missing.pop(0)
                    log.info("execution.recorded_late", execution_id=result.execution_id)
