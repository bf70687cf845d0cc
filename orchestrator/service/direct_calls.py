"""A tool call that no program makes: it takes the same way as a program's and is recorded like an execution."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.execution import (
    Ending,
    ExecutionRecord,
    ExecutionResult,
    Kind,
    Outcome,
    State,
    Timings,
)
from orchestrator.domain.upstream import CallResult, is_failure
from orchestrator.service.ends import Ends
from orchestrator.service.ports import Journal
from orchestrator.service.tool_calls import ToolCalls


class DirectCalls:
    def __init__(
        self,
        tool_calls: ToolCalls,
        journal: Journal,
        ends: Ends,
        instance: str,
        tell: Callable[[ExecutionRecord], None] = lambda record: None,
    ) -> None:
        self._tool_calls = tool_calls
        self._journal = journal
        self._ends = ends
        self._instance = instance
        self._tell = tell

    async def call(
        self, caller: Caller, execution_id: str, server: str, tool: str, arguments: Mapping[str, Any]
    ) -> CallResult:
        """Call a tool in the caller's name. Its record begins before the call and tells how it ended."""
        began = time.monotonic()
        record = ExecutionRecord(
            id=execution_id,
            caller=caller.key_name,
            role=caller.role.name,
            state=State.RUNNING,
            accepted_at=time.time(),
            kind=Kind.CALL,
            instance=self._instance,
        )
        await self._journal.open(record)
        self._tell(record)
        grant = self._tool_calls.open(caller, record.id, lambda call: None)
        ending = Ending(Outcome.CANCELLED)
        try:
            size = len(json.dumps(arguments))
            with self._tool_calls.room(grant) as room:
                answer = await grant.within(self._tool_calls.call(grant, server, tool, arguments, size, room))
            ending = Ending(Outcome.FAILED if is_failure(answer.result) else Outcome.COMPLETED)
        except OrchestratorError as error:
            ending = Ending(Outcome.FAILED, error_code=error.code, detail=error.summary)
            raise
        except Exception:
            ending = Ending(Outcome.SANDBOX_ERROR, error_code=OrchestratorError.code, detail="The daemon failed.")
            raise
        finally:
            calls = grant.calls()  # before the revocation: what was in flight is told as such
            grant.revoke()
            timings = Timings(run_seconds=time.monotonic() - began)
            ended = replace(record.ended(ending, time.time()), timings=timings, tool_calls=calls)
            # The call has happened: a journal that fails now must not make its caller repeat it.
            try:
                await asyncio.shield(self._ends.record(ExecutionResult(ended)))
            finally:
                self._tell(ended)
        return answer.result
