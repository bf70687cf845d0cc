"""The use case: run a program once, in a fresh sandbox, and record what became of it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import structlog

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import (
    AlreadyFinished,
    IdempotencyMismatch,
    JournalUnavailable,
    NotFound,
    OrchestratorError,
    ShuttingDown,
)
from orchestrator.domain.execution import (
    Ending,
    Execution,
    ExecutionRecord,
    ExecutionResult,
    Language,
    Limits,
    Outcome,
    Refusal,
    State,
    Stream,
    Timings,
    Usage,
)
from orchestrator.domain.sandbox import Program
from orchestrator.service.admission import Admission, Ticket
from orchestrator.service.ports import Gateway, Journal, Workspaces
from orchestrator.service.readiness import Readiness
from orchestrator.service.running import RunningExecution
from orchestrator.service.sandboxes import Lease
from orchestrator.service.warm_pool import WarmPool

log = structlog.get_logger()

# The supervisor ends the program at its deadline; this much later the daemon does it, should the supervisor fail.
BACKUP_KILL_SECONDS = 2.0

OnFinished = Callable[[Execution, ExecutionResult], None]


def new_execution_id() -> str:
    return uuid.uuid4().hex


class Stopwatch:
    """Splits an execution's time into waiting, starting and running."""

    def __init__(self) -> None:
        self._marks = [time.monotonic()]

    def lap(self) -> None:
        self._marks.append(time.monotonic())

    def timings(self) -> Timings:
        marks = [*self._marks, time.monotonic()]
        laps = [later - earlier for earlier, later in pairwise(marks)]
        return Timings(*laps[:3])


class Executor:
    def __init__(
        self,
        admission: Admission,
        pool: WarmPool,
        workspaces: Workspaces,
        gateway: Gateway,
        journal: Journal,
        readiness: Readiness,
        on_finished: OnFinished = lambda execution, result: None,
    ) -> None:
        self._admission = admission
        self._pool = pool
        self._workspaces = workspaces
        self._gateway = gateway
        self._journal = journal
        self._readiness = readiness
        self._on_finished = on_finished
        self._running: dict[str, RunningExecution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unrecorded: list[ExecutionResult] = []
        self._accepting = True
        self._starting_with_key = asyncio.Lock()

    async def start(
        self,
        caller: Caller,
        language: Language,
        code: str,
        limits: Limits,
        execution_id: str,
        idempotency_key: str | None = None,
    ) -> RunningExecution:
        limits = _within_role(limits, caller.role)
        execution = Execution(execution_id, caller, language, code, limits, time.time(), idempotency_key)
        if idempotency_key is None:
            return await self._start(execution)
        # The lock makes concurrent requests with one key meet one execution: the first starts it, the others find it.
        async with self._starting_with_key:
            return await self._repeated(execution) or await self._start(execution)

    async def _start(self, execution: Execution) -> RunningExecution:
        if not self._accepting:
            raise ShuttingDown("The daemon is stopping.", retry_after_seconds=10)
        self._readiness.require()
        ticket = self._admission.request(execution.caller.key_name)
        running = RunningExecution(execution)
        running.state = State.QUEUED if ticket.position else State.RUNNING
        running.ticket = ticket
        self._running[execution.id] = running
        opening = asyncio.create_task(self._open(running, ticket))
        self._own(opening)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            running.cancel()  # whoever asked has gone; what is recorded as begun gets its end recorded, too
            raise
        return running

    async def _open(self, running: RunningExecution, ticket: Ticket) -> None:
        try:
            await self._journal.open(running.execution, running.state)
        except BaseException:
            del self._running[running.execution.id]
            self._admission.leave(ticket)
            raise
        self._own(asyncio.create_task(self._conduct(running, ticket)))

    async def _repeated(self, execution: Execution) -> RunningExecution | None:
        assert execution.idempotency_key is not None  # noqa: S101  (narrows the type)
        record = await self._journal.find_by_key(execution.caller.key_name, execution.idempotency_key)
        if record is None:
            return None
        if (record.code_sha256, record.language) != (execution.code_sha256, execution.language):
            raise IdempotencyMismatch("The Idempotency-Key was used for another program.")
        return self._running.get(record.id) or await self._from_the_journal(record, execution)

    async def _from_the_journal(self, record: ExecutionRecord, asked: Execution) -> RunningExecution:
        recorded = RunningExecution(replace(asked, id=record.id))
        for stream in Stream:
            page = await self._journal.output(record.id, stream, 0, asked.limits.max_output_bytes)
            if page is not None and page.data:
                recorded.receive(stream, page.data)
        recorded.publish(_recorded_result(record, recorded))
        return recorded

    async def refuse(self, caller: Caller, execution_id: str, error: OrchestratorError) -> None:
        refusal = Refusal(execution_id, caller, error.code, error.summary, time.time())
        with suppress(JournalUnavailable):  # the refusal itself stands, recorded or not
            await self._journal.refuse(refusal)

    def find_running(self, execution_id: str) -> RunningExecution | None:
        return self._running.get(execution_id)

    async def cancel(self, caller: Caller, execution_id: str) -> ExecutionResult:
        running = self._running.get(execution_id)
        if running is None or not caller.may_see(running.execution.caller.key_name):
            await self._explain_missing(caller, execution_id)
            raise NotFound(f"No execution {execution_id}.")
        running.cancel()
        return await running.result()

    async def drain(self, grace_seconds: float) -> None:
        """Stop accepting, let what runs finish within the grace, cancel the rest."""
        self._accepting = False
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._until_idle()
        for running in list(self._running.values()):
            running.cancel()
        await self._until_idle()
        await self.record_what_is_missing()

    async def _until_idle(self) -> None:
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def record_what_is_missing(self) -> None:
        """What the journal could not take when it ended. Nothing new is begun meanwhile, so it is not much."""
        with suppress(JournalUnavailable):
            while self._unrecorded:
                await self._journal.finish(self._unrecorded[0])
                log.info("execution.recorded_late", execution_id=self._unrecorded.pop(0).execution_id)

    async def _explain_missing(self, caller: Caller, execution_id: str) -> None:
        record = await self._journal.find(execution_id)
        if record is not None and caller.may_see(record.caller):
            raise AlreadyFinished(f"Execution {execution_id} is {record.state}.")

    async def _conduct(self, running: RunningExecution, ticket: Ticket) -> None:
        execution, stopwatch = running.execution, Stopwatch()
        ending = await self._run_unless_cancelled(running, ticket, stopwatch)
        result = ExecutionResult(
            execution_id=execution.id,
            ending=ending,
            stdout=running.output(Stream.STDOUT),
            stderr=running.output(Stream.STDERR),
            limits=execution.limits,
            timings=stopwatch.timings(),
            finished_at=time.time(),
            tool_calls=running.tool_calls,
            warm=running.warm,
            images=running.images,
        )
        await self._record(result)
        del self._running[execution.id]
        running.publish(result)
        self._on_finished(execution, result)

    async def _run_unless_cancelled(self, running: RunningExecution, ticket: Ticket, stopwatch: Stopwatch) -> Ending:
        program = asyncio.create_task(self._run(running, ticket, stopwatch))
        cancelled = asyncio.create_task(running.cancelled.wait())
        try:
            await asyncio.wait((program, cancelled), return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancelled.cancel()
            program.cancel()  # without effect when it is done
        await asyncio.wait((program,))
        return Ending(Outcome.CANCELLED) if program.cancelled() else _ending(program, running)

    async def _run(self, running: RunningExecution, ticket: Ticket, stopwatch: Stopwatch) -> Ending:
        execution = running.execution
        async with ticket:
            stopwatch.lap()
            if running.state is State.QUEUED:
                await self._journal.mark_running(execution.id)
                running.state = State.RUNNING
            recipe, files = self._workspaces.for_role(execution.caller.role, execution.language)
            async with self._pool.lease(recipe, files, execution.id) as lease:
                stopwatch.lap()
                running.warm = lease.warm
                try:
                    return await self._run_granted(running, lease)
                finally:
                    stopwatch.lap()

    async def _run_granted(self, running: RunningExecution, lease: Lease) -> Ending:
        execution = running.execution
        grant = self._gateway.open(execution.caller, execution.id, lease.slot.id, running.note_call)
        program = Program(execution.code, execution.limits, grant.environment)
        try:
            async with asyncio.timeout(execution.limits.timeout_seconds + BACKUP_KILL_SECONDS):
                return await lease.sandbox.run(program, running.receive)
        except TimeoutError:
            return Ending(Outcome.TIMED_OUT)
        finally:
            running.images = grant.images()
            running.tool_calls = grant.calls()  # before the revocation: what was in flight is told as such
            grant.revoke()

    async def _record(self, result: ExecutionResult) -> None:
        """Whatever happens to the record, the result goes to whoever waits for it."""
        try:
            await self._journal.finish(result)
        except JournalUnavailable as error:
            log.error("execution.not_recorded", execution_id=result.execution_id, error=error.message)
            self._unrecorded.append(result)
        except Exception:
            log.exception("execution.not_recorded", execution_id=result.execution_id)

    def _own(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _within_role(limits: Limits, role: Role) -> Limits:
    if role.max_timeout_seconds is None:
        return limits
    return replace(limits, timeout_seconds=min(limits.timeout_seconds, role.max_timeout_seconds))


def _recorded_result(record: ExecutionRecord, recorded: RunningExecution) -> ExecutionResult:
    return ExecutionResult(
        execution_id=record.id,
        ending=Ending(
            record.outcome or Outcome.SANDBOX_ERROR,
            exit_code=record.exit_code,
            signal=record.signal,
            usage=record.usage or Usage(),
            error_code=record.error_code,
            detail=record.detail,
        ),
        stdout=recorded.output(Stream.STDOUT),
        stderr=recorded.output(Stream.STDERR),
        limits=record.limits or recorded.execution.limits,
        timings=record.timings or Timings(),
        finished_at=record.finished_at or record.accepted_at,
        tool_calls=record.tool_calls,
    )


def _ending(program: asyncio.Task[Ending], running: RunningExecution) -> Ending:
    error = program.exception()
    if error is None:
        return program.result()
    if isinstance(error, OrchestratorError):
        return Ending(Outcome.SANDBOX_ERROR, error_code=error.code, detail=error.summary)
    log.error("execution.crashed", execution_id=running.execution.id, exc_info=error)
    return Ending(Outcome.SANDBOX_ERROR, error_code=OrchestratorError.code, detail="The daemon failed.")
