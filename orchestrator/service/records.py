"""Which executions a caller may see, and what they printed, whether they still run or not. The same for every face."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import NotForYourRole, NotFound, ProgramNotKept
from orchestrator.domain.execution import ExecutionRecord, Filter, Kind, Page, State, Stream
from orchestrator.domain.statistics import Span, Statistics
from orchestrator.service.budget import Budget
from orchestrator.service.ports import Journal
from orchestrator.service.running import RunningExecution

LARGEST_OUTPUT_BYTES = 10 * 1024 * 1024  # the most that the settings let a stream have
LARGEST_NUMBER = 2**62  # of an offset or a sequence; a journal counts in 64 bits, and adds to what it is given


LOOKED_BACK = 50  # a proof has up to eleven runs


class Records:
    def __init__(self, journal: Journal, find_running: Callable[[str], RunningExecution | None]) -> None:
        self._journal = journal
        self._find_running = find_running
        # One at a time, and callers take turns: whoever asks much waits for itself.
        self._listing = Budget(1, 1)
        self._counting = Budget(1, 1)

    async def visible(self, caller: Caller, execution_id: str) -> ExecutionRecord:
        """Return an execution; one that the caller may not see is as if it were not there."""
        record = await self._journal.find(execution_id)
        if record is None or not caller.may_see(record.caller):
            raise NotFound(f"There is no execution {execution_id}.")
        return record

    async def newest(self, caller: Caller, wanted: Filter, limit: int) -> Sequence[ExecutionRecord]:
        """Return what fits and the caller may see, newest first, without tool calls."""
        if not caller.role.sees_all_executions:
            if wanted.caller not in (None, caller.key_name):
                return ()
            wanted = replace(wanted, caller=caller.key_name)
        async with self._listing.reserve(caller.key_name, 1):
            return await self._journal.newest(wanted, limit)

    async def newest_own(self, caller: Caller, *, of_skills: bool) -> ExecutionRecord | None:
        """Return what a caller ran last: nothing that was refused, no run of a proof, and skills only if wanted."""
        own = Filter(caller=caller.key_name, kind=Kind.PROGRAM)
        for record in await self.newest(caller, own, LOOKED_BACK):
            if record.state is State.REFUSED:  # there is nothing of it
                continue
            if record.skill is None or (of_skills and not record.skill.endswith("@")):
                return await self.visible(caller, record.id)  # lists leave out its files and calls
        return None

    async def program(self, record: ExecutionRecord) -> str:
        """Return the program of an execution that the caller may see."""
        code = await self._journal.program(record.id)
        if code is None:
            raise ProgramNotKept(f"The program of execution {record.id} is not kept.")
        return code

    async def statistics(self, caller: Caller, span: Span) -> Statistics:
        """Count what the caller may see."""
        if not caller.role.sees_all_executions:
            if span.caller not in (None, caller.key_name):
                raise NotForYourRole("Your key sees only its own executions.")
            span = replace(span, caller=caller.key_name)
        async with self._counting.reserve(caller.key_name, 1):
            return await self._journal.statistics(span)

    async def until_news(self, execution_id: str, offset: int, streams: Iterable[Stream], seconds: float) -> None:
        """Return when one of the streams has more than `offset` bytes, or it has ended, or the time is over."""
        if running := self._find_running(execution_id):
            await running.until(lambda: any(running.size(stream) > offset for stream in streams), seconds)

    async def output(self, record: ExecutionRecord, stream: Stream, start: int, length: int) -> Page:
        """Return a piece of what an execution printed, up to now if it still runs."""
        if running := self._find_running(record.id):
            output = running.output(stream)
            return Page(output[start : start + length], len(output))
        return await self._journal.output(record.id, stream, start, length) or Page(b"", 0)
