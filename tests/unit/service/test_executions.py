import asyncio
from copy import deepcopy
from dataclasses import replace

import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import (
    AlreadyFinished,
    AlreadyInterrupted,
    EngineUnavailable,
    IdempotencyMismatch,
    InvalidRequest,
    JournalUnavailable,
    NotFound,
    QueueFull,
    ShuttingDown,
)
from orchestrator.domain.execution import CancelledBy, Check, Language, Outcome, State
from orchestrator.domain.ledger import CallOutcome, CallRecord
from orchestrator.domain.sandbox import PoolSize
from orchestrator.service import executions as executions_module
from orchestrator.service.admission import Admission
from orchestrator.service.executions import Executions, ProgramRequest, ProgramRules, new_execution_id
from orchestrator.service.readiness import Readiness
from orchestrator.service.sandboxes import Sandboxes
from orchestrator.service.warm_pool import WarmPool
from tests.support.api import until
from tests.support.fake_engine import EXIT_3, FOREVER, HELLO, IMPORT_NO_TOOL, PRINT_TOO_MUCH_THEN_EXIT_3, FakeEngine
from tests.support.fake_journal import FakeJournal
from tests.support.fake_storage import FakeStorage
from tests.support.fake_tool_calls import FakeProvisions, FakeToolCalls
from tests.support.samples import ADMIN, DEVELOPER, OTHER_DEVELOPER, limits, tool_call


class Service:
    def __init__(self, max_running=4, max_waiting=4, journal=None):
        self.engine = FakeEngine()
        self.journal = journal or FakeJournal()
        self.sandboxes = Sandboxes(self.engine, accept=lambda sandbox_id: asyncio.Protocol())
        self.admission = Admission(
            max_running=max_running,
            max_waiting=max_waiting,
            max_running_per_caller=max_running,
            max_waiting_per_caller=max_waiting,
        )
        self.tool_calls = FakeToolCalls()
        self.pool = WarmPool(self.sandboxes, dict, limits(), PoolSize(0, 0, 0, max_age_seconds=60))
        self.readiness = Readiness(self.engine, self.journal)
        self.readiness.problem = None
        self.storage = FakeStorage(self.journal)
        self.executions = Executions(
            ProgramRules(1024 * 1024, 300, limits),
            self.admission,
            self.pool,
            FakeProvisions(),
            self.tool_calls,
            self.journal,
            self.readiness,
            self.storage.files,
            self.storage.workspaces,
        )

    async def start(self, code, caller=DEVELOPER, timeout_seconds=5, check=Check.STRICT):
        asked = ProgramRequest(Language.PYTHON, code, timeout_seconds, check=check)
        return await self.executions.start(caller, asked, new_execution_id())

    async def run(self, code, **kwargs):
        return await (await self.start(code, **kwargs)).result()


@pytest.fixture
async def service():
    service = Service()
    yield service
    await service.executions.drain(0)
    await service.sandboxes.all_destroyed()
    assert not service.engine.sandboxes
    assert not any(grant.open for grant in service.tool_calls.grants)


async def test_a_program_runs_once_in_its_own_sandbox_which_is_destroyed(service):
    results = [await service.run(HELLO) for _ in range(3)]
    await service.sandboxes.all_destroyed()
    used = service.engine.made
    assert [r.stdout for r in results] == [b"hello\n"] * 3
    assert [(s.runs, s.destructions) for s in used] == [(1, 1)] * 3


async def test_a_failing_program_is_a_result_with_its_streams_apart(service):
    result = await service.run(EXIT_3)
    assert (result.outcome, result.record.exit_code) == (Outcome.FAILED, 3)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")


async def test_a_rejected_program_is_recorded_with_its_mistakes(service):
    result = await service.run(IMPORT_NO_TOOL)
    recorded = service.journal.records[result.execution_id]
    assert (recorded.outcome, recorded.exit_code) == (Outcome.REJECTED, None)
    assert [mistake.line for mistake in recorded.mistakes] == [1]


@pytest.mark.parametrize(
    ("code", "check", "at_once"),
    [(HELLO, Check.STRICT, True), (IMPORT_NO_TOOL, Check.STRICT, False), (IMPORT_NO_TOOL, Check.WARN, True)],
)
async def test_only_a_program_that_may_be_rejected_waits_for_its_verdict(service, code, check, at_once):
    await service.run(code, check=check)
    assert service.tool_calls.grants[0].at_once is at_once


async def test_what_was_printed_beyond_the_limit_is_told_and_nothing_else_changes(service):
    record = (await service.run(PRINT_TOO_MUCH_THEN_EXIT_3)).record
    assert (record.outcome, record.exit_code) == (Outcome.FAILED, 3)
    assert record.truncated is (record.stdout_dropped_bytes > 0)


async def test_cancelling_keeps_the_partial_output(service):
    running = await service.start(FOREVER)
    await until(lambda: service.engine.programs_run)
    result = await service.executions.cancel(DEVELOPER, running.execution.id)
    assert (result.outcome, result.stdout) == (Outcome.CANCELLED, b"begun\n")
    assert service.journal.records[result.execution_id].outcome is Outcome.CANCELLED


async def test_a_caller_cannot_cancel_anothers_execution_but_admin_can(service):
    running = await service.start(FOREVER)
    with pytest.raises(NotFound):
        await service.executions.cancel(OTHER_DEVELOPER, running.execution.id)
    assert not running.finished
    result = await service.executions.cancel(ADMIN, running.execution.id)
    assert result.outcome is Outcome.CANCELLED


async def test_cancelling_what_has_finished_says_so(service):
    result = await service.run(HELLO)
    with pytest.raises(AlreadyFinished):
        await service.executions.cancel(DEVELOPER, result.execution_id)


async def test_cancelling_while_the_sandbox_starts_destroys_it_once_it_has_started(service):
    service.engine.may_start.clear()
    running = await service.start(HELLO)
    await until(lambda: running.state is State.RUNNING)
    result = await service.executions.cancel(DEVELOPER, running.execution.id)
    assert result.outcome is Outcome.CANCELLED
    service.engine.may_start.set()
    await service.sandboxes.all_destroyed()
    assert not service.engine.sandboxes
    assert not service.engine.programs_run


async def test_cancelling_in_the_queue_never_starts_it():
    service = Service(max_running=1)
    first = await service.start(FOREVER)
    await until(lambda: service.engine.programs_run)
    second = await service.start(HELLO)
    result = await service.executions.cancel(DEVELOPER, second.execution.id)
    assert result.outcome is Outcome.CANCELLED
    assert service.admission.waiting == 0
    first.cancel()
    await first.result()
    assert service.engine.programs_run == [FOREVER]


async def test_the_daemon_ends_a_program_whose_supervisor_does_not(service, monkeypatch):
    monkeypatch.setattr(executions_module, "BACKUP_KILL_SECONDS", 0.05)
    service.engine.supervisor_hangs = True
    result = await service.run(FOREVER, timeout_seconds=0.05)
    assert (result.outcome, result.stdout) == (Outcome.TIMED_OUT, b"begun\n")


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_program_of_which_a_silent_engine_told_nothing_did_not_time_out_but_met_our_fault(
    service, monkeypatch, is_back
):
    monkeypatch.setattr(executions_module, "BACKUP_KILL_SECONDS", 0.05)
    service.engine.supervisor_hangs = True
    running = await service.start(FOREVER, timeout_seconds=0.3)
    await until(lambda: service.engine.programs_run)
    service.engine.go_down()
    if is_back:
        await service.readiness.check()
        service.engine.fault = None
    result = await running.result()
    assert (result.outcome, result.record.error_code) == (Outcome.SANDBOX_ERROR, "engine_unavailable")
    assert "did not answer while the program should have run" in result.record.detail
    assert service.readiness.ready is False
    service.engine.fault = None
    await service.readiness.check()
    assert service.readiness.ready


async def test_a_silence_of_the_engine_before_the_program_began_is_not_to_blame(service, monkeypatch):
    monkeypatch.setattr(executions_module, "BACKUP_KILL_SECONDS", 0.05)
    service.engine.go_down()
    await service.readiness.check()
    service.engine.fault = None
    await service.readiness.check()
    service.engine.supervisor_hangs = True
    assert (await service.run(FOREVER, timeout_seconds=0.05)).outcome is Outcome.TIMED_OUT


async def test_an_engine_that_is_down_is_our_fault_and_recorded(service):
    service.engine.go_down()
    result = await service.run(HELLO)
    assert (result.outcome, result.record.error_code) == (Outcome.SANDBOX_ERROR, "engine_unavailable")
    assert service.journal.records[result.execution_id].error_code == "engine_unavailable"
    service.engine.fault = None
    assert (await service.run(HELLO)).outcome is Outcome.COMPLETED


async def test_nothing_runs_unrecorded(service):
    service.journal.broken = True
    with pytest.raises(JournalUnavailable):
        await service.start(HELLO)
    assert not service.engine.made
    assert service.admission.running == 0


async def test_more_than_the_queue_holds_is_refused():
    service = Service(max_running=1, max_waiting=1)
    running = [await service.start(FOREVER), await service.start(HELLO)]
    with pytest.raises(QueueFull):
        await service.start(HELLO)
    running[0].cancel()
    assert (await running[1].result()).outcome is Outcome.COMPLETED
    await running[0].result()


async def test_the_queue_is_served_in_order():
    service = Service(max_running=1, max_waiting=10)
    await asyncio.gather(*[running.result() for running in [await service.start(HELLO) for _ in range(5)]])
    sequence = [record.sequence for record in service.journal.records.values()]
    finished = sorted(service.journal.records.values(), key=lambda record: record.finished_at)
    assert [record.sequence for record in finished] == sequence


async def test_draining_refuses_new_work_and_cancels_what_outlasts_the_grace(service):
    running = await service.start(FOREVER)
    await until(lambda: service.engine.programs_run)
    await service.executions.drain(0.01)
    assert (await running.result()).outcome is Outcome.CANCELLED
    with pytest.raises(ShuttingDown):
        await service.start(HELLO)


async def test_a_late_watcher_sees_everything_from_the_beginning(service):
    running = await service.start(EXIT_3)
    await running.result()
    seen = [chunk.data async for chunk in running.happenings(heartbeat_seconds=1)]
    assert seen == [b"out\n", b"err\n"]


async def test_a_silent_program_gives_heartbeats(service):
    running = await service.start(FOREVER)
    chunks = running.happenings(heartbeat_seconds=0.01)
    assert (await anext(chunks)).data == b"begun\n"
    assert await anext(chunks) is None
    await chunks.aclose()


async def start_with_key(service, code=HELLO, key="k", caller=DEVELOPER):
    return await service.executions.start(caller, ProgramRequest(Language.PYTHON, code, 5, key), new_execution_id())


async def test_concurrent_requests_with_one_key_share_one_execution(service):
    running = await asyncio.gather(*[start_with_key(service) for _ in range(10)])
    results = await asyncio.gather(*[one.result() for one in running])
    assert len({result.execution_id for result in results}) == 1
    assert service.engine.programs_run == [HELLO]


async def test_a_repeated_request_gets_the_recorded_result_without_running_again(service):
    first = await (await start_with_key(service, EXIT_3)).result()
    again = await (await start_with_key(service, EXIT_3)).result()
    assert (again.execution_id, again.outcome, again.stdout, again.stderr) == (
        first.execution_id,
        Outcome.FAILED,
        b"out\n",
        b"err\n",
    )
    assert service.engine.programs_run == [EXIT_3]


async def test_a_key_used_for_another_program_is_refused(service):
    await (await start_with_key(service, HELLO)).result()
    with pytest.raises(IdempotencyMismatch):
        await start_with_key(service, EXIT_3)


async def test_keys_of_different_callers_are_apart(service):
    first, second = await start_with_key(service), await start_with_key(service, caller=OTHER_DEVELOPER)
    assert first.execution.id != second.execution.id
    await asyncio.gather(first.result(), second.result())


# --- sent again after it was cut off ---


async def leave(running):
    """As a client does whose connection drops."""
    with running.watched():
        pass
    return await running.result()


async def test_what_its_own_client_left_before_it_called_a_tool_runs_again_when_it_is_sent_again(service):
    first = await leave(await start_with_key(service, FOREVER))
    assert (first.outcome, first.record.cancelled_by) == (Outcome.CANCELLED, CancelledBy.DISCONNECT)
    again = await start_with_key(service, FOREVER)
    assert again.execution.id != first.execution_id
    assert await start_with_key(service, FOREVER) is again
    second = await service.executions.cancel(DEVELOPER, again.execution.id)
    assert (await (await start_with_key(service, FOREVER)).result()).execution_id == second.execution_id
    assert service.journal.records[first.execution_id].outcome is Outcome.CANCELLED


async def test_what_was_left_while_it_waited_runs_when_it_is_sent_again():
    service = Service(max_running=1)
    blocking = await service.start(FOREVER)
    waiting = await leave(await start_with_key(service))
    blocking.cancel()
    await blocking.result()
    again = await (await start_with_key(service)).result()
    assert (again.outcome, again.execution_id != waiting.execution_id) == (Outcome.COMPLETED, True)
    await service.sandboxes.all_destroyed()


async def test_what_is_sent_again_while_it_is_still_being_ended_runs_again(service):
    first = await start_with_key(service, FOREVER)
    with first.watched():
        pass
    assert not first.finished
    again = await start_with_key(service, FOREVER)
    assert again.execution.id != first.execution.id
    assert not again.cancelled.is_set()


CALLS = (tool_call(), tool_call(CallOutcome.IN_FLIGHT, tool="insert"))


async def test_what_was_left_after_it_called_tools_is_not_run_again_and_its_calls_are_told(service):
    service.tool_calls.made = CALLS
    running = await start_with_key(service, FOREVER)
    await until(lambda: service.engine.programs_run)
    first = await leave(running)
    for _ in range(2):
        with pytest.raises(AlreadyInterrupted, match=first.execution_id) as refused:
            await start_with_key(service, FOREVER)
    assert "postgres/query done, postgres/insert in_flight" in refused.value.message
    assert "client went away" in refused.value.message
    assert refused.value.execution_id == first.execution_id
    assert service.engine.programs_run == [FOREVER]


async def test_of_very_many_calls_only_some_are_told(service):
    service.tool_calls.made = (tool_call(),) * 1000
    running = await start_with_key(service, FOREVER)
    await until(lambda: service.engine.programs_run)
    await leave(running)
    with pytest.raises(AlreadyInterrupted, match="and 990 more"):
        await start_with_key(service, FOREVER)


@pytest.mark.parametrize("left_before", [False, True])
async def test_what_was_cancelled_by_request_stays_cancelled(service, left_before):
    running = await start_with_key(service, FOREVER)
    if left_before:
        with running.watched():
            pass
    first = await service.executions.cancel(DEVELOPER, running.execution.id)
    assert first.record.cancelled_by is CancelledBy.REQUEST
    again = await (await start_with_key(service, FOREVER)).result()
    assert (again.execution_id, again.outcome) == (first.execution_id, Outcome.CANCELLED)


async def test_a_cancelled_record_from_before_that_tells_not_by_whom_stays_cancelled(service):
    first = await service.executions.cancel(DEVELOPER, (await start_with_key(service, FOREVER)).execution.id)
    record = service.journal.records[first.execution_id]
    service.journal.records[first.execution_id] = replace(record, cancelled_by=None)
    assert (await (await start_with_key(service, FOREVER)).result()).execution_id == first.execution_id


@pytest.mark.parametrize("calls", [(), CALLS], ids=["no calls", "calls"])
@pytest.mark.parametrize("end", ["killed", "stopped"])
async def test_what_the_end_of_the_daemon_cut_off_runs_again_unless_it_had_called_tools(end, calls):
    before = Service()
    before.tool_calls.made = calls
    running = await start_with_key(before, FOREVER)
    await until(lambda: before.engine.programs_run)
    if end == "stopped":
        await before.executions.drain(0)
        assert (await running.result()).record.cancelled_by is CancelledBy.SHUTDOWN
    else:
        numbered = [CallRecord(running.execution.id, number, call) for number, call in enumerate(calls)]
        await before.journal.record_calls(numbered)
    after = Service(journal=deepcopy(before.journal))  # what the killed one would write from now on, nobody reads
    await after.readiness.recover()
    if calls:
        with pytest.raises(AlreadyInterrupted, match="the daemon stopped"):
            await start_with_key(after, FOREVER)
    else:
        again = await start_with_key(after, FOREVER)
        assert again.execution.id != running.execution.id
    for service in (before, after):
        await service.executions.drain(0)
        await service.sandboxes.all_destroyed()


async def test_what_never_ran_because_of_us_runs_when_it_is_sent_again(service):
    service.engine.go_down()
    failed = await (await start_with_key(service)).result()
    assert (failed.outcome, failed.record.error_code) == (Outcome.SANDBOX_ERROR, "engine_unavailable")
    service.engine.fault = None
    again = await (await start_with_key(service)).result()
    assert (again.outcome, again.execution_id != failed.execution_id) == (Outcome.COMPLETED, True)


async def test_requests_with_other_keys_do_not_wait_for_one_whose_record_is_slow(service):
    reading, find = asyncio.Event(), service.journal.find_by_key

    async def slowly(caller, key):
        if key == "slow":
            await reading.wait()
        return await find(caller, key)

    service.journal.find_by_key = slowly
    waiting = asyncio.create_task(start_with_key(service, key="slow"))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert (await (await start_with_key(service, key="quick")).result()).outcome is Outcome.COMPLETED
    assert not waiting.done()
    reading.set()
    await (await waiting).result()


async def test_the_execution_goes_on_until_its_last_watcher_is_gone(service):
    running = await service.start(FOREVER)
    with running.watched():
        with running.watched():
            pass
        assert not running.cancelled.is_set()
    assert (await running.result()).outcome is Outcome.CANCELLED


async def test_a_daemon_that_is_not_ready_refuses_at_once_and_recovers(service):
    service.engine.go_down()
    await service.readiness.check()
    with pytest.raises(EngineUnavailable):
        await service.start(HELLO)
    service.engine.fault = None
    await service.readiness.check()
    assert (await service.run(HELLO)).outcome is Outcome.COMPLETED


async def test_a_role_may_have_a_shorter_time_than_the_others(service):
    hurried = Caller("hurried", Role("hurried", frozenset(), max_timeout_seconds=0.05))
    result = await service.run(FOREVER, caller=hurried, timeout_seconds=60)
    assert (result.outcome, result.record.limits.timeout_seconds) == (Outcome.TIMED_OUT, 0.05)


# --- what becomes of the record ---


class SlowJournal(FakeJournal):
    """Opens and finishes when it is let."""

    def __init__(self):
        super().__init__()
        self.may_open, self.fault = asyncio.Event(), None

    async def open(self, record, idempotency_key=None, program=None):
        await self.may_open.wait()
        await super().open(record, idempotency_key, program)

    async def finish(self, result, idempotency_key=None):
        if self.fault is not None:
            raise self.fault
        await super().finish(result, idempotency_key)


@pytest.fixture
async def slow():
    service = Service(journal=SlowJournal())
    yield service
    service.journal.fault = None
    service.journal.may_open.set()
    await service.executions.drain(0)
    await service.sandboxes.all_destroyed()
    assert not service.engine.sandboxes


async def test_a_caller_that_leaves_while_its_execution_is_recorded_leaves_a_cancelled_one(slow):
    asked = asyncio.create_task(slow.start(HELLO))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    slow.journal.may_open.set()
    await until(lambda: slow.journal.records and not slow.admission.running)
    (record,) = slow.journal.records.values()
    assert (record.state, record.outcome) == (State.FINISHED, Outcome.CANCELLED)
    assert slow.executions.find_running(record.id) is None


async def test_a_caller_that_leaves_before_a_failing_record_gives_its_place_back(slow):
    asked = asyncio.create_task(slow.start(HELLO))
    await asyncio.sleep(0)
    asked.cancel()
    slow.journal.broken = True
    slow.journal.may_open.set()
    await asyncio.wait((asked,))
    await until(lambda: not slow.admission.running)
    assert slow.journal.records == {}


async def test_what_is_being_recorded_when_the_daemon_stops_is_brought_to_its_end(slow):
    asked = asyncio.create_task(slow.start(FOREVER))
    await asyncio.sleep(0)
    draining = asyncio.create_task(slow.executions.drain(0.05))
    await asyncio.sleep(0.1)
    slow.journal.may_open.set()
    await draining
    assert (await (await asked).result()).outcome is Outcome.CANCELLED


@pytest.mark.parametrize("fault", [JournalUnavailable("disk full"), ValueError("a defect")])
async def test_the_result_is_given_out_whatever_happens_to_its_record(slow, fault):
    slow.journal.may_open.set()
    slow.journal.fault = fault
    result = await slow.run(HELLO)
    assert result.outcome is Outcome.COMPLETED
    assert slow.executions.find_running(result.execution_id) is None


async def test_a_result_that_could_not_be_recorded_is_recorded_later(slow):
    slow.journal.may_open.set()
    slow.journal.fault = JournalUnavailable("disk full")
    results = [await slow.run(HELLO) for _ in range(2)]
    await slow.executions.record_what_is_missing()
    assert {record.state for record in slow.journal.records.values()} == {State.RUNNING}
    slow.journal.fault = None
    await slow.executions.record_what_is_missing()
    recorded = [slow.journal.records[result.execution_id] for result in results]
    assert [(record.state, record.outcome) for record in recorded] == [(State.FINISHED, Outcome.COMPLETED)] * 2


async def test_a_refusal_is_kept_short_whatever_was_sent(service):
    with pytest.raises(InvalidRequest):
        async with service.executions.recording_refusal(DEVELOPER, "r"):
            raise InvalidRequest("x" * 6_000_000)
    assert service.journal.records["r"].state is State.REFUSED
    assert len(service.journal.records["r"].detail) < 1000


async def test_what_was_interrupted_is_told_before_the_daemon_is_ready_even_if_the_journal_fails_first(service):
    running = await service.start(FOREVER)
    restarted = Readiness(FakeEngine(), service.journal)
    service.journal.mark_interrupted, works = broken_journal, service.journal.mark_interrupted
    await restarted.check()
    assert isinstance(restarted.problem, JournalUnavailable)
    service.journal.mark_interrupted = works
    await restarted.check()
    assert restarted.ready
    assert service.journal.records[running.execution.id].state is State.INTERRUPTED
    again = await service.start(FOREVER)
    await restarted.check()
    assert service.journal.records[again.execution.id].state is State.RUNNING


async def broken_journal(instance):
    raise JournalUnavailable("The journal cannot be used: locked (test).")


async def test_what_runs_while_the_journal_is_replaced_is_in_the_new_one_at_once_and_with_its_end(service):
    running = await start_with_key(service, FOREVER)
    await until(lambda: service.engine.programs_run)
    service.journal.lose_everything()
    await service.executions.record_what_is_missing()
    assert service.journal.records[running.execution.id].state is State.RUNNING
    result = await service.executions.cancel(DEVELOPER, running.execution.id)
    found = await service.journal.find_by_key(DEVELOPER.key_name, "k")
    assert (found.id, found.state, found.outcome) == (result.execution_id, State.FINISHED, Outcome.CANCELLED)
    await service.executions.record_what_is_missing()
    assert service.journal.records[result.execution_id].state is State.FINISHED


async def test_what_ended_while_the_journal_was_lost_is_in_the_new_one(slow):
    slow.journal.may_open.set()
    slow.journal.fault = JournalUnavailable("it was deleted")
    result = await slow.run(HELLO)
    slow.journal.lose_everything()
    slow.journal.fault = None
    await slow.executions.record_what_is_missing()
    assert slow.journal.records[result.execution_id].outcome is Outcome.COMPLETED


async def test_a_journal_that_refuses_an_execution_is_told_at_once_to_whoever_asks_whether_we_are_ready(service):
    service.journal.broken = True
    with pytest.raises(JournalUnavailable):
        await service.start(HELLO)
    assert isinstance(service.readiness.problem, JournalUnavailable)
    service.journal.broken = False
    await service.readiness.check()
    assert service.readiness.ready


async def test_a_problem_that_is_told_to_many_does_not_remember_them(service):
    service.engine.go_down()
    await service.readiness.check()
    for _ in range(3):
        with pytest.raises(EngineUnavailable) as told:
            await service.start(HELLO)
    depth, trace = 0, told.value.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth < 10


async def test_a_result_that_the_journal_could_not_take_is_found_by_its_key(slow):
    slow.journal.may_open.set()
    slow.journal.fault = JournalUnavailable("disk full")
    first = await (await start_with_key(slow, EXIT_3)).result()
    again = await (await start_with_key(slow, EXIT_3)).result()
    assert (again.execution_id, again.outcome, again.stdout) == (first.execution_id, Outcome.FAILED, b"out\n")
