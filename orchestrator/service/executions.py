"""The use case: run a program once, in a fresh sandbox, and record what became of it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol
from weakref import WeakValueDictionary

import structlog

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import (
    AlreadyFinished,
    AlreadyInterrupted,
    CodeTooLarge,
    IdempotencyMismatch,
    InvalidRequest,
    JournalUnavailable,
    NotFound,
    OrchestratorError,
    ShuttingDown,
)
from orchestrator.domain.execution import (
    CancelledBy,
    Check,
    Ending,
    Execution,
    ExecutionRecord,
    ExecutionResult,
    Language,
    Limits,
    Outcome,
    State,
    Stream,
    Timings,
)
from orchestrator.domain.sandbox import Program
from orchestrator.service.admission import Admission, Ticket
from orchestrator.service.ends import Ends
from orchestrator.service.grants import Grant
from orchestrator.service.ledger import Notify
from orchestrator.service.ports import Journal
from orchestrator.service.provisions import Provisions
from orchestrator.service.readiness import Readiness
from orchestrator.service.running import RunningExecution
from orchestrator.service.warm_pool import WarmPool

log = structlog.get_logger()

# The supervisor ends the program at its deadline; this much later the daemon does it, should the supervisor fail.
BACKUP_KILL_SECONDS = 2.0

MAX_TOLD_CALLS = 10

OnFinished = Callable[[ExecutionResult], None]


def new_execution_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """What a caller asks for, in any face."""

    language: Language
    code: str
    timeout_seconds: float | None = None
    idempotency_key: str | None = None
    check: Check = Check.STRICT


@dataclass(frozen=True, slots=True)
class ProgramRules:
    """What may be asked for here."""

    max_code_bytes: int
    max_timeout_seconds: float
    limits_for: Callable[[float | None], Limits]

    def limits_of(self, request: ProgramRequest, caller: Caller) -> Limits:
        """Return the limits that hold for a request, or refuse it."""
        if not request.code.strip():
            raise InvalidRequest("`code` must not be empty.")
        try:
            size = len(request.code.encode())
        except UnicodeEncodeError as error:
            raise InvalidRequest("`code` must be Unicode text; it holds a lone surrogate.") from error
        if size > self.max_code_bytes:
            raise CodeTooLarge(f"`code` must have at most {self.max_code_bytes} bytes; it has {size}.")
        if (request.timeout_seconds or 0) > self.max_timeout_seconds:
            raise InvalidRequest(f"`timeoutSeconds` must be at most {self.max_timeout_seconds:g}.")
        limits = self.limits_for(request.timeout_seconds)
        of_role = caller.role.max_timeout_seconds
        return limits if of_role is None else replace(limits, timeout_seconds=min(limits.timeout_seconds, of_role))


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


class ToolAccess(Protocol):
    """Lets a running program call tools."""

    def open(
        self,
        caller: Caller,
        execution_id: str,
        notify: Notify,
        sandbox_id: str | None = None,
        *,
        at_most_once: bool = False,
        passed: bool = True,
    ) -> Grant: ...


class Executions:
    def __init__(
        self,
        rules: ProgramRules,
        admission: Admission,
        pool: WarmPool,
        provisions: Provisions,
        tool_calls: ToolAccess,
        journal: Journal,
        readiness: Readiness,
        instance: str = "",
        on_finished: OnFinished = lambda result: None,
    ) -> None:
        self._rules = rules
        self._admission = admission
        self._pool = pool
        self._provisions = provisions
        self._tool_calls = tool_calls
        self._journal = journal
        self._readiness = readiness
        self._instance = instance
        self._on_finished = on_finished
        self.ends = Ends(journal)
        self._running: dict[str, RunningExecution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._renewals = 0
        self._accepting = True
        # Makes concurrent requests with one key meet one execution: the first starts it, the others find it.
        self._starting_with_key: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def start(self, caller: Caller, request: ProgramRequest, execution_id: str) -> RunningExecution:
        """Begin an execution, or find the one that an earlier request with the same idempotency key began."""
        limits = self._rules.limits_of(request, caller)
        execution = Execution(
            execution_id,
            caller,
            request.language,
            request.code,
            limits,
            time.time(),
            request.idempotency_key,
            request.check,
        )
        if request.idempotency_key is None:
            return await self._begin(execution)
        name = (caller.key_name, request.idempotency_key)
        async with self._starting_with_key.setdefault(name, asyncio.Lock()):
            return await self._begun_before(execution, request.idempotency_key) or await self._begin(execution)

    @asynccontextmanager
    async def recording_refusal(self, caller: Caller, execution_id: str) -> AsyncIterator[None]:
        """Record that a request was turned away, if what is done inside turns it away."""
        try:
            yield
        except OrchestratorError as error:
            now = time.time()
            refused = ExecutionRecord(
                id=execution_id,
                caller=caller.key_name,
                role=caller.role.name,
                state=State.REFUSED,
                accepted_at=now,
                finished_at=now,
                instance=self._instance,
                error_code=error.code,
                detail=error.summary,
            )
            with suppress(JournalUnavailable):  # the refusal itself stands, recorded or not
                await self._journal.open(refused)
            raise

    def find_running(self, execution_id: str) -> RunningExecution | None:
        return self._running.get(execution_id)

    async def cancel(self, caller: Caller, execution_id: str) -> ExecutionResult:
        """End an execution and return what became of it until then."""
        running = self._running.get(execution_id)
        if running is None or not caller.may_see(running.execution.caller.key_name):
            record = await self._journal.find(execution_id)
            if record is not None and caller.may_see(record.caller):
                raise AlreadyFinished(f"Execution {execution_id} is {record.state}.")
            raise NotFound(f"There is no execution {execution_id}.")
        running.cancel()
        return await running.result()

    async def drain(self, grace_seconds: float) -> None:
        """Stop accepting, let what runs finish within the grace, cancel the rest."""
        self._accepting = False
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._until_idle()
        for running in list(self._running.values()):
            running.cancel(CancelledBy.SHUTDOWN)
        await self._until_idle()
        await self.record_what_is_missing()

    async def record_what_is_missing(self) -> None:
        """Record what the journal lacks: what is under way, if it is a new one, and what it could not take before."""
        renewals = self._journal.renewals
        if renewals != self._renewals:
            unfinished = [running.unfinished for running in self._running.values()]
            with suppress(JournalUnavailable):
                await self._journal.take_over(self._instance, unfinished)
                self._renewals = renewals
        await self.ends.record_what_is_missing()

    async def _begin(self, execution: Execution) -> RunningExecution:
        if not self._accepting:
            raise ShuttingDown("The daemon is stopping.", retry_after_seconds=10)
        self._readiness.require()
        ticket = self._admission.request(execution.caller.key_name)
        state = State.QUEUED if ticket.position else State.RUNNING
        running = RunningExecution(execution, execution.record(state, self._instance), ticket)
        self._running[execution.id] = running
        opening = self._own(self._open(running, ticket))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Whoever asked has gone; what is recorded as begun gets its end recorded, too.
            running.cancel(CancelledBy.DISCONNECT)
            raise
        return running

    async def _open(self, running: RunningExecution, ticket: Ticket) -> None:
        """Write it to the journal before anything runs: nothing is run unrecorded."""
        try:
            await self._journal.open(running.record, running.execution.idempotency_key)
        except BaseException as error:
            del self._running[running.execution.id]
            self._admission.leave(ticket)
            if isinstance(error, JournalUnavailable):
                self._readiness.note(error)
            raise
        self._own(self._conduct(running, ticket))

    async def _begun_before(self, asked: Execution, key: str) -> RunningExecution | None:
        """Find what the key names; None if there is nothing, or nothing that would keep it from running now."""
        record = await self._journal.find_by_key(asked.caller.key_name, key)
        if record is None:
            return None
        fresh = asked.record(State.QUEUED)
        if (record.code_sha256, record.language) != (fresh.code_sha256, fresh.language):
            raise IdempotencyMismatch("The Idempotency-Key was used for another program.")
        running = self._running.get(record.id)
        if running is not None and not running.abandoned:
            return running
        if running is not None:
            result = await running.result()
        else:
            result = self.ends.not_yet_recorded(record.id) or await self._recorded(record, asked.limits)
        if result.record.cut_off and not result.record.tool_calls:
            return None  # all that a program does to the world, it does through tools
        if result.record.cut_off:
            raise AlreadyInterrupted(_interruption(result.record), execution_id=record.id)
        return RunningExecution.ended(replace(asked, id=record.id), result)

    async def _recorded(self, record: ExecutionRecord, limits: Limits) -> ExecutionResult:
        limits = record.limits or limits
        pages = [await self._journal.output(record.id, stream, 0, limits.max_output_bytes) for stream in Stream]
        stdout, stderr = (page.data if page is not None else b"" for page in pages)
        return ExecutionResult(replace(record, limits=limits), stdout, stderr)

    async def _conduct(self, running: RunningExecution, ticket: Ticket) -> None:
        """Run the program unless it is cancelled first; record the result, then give it out."""
        stopwatch = Stopwatch()
        program = asyncio.create_task(self._run(running, ticket, stopwatch))
        cancelled = asyncio.create_task(running.cancelled.wait())
        try:
            await asyncio.wait((program, cancelled), return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancelled.cancel()
            program.cancel()  # without effect when it is done
        await asyncio.wait((program,))
        ending = Ending(Outcome.CANCELLED) if program.cancelled() else _ending(program, running)
        stdout, stderr = running.output(Stream.STDOUT), running.output(Stream.STDERR)
        record = replace(
            running.record.ended(ending, time.time()),
            timings=stopwatch.timings(),
            stdout_bytes=len(stdout),
            stderr_bytes=len(stderr),
            tool_calls=running.tool_calls,
            cancelled_by=running.cancelled_by if ending.outcome is Outcome.CANCELLED else None,
            warm=running.warm,
        )
        result = ExecutionResult(record, stdout, stderr, running.images)
        await self.ends.record(result, running.execution.idempotency_key)
        del self._running[record.id]
        running.publish(result)
        self._on_finished(result)

    async def _run(self, running: RunningExecution, ticket: Ticket, stopwatch: Stopwatch) -> Ending:
        execution = running.execution
        async with ticket:
            stopwatch.lap()
            if running.state is State.QUEUED:
                await self._journal.mark_running(execution.id)
                running.record = replace(running.record, state=State.RUNNING)
            recipe, files = await self._provisions.for_role(execution.caller.role, execution.language)
            async with self._pool.lease(recipe, files, execution.id) as lease:
                stopwatch.lap()
                running.warm = lease.warm
                program = Program(execution.code, execution.limits, check=execution.check)
                grant = self._tool_calls.open(
                    execution.caller,
                    execution.id,
                    running.note_call,
                    lease.sandbox.id,
                    at_most_once=execution.idempotency_key is not None,
                    passed=program.may_call_at_once,
                )
                running.calls_so_far = grant.calls
                program = replace(program, environment=grant.environment)
                began = time.monotonic()
                try:
                    async with asyncio.timeout(execution.limits.timeout_seconds + BACKUP_KILL_SECONDS):
                        return await lease.sandbox.run(program, running.receive, grant.passed.set)
                except TimeoutError:
                    log.warning("execution.overdue", execution_id=execution.id)
                finally:
                    stopwatch.lap()
                    running.images = grant.images()
                    running.tool_calls = grant.calls()  # before the revocation: what was in flight is told as such
                    grant.revoke()
            return await self._ending_without_a_report(began)

    async def _ending_without_a_report(self, began: float) -> Ending:
        """Tell a supervisor that failed from an engine that did not carry its report, or never the program to it."""
        fault = await self._readiness.engine_fault_since(began)
        if fault is None:
            return Ending(Outcome.TIMED_OUT)
        detail = f"The engine did not answer while the program should have run; its end is not known. {fault.summary}"
        return Ending(Outcome.SANDBOX_ERROR, error_code=fault.code, detail=detail)

    async def _until_idle(self) -> None:
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _interruption(record: ExecutionRecord) -> str:
    """Say how far an execution came, so that its caller can decide."""
    why = "its client went away" if record.cancelled_by is CancelledBy.DISCONNECT else "the daemon stopped"
    calls = [f"{call.server}/{call.tool} {call.outcome}" for call in record.tool_calls[:MAX_TOLD_CALLS]]
    if more := len(record.tool_calls) - len(calls):
        calls.append(f"and {more} more")
    return (
        f"Execution {record.id} of this Idempotency-Key was cut off when {why}, after it had begun to call tools "
        f"({', '.join(calls)}). It is not run again, because that could do the same twice."
    )


def _ending(program: asyncio.Task[Ending], running: RunningExecution) -> Ending:
    """Tell our faults apart from the program's: whatever was raised is ours."""
    error = program.exception()
    if error is None:
        return program.result()
    if isinstance(error, OrchestratorError):
        return Ending(Outcome.SANDBOX_ERROR, error_code=error.code, detail=error.summary)
    log.error("execution.crashed", execution_id=running.execution.id, exc_info=error)
    return Ending(Outcome.SANDBOX_ERROR, error_code=OrchestratorError.code, detail="The daemon failed.")
