"""Executions that a caller may look at, whether they still run or not."""

from __future__ import annotations

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import NotFound
from orchestrator.domain.execution import ExecutionRecord, Page, Stream
from orchestrator.service.executions import Executor
from orchestrator.service.ports import Journal

LARGEST_OUTPUT_BYTES = 10 * 1024 * 1024  # the most that the settings let a stream have


class Records:
    def __init__(self, executor: Executor, journal: Journal) -> None:
        self._executor = executor
        self._journal = journal

    async def visible(self, caller: Caller, execution_id: str) -> ExecutionRecord:
        record = await self._journal.find(execution_id)
        if record is None or not caller.may_see(record.caller):
            raise NotFound(f"No execution {execution_id}.")
        return record

    async def newest(self, caller: Caller, limit: int) -> list[ExecutionRecord]:
        return list(await self._journal.newest(caller=caller.key_name, limit=limit, before=None))

    async def output(self, record: ExecutionRecord, stream: Stream, start: int, length: int) -> Page:
        if running := self._executor.find_running(record.id):
            output = running.output(stream)
            return Page(output[start : start + length], len(output))
        return await self._journal.output(record.id, stream, start, length) or Page(b"", 0)
