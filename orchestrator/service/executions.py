"""The use case: run a program once, in a fresh sandbox, and record what became of it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, Protocol, assert_never
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
    TooManyInBackground,
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
    Shares,
    State,
    Stream,
    Timings,
)
from orchestrator.domain.files import (
    Brought,
    FromExecution,
    FromUpload,
    FromWorkspace,
    Given,
    Source,
    WorkspaceUse,
    inputs_digest,
    require_workspace_name,
)
from orchestrator.domain.sandbox import Program
from orchestrator.service.admission import Admission
from orchestrator.service.ends import Ends
from orchestrator.service.files import Files
from orchestrator.service.grants import Grant
from orchestrator.service.handovers import Handover
from orchestrator.service.ledger import Notify
from orchestrator.service.ports import Journal, Sandbox
from orchestrator.service.provisions import Provisions, prepared_recipe
from orchestrator.service.readiness import Readiness
from orchestrator.service.running import RunningExecution
from orchestrator.service.scopes import Scope, SkillRun
from orchestrator.service.warm_pool import WarmPool
from orchestrator.service.workspaces import Workspaces

log = structlog.get_logger()

# The supervisor ends the program at its deadline; this much later the daemon does it, should the supervisor fail.
BACKUP_KILL_SECONDS = 2.0

# What a cancelled program's sandbox gets to tell how far it came and to hand over its files.
STOP_SECONDS = 10.0

MAX_TOLD_CALLS = 10
WHAT_A_KEY_NAMES = ("code_sha256", "language", "inputs_sha256")
# They run for minutes or hours.
BACKGROUND_RETRY_SECONDS = 60
IN_BACKGROUND = Shares(total=4, per_caller=2)  # executions, running or waiting

OnFinished = Callable[[ExecutionResult], None]
Tell = Callable[[ExecutionRecord], None]  # hears of every execution that begins, goes on or ends


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
    background: bool = False
    files: Mapping[str, Source] = field(default_factory=dict)  # what each file of /workspace/in comes from
    workspace: WorkspaceUse | None = None
    skill: SkillRun | None = None  # only the daemon itself asks for one


@dataclass(frozen=True, slots=True)
class ProgramRules:
    """What may be asked for here."""

    max_code_bytes: int
    max_timeout_seconds: float
    limits_for: Callable[[float | None], Limits]
    in_background: Shares = IN_BACKGROUND
    keeps_programs: bool = True

    def limits_of(self, request: ProgramRequest, caller: Caller) -> Limits:
        """Return the limits that hold for a request, or refuse it."""
        if not request.code.strip():
            raise InvalidRequest("`code` must not be empty.")
        try:
            size = len(request.code.encode())
        except UnicodeEncodeError as error:
            raise InvalidRequest("`code` must be Unicode text; it holds a lone surrogate.") from error
        if size > self.max_code_bytes and request.skill is None:  # the program that runs a skill is ours
            raise CodeTooLarge(f"`code` must have at most {self.max_code_bytes} bytes; it has {size}.")
        asked, of_role = request.timeout_seconds, caller.role.max_timeout_seconds
        if request.background:
            return self.limits_for(self._seconds_in_background(asked, caller))
        if request.skill is not None and request.skill.is_proof and asked is not None:
            asked = min(asked, self.max_timeout_seconds)
        if (asked or 0) > self.max_timeout_seconds:
            message = f"`timeoutSeconds` must be at most {self.max_timeout_seconds:g}"
            if (of_role or 0) > self.max_timeout_seconds:
                raise InvalidRequest(f"{message}, or {of_role:g} with `background` set to true.")
            raise InvalidRequest(f"{message}. A longer one needs `background` and a role that allows it.")
        limits = self.limits_for(asked)
        return limits if of_role is None else replace(limits, timeout_seconds=min(limits.timeout_seconds, of_role))

    def _seconds_in_background(self, asked: float | None, caller: Caller) -> float:
        """Return the time of an execution in the background: what was asked for, or all that the role allows."""
        role = caller.role
        longest = role.max_timeout_seconds or self.max_timeout_seconds
        if asked is None or asked <= longest:
            return asked or longest
        if role.max_timeout_seconds is None:
            raise InvalidRequest(
                f"`timeoutSeconds` must be at most {longest:g}: role {role.name} has no `limits.timeoutSeconds` in "
                "roles.json that allows more."
            )
        raise InvalidRequest(f"`timeoutSeconds` must be at most {longest:g}, the limit of role {role.name}.")


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


class OwnFiles(Protocol):
    """Knows what a caller's programs find besides what its role gives them: the skills that it has saved itself."""

    async def files_for(self, caller: Caller, program: str, language: Language) -> Mapping[str, str]: ...


class NoOwnFiles:
    async def files_for(self, caller: Caller, program: str, language: Language) -> Mapping[str, str]:
        return {}


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
        scope: Scope | None = None,
        deadline: float | None = None,
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
        files: Files,
        workspaces: Workspaces,
        instance: str = "",
        on_finished: OnFinished = lambda result: None,
        tell: Tell = lambda record: None,
    ) -> None:
        self._rules = rules
        self._admission = admission
        self._pool = pool
        self._provisions = provisions
        self._tool_calls = tool_calls
        self._journal = journal
        self._readiness = readiness
        self._files = files
        self._workspaces = workspaces
        self._instance = instance
        self._on_finished = on_finished
        self._tell = tell
        self.ends = Ends(journal)
        self.own_files: OwnFiles = NoOwnFiles()  # until the skills are there, which are run by this
        self._running: dict[str, RunningExecution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._renewals = 0
        self._accepting = True
        # Makes concurrent requests with one key meet one execution: the first starts it, the others find it.
        self._starting_with_key: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def start(self, caller: Caller, request: ProgramRequest, execution_id: str) -> RunningExecution:
        """Begin an execution, or find the one that an earlier request with the same idempotency key began."""
        limits = self._rules.limits_of(request, caller)
        if request.skill is not None and request.skill.max_output_bytes is not None:
            limits = replace(limits, max_output_bytes=request.skill.max_output_bytes)
        workspace = require_workspace_name(request.workspace.name) if request.workspace is not None else None
        asked = Execution(
            execution_id,
            caller,
            request.language,
            request.code,
            limits,
            time.time(),
            request.idempotency_key,
            request.check,
            background=request.background,
            inputs_sha256=inputs_digest(((name, _named(source)) for name, source in request.files.items()), workspace),
            input_files=tuple(sorted(request.files)),
            workspace=request.workspace,
            skill=request.skill.label if request.skill is not None else None,
        )
        self._files.hold(caller, execution_id, request.files)
        try:
            running = await self._started_once(asked, request)
        except BaseException:
            self._files.let_go(execution_id)
            raise
        if running.execution.id != execution_id:  # it began before, with inputs of its own
            self._files.let_go(execution_id)
        return running

    async def _started_once(self, asked: Execution, request: ProgramRequest) -> RunningExecution:
        key, files, skill = asked.idempotency_key, request.files, request.skill
        if key is None:
            return await self._begin(asked, await self._inputs(asked, files), skill)
        async with self._starting_with_key.setdefault((asked.caller.key_name, key), asyncio.Lock()):
            # What began before is found first: its inputs may be gone by now.
            begun = await self._begun_before(asked, key)
            return begun or await self._begin(asked, await self._inputs(asked, files), skill)

    async def _inputs(self, asked: Execution, files: Mapping[str, Source]) -> tuple[Brought, ...]:
        """Find what a program is given, and refuse what it could not keep."""
        if asked.workspace is not None:
            await self._workspaces.require_place_for(asked.caller, asked.workspace.name)
        return await self._files.find_inputs(asked.caller, asked.id, files, self._workspaces.file)

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
                self._tell(refused)
            raise

    def find_running(self, execution_id: str) -> RunningExecution | None:
        return self._running.get(execution_id)

    @property
    def contents_in_use(self) -> frozenset[str]:
        """Return the hashes of what executions were given or left, as long as nothing else may name it."""
        return self.ends.contents.union(*(running.handover.contents for running in self._running.values()))

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

    async def _begin(
        self, execution: Execution, inputs: tuple[Brought, ...], skill: SkillRun | None
    ) -> RunningExecution:
        if not self._accepting:
            raise ShuttingDown("The daemon is stopping.", retry_after_seconds=10)
        self._readiness.require()
        if execution.background:
            self._require_place_in_background(execution.caller)
        use = execution.workspace
        turn = self._workspaces.queue(execution.caller, use, execution.id) if use is not None else None
        try:
            # Whoever waits for a workspace takes no place among the running meanwhile.
            ticket = self._admission.request(execution.caller.key_name) if turn is None or turn.has_come else None
        except BaseException:
            if turn is not None:
                turn.leave()
            raise
        state = State.QUEUED if ticket is None or ticket.position else State.RUNNING
        handover = Handover(self._files, self._workspaces, execution, inputs, turn)
        running = RunningExecution(execution, execution.record(state, self._instance), handover, ticket, turn, skill)
        self._running[execution.id] = running
        opening = self._own(self._open(running))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Whoever asked has gone; what is recorded as begun gets its end recorded, too.
            running.cancel(CancelledBy.DISCONNECT)
            raise
        return running

    def _require_place_in_background(self, caller: Caller) -> None:
        """Keep places for the others: an execution in the background may hold its own for hours."""
        callers = [each.execution.caller.key_name for each in self._running.values() if each.execution.background]
        own, most = callers.count(caller.key_name), self._rules.in_background
        if own >= most.per_caller:
            message = f"{own} of your executions are in the background; at most {most.per_caller} may be."
        elif len(callers) >= most.total:
            message = f"{len(callers)} executions are in the background; at most {most.total} may be."
        else:
            return
        raise TooManyInBackground(message, retry_after_seconds=BACKGROUND_RETRY_SECONDS)

    async def _open(self, running: RunningExecution) -> None:
        """Write it to the journal before anything runs: nothing is run unrecorded."""
        program = running.execution.code if self._rules.keeps_programs else None
        try:
            await self._journal.open(running.record, running.execution.idempotency_key, program)
        except BaseException as error:
            del self._running[running.execution.id]
            if running.ticket is not None:
                self._admission.leave(running.ticket)
            if running.turn is not None:
                running.turn.leave()
            if isinstance(error, JournalUnavailable):
                self._readiness.note(error)
            raise
        self._tell(running.record)
        self._own(self._conduct(running))

    async def _begun_before(self, asked: Execution, key: str) -> RunningExecution | None:
        """Find what the key names; None if there is nothing, or nothing that would keep it from running now."""
        record = await self._journal.find_by_key(asked.caller.key_name, key)
        if record is None:
            return None
        fresh = asked.record(State.QUEUED)
        if any(getattr(record, name) != getattr(fresh, name) for name in WHAT_A_KEY_NAMES):
            raise IdempotencyMismatch("The Idempotency-Key was used for another program, or with other files.")
        running = self._running.get(record.id)
        if running is not None and not running.abandoned:
            running.in_background |= asked.background  # whoever asks now does not wait for it, as somebody else may
            return running
        if running is not None:
            result = await running.result()
        else:
            result = self.ends.not_yet_recorded(record.id) or await self._recorded(record, asked.limits)
        if not result.record.cut_off:
            return RunningExecution.ended(replace(asked, id=record.id), result)
        done = _calls_in_words(result.record)
        if asked.workspace is not None and await self._workspaces.has_version(
            asked.caller, asked.workspace.name, record.id
        ):
            done.append(f"to change the workspace {asked.workspace.name}")
        if not done:
            return None  # all that a program does to the world, it does through tools and its workspace
        raise AlreadyInterrupted(_interruption(result.record, done), execution_id=record.id)

    async def _recorded(self, record: ExecutionRecord, limits: Limits) -> ExecutionResult:
        limits = record.limits or limits
        pages = [await self._journal.output(record.id, stream, 0, limits.max_output_bytes) for stream in Stream]
        stdout, stderr = (page.data if page is not None else b"" for page in pages)
        return ExecutionResult(replace(record, limits=limits), stdout, stderr)

    async def _conduct(self, running: RunningExecution) -> None:
        """Run the program unless it is cancelled first; record the result, then give it out."""
        stopwatch = Stopwatch()
        program = asyncio.create_task(self._run(running, stopwatch))
        cancelled = asyncio.create_task(running.cancelled.wait())
        try:
            await asyncio.wait((program, cancelled), return_when=asyncio.FIRST_COMPLETED)
            if running.stop is not None and not program.done():
                running.stop()
                await asyncio.wait((program,), timeout=STOP_SECONDS)
        finally:
            cancelled.cancel()
            program.cancel()  # without effect when it is done
        await asyncio.wait((program,))
        ending = Ending(Outcome.CANCELLED) if program.cancelled() else _ending(program, running)
        if ending.outcome is Outcome.CANCELLED:
            ending = replace(ending, exit_code=None, signal=None)  # of a kill by us, which says nothing
        stdout, stderr = running.output(Stream.STDOUT), running.output(Stream.STDERR)
        record = replace(
            running.record.ended(ending, time.time()),
            timings=stopwatch.timings(),
            stdout_bytes=len(stdout),
            stderr_bytes=len(stderr),
            tool_calls=running.tool_calls,
            cancelled_by=running.cancelled_by if ending.outcome is Outcome.CANCELLED else None,
            warm=running.warm,
            image_count=len(running.images),
            files=running.handover.kept.files,
            left_out=running.handover.kept.left_out,
            left_out_count=running.handover.kept.left_out_count,
            workspace=running.handover.workspace,
        )
        result = ExecutionResult(record, stdout, stderr, running.images)
        await self.ends.record(result, running.execution.idempotency_key)
        running.handover.end()
        del self._running[record.id]
        running.publish(result)
        self._on_finished(result)
        self._tell(record)

    async def _run(self, running: RunningExecution, stopwatch: Stopwatch) -> Ending:
        execution = running.execution
        async with running.turn or nullcontext():
            if running.ticket is None:
                running.ticket = self._admission.request(execution.caller.key_name, was_accepted=True)
            async with running.ticket:
                stopwatch.lap()
                if running.state is State.QUEUED:
                    await self._journal.mark_running(execution.id)
                    running.record = replace(running.record, state=State.RUNNING)
                    self._tell(running.record)
                try:
                    ending = await self._run_in_a_sandbox(running, stopwatch)
                except BaseException:
                    await _settle(running.handover, None)  # what came out whole is kept all the same
                    raise
                await _settle(running.handover, ending.outcome)
                return ending

    async def _run_in_a_sandbox(self, running: RunningExecution, stopwatch: Stopwatch) -> Ending:
        execution = running.execution
        skill = running.skill
        if skill is not None and skill.prepared is not None:
            recipe, files = prepared_recipe(execution.language, skill.prepared), skill.prepared
        elif skill is not None:
            recipe, files = await self._provisions.bare(execution.language)
        else:
            recipe, files = await self._provisions.for_role(execution.caller.role, execution.language)
        if skill is not None:
            own = skill.brought
        else:
            own = await self.own_files.files_for(execution.caller, execution.code, execution.language)
        async with self._pool.lease(recipe, files, execution.id, execution.limits.timeout_seconds) as lease:
            await bring_texts(lease.sandbox, own)
            await running.handover.bring(lease.sandbox)
            stopwatch.lap()
            running.warm = lease.warm
            program = Program(
                execution.code, execution.limits, check=execution.check, hands_over=running.handover.places
            )
            grant = self._tool_calls.open(
                execution.caller,
                execution.id,
                running.note_call,
                lease.sandbox.id,
                at_most_once=execution.idempotency_key is not None,
                passed=program.may_call_at_once,
                scope=skill.scope if skill is not None else None,
                deadline=time.monotonic() + execution.limits.timeout_seconds,
            )
            running.calls_so_far = grant.calls
            program = replace(program, environment=grant.environment)
            began = time.monotonic()

            def end_calls() -> None:
                stopwatch.lap()
                running.images = grant.images()
                running.tool_calls = grant.calls()  # before the revocation: what was in flight is told as such
                grant.revoke()

            # Once, when the ending is known: what it left may take long to come out, and no call goes on meanwhile.
            calls = ExitStack()
            calls.callback(end_calls)

            async def run_program() -> Ending:
                running.stop = lease.sandbox.stop  # from the moment that there is something to stop
                return await lease.sandbox.run(
                    program, running.receive, grant.passed.set, running.handover.sink, calls.close
                )

            run = asyncio.create_task(run_program())
            try:
                await asyncio.wait((run,), timeout=execution.limits.timeout_seconds + BACKUP_KILL_SECONDS)
                if run.done() or lease.sandbox.handing_over:
                    return await run
                log.warning("execution.overdue", execution_id=execution.id)
            finally:
                running.stop = None
                run.cancel()  # without effect when it is done
                calls.close()
                await asyncio.wait((run,))
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


async def bring_texts(sandbox: Sandbox, files: Mapping[str, str]) -> None:
    """Write files into a sandbox before its program runs."""

    async def pieces(text: str) -> AsyncIterator[bytes]:
        yield text.encode("utf-8", "surrogatepass")

    for path, text in files.items():
        await sandbox.bring(path, pieces(text))


async def _settle(handover: Handover, outcome: Outcome | None) -> None:
    """Decide what is kept. A cancellation comes too late: the program has ended, and a version may be on its way."""
    settling = asyncio.create_task(handover.settle(outcome))
    while not settling.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait((settling,))
    settling.result()


def _named(source: Source) -> str:
    """Name an input by its content if that came with the request, otherwise by its place.

    The same request then names the same thing, also when a program changes the workspace that it takes a file from.
    """
    match source:
        case Given(content):
            return sha256(content).hexdigest()
        case FromUpload(digest):
            return digest
        case FromExecution(execution_id, name):
            return f"execution/{execution_id}/{name}"
        case FromWorkspace(workspace, name, version):
            return f"workspace/{workspace}{f'@{version}' if version is not None else ''}/{name}"
        case _:
            assert_never(source)


def _calls_in_words(record: ExecutionRecord) -> list[str]:
    """Say in one phrase which tools an execution has called; in none if it has called no tool."""
    if not record.tool_calls:
        return []
    calls = [f"{call.server}/{call.tool} {call.outcome}" for call in record.tool_calls[:MAX_TOLD_CALLS]]
    if more := len(record.tool_calls) - len(calls):
        calls.append(f"and {more} more")
    return [f"to call tools ({', '.join(calls)})"]


def _interruption(record: ExecutionRecord, done: Sequence[str]) -> str:
    """Say how far an execution came, so that its caller can decide."""
    why = "its client went away" if record.cancelled_by is CancelledBy.DISCONNECT else "the daemon stopped"
    return (
        f"Execution {record.id} of this Idempotency-Key was cut off when {why}, after it had begun "
        f"{' and '.join(done)}. It is not run again, because that could do the same twice."
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
