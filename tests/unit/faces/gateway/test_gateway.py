"""What the journal learns of a tool call, and when."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import AccessBook, KeyHash
from orchestrator.domain.errors import (
    InvalidArguments,
    JournalUnavailable,
    LimitExceeded,
    ToolDenied,
    ToolUnavailable,
)
from orchestrator.domain.execution import GatewayLimits, State
from orchestrator.domain.tools import Tool
from orchestrator.faces.gateway.app import Gateway
from orchestrator.service.tool_calls import ToolCalls
from tests.support.api import until
from tests.support.fake_journal import FakeJournal
from tests.support.samples import DEVELOPER, record

AT_ONCE = 5
LIMITS = GatewayLimits(
    max_calls=100,
    max_concurrent_calls=AT_ONCE,
    max_request_bytes=1_000_000,
    max_total_bytes=100_000,
    call_timeout_seconds=5,
)
QUERY = {"server": "postgres", "tool": "query"}


class HeldJournal(FakeJournal):
    """Writes calls only while it is let, and counts how often it did."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.go.set()
        self.batches = 0

    async def record_calls(self, calls):
        await self.go.wait()
        self.batches += 1
        await super().record_calls(calls)


class Upstreams:
    """A server that answers when it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.asked = 0

    def tools(self):
        return {"postgres": (Tool("postgres", "query"), Tool("postgres", "down"))}

    async def open_session(self, server, sessions, timeout_seconds):
        pass

    async def call(self, server, tool, arguments, timeout_seconds, role, room, sessions):
        self.asked += 1
        await self.go.wait()
        if tool == "down":
            raise ToolUnavailable("It is down.")
        return {"content": [{"type": "text", "text": "42"}]}


class Tokens:
    def count(self, text):
        return len(text)


class Access:
    book = AccessBook(
        {DEVELOPER.role.name: DEVELOPER.role},
        {DEVELOPER.key_name: DEVELOPER.role.name},
        (KeyHash(DEVELOPER.key_name, DEVELOPER.key_sha256),),
    )


class Scene:
    """A gateway with one execution under way in it."""

    def __init__(self) -> None:
        self.journal, self.upstreams, self.notified = HeldJournal(), Upstreams(), []
        catalog, observations = Catalog(self.upstreams, Tokens()), Observations()
        catalog.refresh()
        toolbox = Toolbox(catalog, observations)
        self.tool_calls = ToolCalls(toolbox, self.upstreams, observations, Access(), self.journal, LIMITS)
        self.gateway = Gateway(self.tool_calls, toolbox, LIMITS.max_request_bytes)
        self.grant = self.tool_calls.open(DEVELOPER, "e1", self.notified.append, "sandbox")

    async def call(self, **order):
        with self.tool_calls.room(self.grant) as room:
            answer = await self.grant.within(self.gateway.call(self.grant, {**QUERY, **order}, 10, room))
        return answer.decode()

    def begin(self, **order):
        return asyncio.create_task(self.call(**order))

    async def recorded(self):
        return [str(call.outcome) for call in (await self.journal.find("e1")).tool_calls]


@pytest.fixture
async def scene():
    scene = Scene()
    await scene.journal.open(record(id="e1", state=State.RUNNING))
    yield scene
    scene.journal.go.set()
    scene.grant.revoke()
    await scene.gateway.shut_down()


async def ticks(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_call_is_in_the_journal_as_in_flight_while_its_server_works(scene):
    scene.upstreams.go.clear()
    call = scene.begin()
    await ticks()
    assert await scene.recorded() == ["in_flight"]
    scene.upstreams.go.set()
    await call
    assert await scene.recorded() == ["done"]


async def test_a_call_is_sent_without_waiting_for_the_journal(scene):
    scene.journal.go.clear()
    scene.begin()
    await ticks()
    assert (scene.upstreams.asked, await scene.recorded()) == (1, [])


async def test_what_must_happen_at_most_once_is_sent_after_the_journal_knows_of_it(scene):
    scene.grant.at_most_once = True
    scene.journal.go.clear()
    call = scene.begin()
    await ticks()
    assert scene.upstreams.asked == 0
    scene.journal.go.set()
    assert "42" in await call
    assert (scene.upstreams.asked, await scene.recorded()) == (1, ["done"])


async def test_what_must_happen_at_most_once_is_not_sent_if_the_journal_cannot_know_of_it(scene):
    scene.grant.at_most_once = True
    scene.journal.broken = True
    with pytest.raises(JournalUnavailable, match="was not sent"):
        await scene.call()
    assert scene.upstreams.asked == 0
    scene.journal.broken = False
    assert "42" in await scene.call()


async def test_neither_the_program_nor_the_caller_knows_of_an_answer_that_the_journal_does_not_know(scene):
    scene.journal.go.clear()
    call = scene.begin()
    await ticks()
    assert (call.done(), scene.notified) == (False, [])
    scene.journal.go.set()
    assert "42" in await call
    assert await scene.recorded() == ["done"]
    assert [(told.number, told.call.outcome) for told in scene.notified] == [(0, "done")]


@pytest.mark.parametrize(
    ("order", "error", "outcome"),
    [({"server": "secret"}, ToolDenied, "denied"), ({"tool": "down"}, ToolUnavailable, "unavailable")],
)
async def test_a_call_that_fails_is_in_the_journal_before_the_program_hears_of_it(scene, order, error, outcome):
    scene.journal.go.clear()
    call = scene.begin(**order)
    await ticks()
    assert not call.done()
    scene.journal.go.set()
    with pytest.raises(error):
        await call
    assert await scene.recorded() == [outcome]


async def test_calls_that_wait_for_their_turn_are_in_the_journal_as_never_sent(scene):
    scene.upstreams.go.clear()
    calls = [scene.begin() for _ in range(AT_ONCE + 2)]
    await ticks()
    assert await scene.recorded() == ["in_flight"] * AT_ONCE + ["never_sent"] * 2
    scene.upstreams.go.set()
    await asyncio.gather(*calls)


async def test_many_calls_at_once_are_written_together(scene):
    scene.upstreams.go.clear()
    calls = [scene.begin() for _ in range(AT_ONCE)]
    await ticks()
    assert scene.journal.batches == 1
    scene.upstreams.go.set()
    await asyncio.gather(*calls)
    assert await scene.recorded() == ["done"] * AT_ONCE
    assert scene.journal.batches <= 3


async def test_a_journal_that_fails_is_said_once_and_fails_no_call(scene):
    scene.journal.broken = True
    with capture_logs() as logs:
        assert "42" in await scene.call()
        assert "42" in await scene.call()
    assert [(line["event"], line["execution_ids"]) for line in logs] == [("calls.not_recorded", ["e1"])]


async def test_a_journal_that_fails_again_is_said_again(scene):
    with capture_logs() as logs:
        for broken in (True, False, True):
            scene.journal.broken = broken
            await scene.call()
    assert [line["event"] for line in logs] == ["calls.not_recorded"] * 2


async def test_a_program_that_ends_does_not_wait_for_the_journal(scene):
    scene.journal.go.clear()
    call = scene.begin()
    await ticks()
    scene.grant.revoke()
    await asyncio.gather(call, return_exceptions=True)
    assert [str(call.outcome) for call in scene.grant.calls()] == ["done"]


async def test_what_was_handed_in_is_written_before_the_gateway_has_shut_down(scene):
    scene.journal.go.clear()
    call = scene.begin()
    await ticks()
    stopping = asyncio.create_task(scene.gateway.shut_down())
    await ticks()
    assert not stopping.done()
    scene.journal.go.set()
    await stopping
    await until(call.done)
    assert await scene.recorded() == ["done"]


class Request:
    """As much of a request as is read: a body that never ends."""

    def __init__(self, content_length, pieces):
        self.content_length = content_length
        self.content = self
        self.pieces = pieces
        self.given = 0

    async def iter_any(self):
        for _ in range(self.pieces):
            self.given += 1
            yield b"x"
        await asyncio.Event().wait()


@pytest.mark.parametrize("content_length", [None, 100_000])
async def test_of_large_bodies_only_a_few_are_read_at_a_time(scene, content_length):
    large = [Request(content_length, 500) for _ in range(20)]
    small = Request(10, 500)
    held = AsyncExitStack()
    reading = [asyncio.create_task(scene.gateway._read_large(scene.grant, each, held)) for each in large]
    reading.append(asyncio.create_task(scene.gateway._read_whole(scene.grant, small)))
    await ticks(50)
    assert sorted(each.given for each in large) == [0] * 18 + [500] * 2
    assert small.given == 500
    for each in reading:
        each.cancel()
    await asyncio.wait(reading)
    await held.aclose()


async def test_calls_beyond_the_limit_are_told_once(scene):
    for _ in range(LIMITS.max_calls):
        await scene.call()
    for _ in range(50):
        with pytest.raises(LimitExceeded):
            await scene.call()
    assert await scene.recorded() == ["done"] * LIMITS.max_calls + ["limited"]


async def test_a_journal_that_fails_in_an_unknown_way_fails_no_call(scene, monkeypatch):
    async def fail(calls):
        raise UnicodeEncodeError("utf-8", "x", 0, 1, "a defect")

    monkeypatch.setattr(scene.journal, "record_calls", fail)
    assert "42" in await scene.call()


@pytest.mark.parametrize("name", ["", "\ud800", "a\udfff", "x" * 257, 1, None])
async def test_what_is_no_name_is_refused_before_it_is_told(scene, name):
    for field in ("server", "tool"):
        with pytest.raises(InvalidArguments):
            await scene.call(**{field: name})
    assert scene.grant.calls() == ()


async def test_nothing_is_kept_of_a_grant_that_has_ended(scene):
    scene.grant.revoke()
    assert scene.tool_calls.grants._by_sandbox == {}
    assert scene.tool_calls.grants._valid == set()
