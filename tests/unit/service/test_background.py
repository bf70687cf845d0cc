"""Executions in the background: how long they may take, how many there may be, and who may leave."""

import asyncio

import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import InvalidRequest, TooManyInBackground
from orchestrator.domain.execution import CancelledBy, Language, Outcome, Shares, State, Stream
from orchestrator.domain.ledger import CallRecord
from orchestrator.service.executions import ProgramRequest, ProgramRules, new_execution_id
from orchestrator.service.records import Records
from orchestrator.service.running import RunningExecution
from orchestrator.settings import Settings
from tests.support.api import until
from tests.support.fake_engine import FOREVER, HELLO
from tests.support.fake_journal import FakeJournal
from tests.support.samples import ADMIN, DEVELOPER, OTHER_DEVELOPER, execution, limits, record, tool_call
from tests.unit.service.test_executions import Service

RULES = ProgramRules(1024, 300, limits)
PATIENT = Caller("patient", Role("patient", frozenset(), max_timeout_seconds=86_400))
HURRIED = Caller("hurried", Role("hurried", frozenset(), max_timeout_seconds=60))


@pytest.fixture
async def service():
    service = Service()
    yield service
    await service.executions.drain(0)
    await service.sandboxes.all_destroyed()
    assert not service.engine.sandboxes


def in_background(code=FOREVER, seconds=None, key=None):
    return ProgramRequest(Language.PYTHON, code, seconds, key, background=True)


async def start(service, caller=DEVELOPER, **request):
    return await service.executions.start(caller, in_background(**request), new_execution_id())


# --- how long ---


@pytest.mark.parametrize(
    ("caller", "asked", "granted"),
    [(PATIENT, None, 86_400), (PATIENT, 3600, 3600), (DEVELOPER, None, 300), (DEVELOPER, 10, 10), (HURRIED, None, 60)],
)
def test_one_in_the_background_gets_what_it_asks_for_or_all_that_its_role_allows(caller, asked, granted):
    assert RULES.limits_of(in_background(seconds=asked), caller).timeout_seconds == granted


@pytest.mark.parametrize(
    ("caller", "asked", "why"),
    [
        (PATIENT, 86_401, "must be at most 86400, the limit of role patient"),
        (HURRIED, 61, "must be at most 60, the limit of role hurried"),
        (DEVELOPER, 301, "must be at most 300: role developer has no `limits.timeoutSeconds` in roles.json"),
    ],
)
def test_more_than_the_role_allows_is_refused_with_the_limit(caller, asked, why):
    with pytest.raises(InvalidRequest, match=why):
        RULES.limits_of(in_background(seconds=asked), caller)


def test_in_the_foreground_a_patient_role_gets_no_more_than_the_others():
    assert RULES.limits_of(ProgramRequest(Language.PYTHON, HELLO, 300), PATIENT).timeout_seconds == 300
    too_long = ProgramRequest(Language.PYTHON, HELLO, 301)
    with pytest.raises(InvalidRequest, match="at most 300, or 86400 with `background` set to true"):
        RULES.limits_of(too_long, PATIENT)
    with pytest.raises(
        InvalidRequest, match=r"at most 300\. A longer one needs `background` and a role that allows it"
    ):
        RULES.limits_of(too_long, DEVELOPER)


# --- how many ---


async def test_a_caller_may_have_two_and_then_has_to_wait_for_one_to_end(service):
    first, _ = await start(service), await start(service)
    with pytest.raises(TooManyInBackground, match="2 of your executions are in the background; at most 2 may be"):
        await start(service)
    await start(service, OTHER_DEVELOPER)
    await service.executions.cancel(DEVELOPER, first.execution.id)
    await start(service)


async def test_all_callers_together_may_have_four(service):
    for caller in (DEVELOPER, DEVELOPER, OTHER_DEVELOPER, OTHER_DEVELOPER):
        await start(service, caller)
    with pytest.raises(TooManyInBackground, match="4 executions are in the background; at most 4 may be"):
        await start(service, ADMIN)


async def test_those_that_wait_count_too():
    service = Service(max_running=1)
    running, waiting = await start(service), await start(service)
    assert (running.state, waiting.state) == (State.RUNNING, State.QUEUED)
    with pytest.raises(TooManyInBackground):
        await start(service)
    await service.executions.drain(0)
    await service.sandboxes.all_destroyed()


@pytest.mark.parametrize(
    ("chosen", "places"),
    [
        ({}, Shares(4, 2)),
        ({"max_running": 3, "max_sandboxes": 20}, Shares(2, 2)),
        ({"max_running": 1, "max_sandboxes": 20}, Shares(1, 2)),
        ({"max_background": 0}, Shares(0, 2)),
        ({"max_running_per_caller": 2}, Shares(4, 1)),
    ],
)
def test_whatever_the_settings_say_a_place_is_left_for_the_others(chosen, places):
    assert Settings(**chosen).places_in_background == places


# --- who may leave ---


async def test_nobody_has_to_wait_for_it(service):
    running = await start(service)
    await until(lambda: service.engine.programs_run)
    with running.watched():
        pass
    assert running.cancelled_by is None
    assert service.journal.records[running.execution.id].background


async def test_whoever_asks_for_it_again_in_the_background_keeps_it_from_ending_with_its_client(service):
    asked = ProgramRequest(Language.PYTHON, FOREVER, 5, "k")
    running = await service.executions.start(DEVELOPER, asked, new_execution_id())
    assert await start(service, key="k") is running
    with running.watched():
        pass
    assert running.cancelled_by is None


async def test_a_stopping_daemon_cancels_it(service):
    running = await start(service)
    await until(lambda: service.engine.programs_run)
    await service.executions.drain(0)
    record = (await running.result()).record
    assert (record.outcome, record.cancelled_by) == (Outcome.CANCELLED, CancelledBy.SHUTDOWN)


async def test_a_long_one_gets_a_sandbox_of_its_own_that_lives_long_enough(service):
    await start(service, PATIENT)
    await until(lambda: service.engine.programs_run)
    (sandbox,) = service.engine.made
    assert 86_400 < sandbox.spec.lifetime_seconds < 25 * 3600


# --- waiting for news ---


@pytest.fixture
async def watched():
    running = RunningExecution(execution(id="own"), record(id="own", state=State.RUNNING))
    return running, Records(FakeJournal(), {"own": running}.get)


async def test_news_is_output_beyond_the_offset(watched):
    running, records = watched
    running.receive(Stream.STDERR, b"12345")
    await asyncio.wait_for(records.until_news("own", 4, Stream, 30), 5)
    waiting = asyncio.create_task(records.until_news("own", 5, Stream, 30))
    await asyncio.sleep(0)
    running.receive(Stream.STDOUT, b"12345")
    await asyncio.sleep(0)
    assert not waiting.done()
    running.receive(Stream.STDOUT, b"6")
    await asyncio.wait_for(waiting, 5)


async def test_without_news_the_wait_ends_by_itself(watched):
    await asyncio.wait_for(watched[1].until_news("own", 0, Stream, 0.01), 5)
    await asyncio.wait_for(watched[1].until_news("ended", 0, Stream, 30), 5)


async def test_many_small_pieces_are_told_together_and_those_of_the_other_stream_apart(watched):
    running, _ = watched
    for byte in b"abc":
        running.receive(Stream.STDOUT, bytes([byte]))
    running.receive(Stream.STDERR, b"d")
    told = running.happenings(heartbeat_seconds=30)
    assert [(await anext(told)).data for _ in range(2)] == [b"abc", b"d"]
    await told.aclose()


async def test_whoever_comes_very_late_hears_of_each_stream_at_once(watched):
    running, _ = watched
    for _ in range(50_000):
        running.receive(Stream.STDERR, b"e")
        running.receive(Stream.STDOUT, b"o")
    running.note_call(CallRecord("own", 0, tool_call()))
    running.receive(Stream.STDOUT, b"after")
    told = running.happenings(heartbeat_seconds=30)
    pieces = [await anext(told) for _ in range(6)]
    await told.aclose()
    assert [getattr(piece, "stream", "call") for piece in pieces] == [*["stderr", "stdout"] * 2, "call", "stdout"]
    assert b"".join(piece.data for piece in pieces[:4:2]) == b"e" * 50_000
