"""The steps of the one way to call a tool, in their order."""

import asyncio
import json
from dataclasses import replace

import pytest

from orchestrator.domain.access import AccessBook, KeyHash, Role
from orchestrator.domain.errors import (
    GrantInvalid,
    InvalidArguments,
    LimitExceeded,
    SessionsFull,
    ToolDenied,
    ToolUnavailable,
)
from orchestrator.domain.execution import GatewayLimits, Kind, Outcome, RoomLimits, Shares, State
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import LargeResult
from orchestrator.service.direct_calls import DirectCalls
from orchestrator.service.ends import Ends
from orchestrator.service.tool_calls import ToolCalls
from tests.support.fake_journal import FakeJournal
from tests.support.samples import DEVELOPER, OTHER_DEVELOPER, record

LIMITS = GatewayLimits(
    max_calls=2, max_concurrent_calls=2, max_request_bytes=1000, max_total_bytes=1000, call_timeout_seconds=5
)
GENEROUS = replace(LIMITS, max_calls=100, max_concurrent_calls=50, max_total_bytes=1_000_000_000)


class World:
    """Everything beside the path itself; notes what happened, in order."""

    def __init__(self):
        self.steps = []
        self.journal = FakeJournal()
        self.result = {"content": [{"type": "text", "text": "42"}]}
        self.fault = None
        self.sessions = []
        self.session_fault = None
        self.roles = {DEVELOPER.role.name: DEVELOPER.role}
        self.role = DEVELOPER.role.name
        self.hashes = tuple(KeyHash(each.key_name, each.key_sha256) for each in (DEVELOPER, OTHER_DEVELOPER))

    @property
    def book(self):
        owners = {each.key_name: self.role for each in (DEVELOPER, OTHER_DEVELOPER)}
        return AccessBook(self.roles, owners, self.hashes)

    def callable_tool(self, role, server, name, own=()):
        self.steps.append("role")
        if not role.may_call(server, name):
            raise ToolDenied(f"Role {role.name} may not call {server}/{name}.")
        return Tool(server, name)

    async def open_session(self, server, sessions, timeout_seconds):
        self.sessions.append((server, sessions))
        if self.session_fault is not None:
            raise self.session_fault

    async def call(self, server, tool, arguments, timeout_seconds, role, room, sessions):
        assert (server, sessions) == self.sessions[-1]
        self.steps.append(("dispatch", dict(arguments)))
        if self.fault is not None:
            raise self.fault
        return self.result

    def note(self, role, tool, result):
        self.steps.append(("observe", result))

    def path(self, *policies, limits=LIMITS, room_limits=None):
        return ToolCalls(self, self, self, self, self.journal, limits, policies, room_limits)


class Renaming:
    """A policy that changes what goes out and what comes back."""

    def __init__(self, world, name):
        self.world, self.name = world, name

    async def before(self, call):
        self.world.steps.append(f"before {self.name}")
        return {**call.arguments, self.name: True}

    async def after(self, call, result):
        self.world.steps.append(f"after {self.name}")
        return {**result, self.name: True}


class Denying:
    async def before(self, call):
        raise ToolDenied(f"Nothing may flow to {call.tool.path}.")

    async def after(self, call, result):
        raise AssertionError("what was denied has no result")


class Withholding:
    async def before(self, call):
        return call.arguments

    async def after(self, call, result):
        raise ToolDenied("The result may not be given out.")


class Defective:
    async def before(self, call):
        return call.arguments

    async def after(self, call, result):
        raise TypeError("a defect")


@pytest.fixture
def world():
    return World()


async def ask(path, server="postgres", tool="query", arguments=None, size=10):
    await path._recorder._journal.open(record(id="e", state=State.RUNNING))
    grant = path.open(DEVELOPER, "e", lambda call: None)
    try:
        with path.room(grant) as room:
            return await path.call(grant, server, tool, {} if arguments is None else arguments, size, room), grant
    finally:
        ask.calls = grant.calls()
        grant.revoke()
        await path.finish()


async def test_role_policies_dispatch_and_observation_come_in_this_order(world):
    first, second = Renaming(world, "first"), Renaming(world, "second")
    answer, _ = await ask(world.path(first, second), arguments={"sql": "select 1"})
    assert [step if isinstance(step, str) else step[0] for step in world.steps] == [
        "role", "before first", "before second", "dispatch", "after second", "after first", "observe",
    ]  # fmt: skip
    assert world.steps[3] == ("dispatch", {"sql": "select 1", "first": True, "second": True})
    assert answer.result == {**world.result, "second": True, "first": True}
    assert world.steps[-1] == ("observe", answer.result)


async def test_what_a_policy_denies_is_never_sent_and_is_in_the_ledger(world):
    with pytest.raises(ToolDenied, match="Nothing may flow to postgres/query"):
        await ask(world.path(Renaming(world, "first"), Denying()))
    assert world.steps == ["role", "before first"]
    assert [(call.outcome, call.result_bytes) for call in ask.calls] == [("denied", 0)]


async def test_a_result_that_a_policy_withholds_is_neither_observed_nor_given_out(world):
    with pytest.raises(ToolDenied, match="may not be given out"):
        await ask(world.path(Withholding()))
    assert [step[0] for step in world.steps if step != "role"] == ["dispatch"]
    assert [call.outcome for call in ask.calls] == ["denied"]


async def test_a_role_that_may_not_call_reaches_no_policy(world):
    with pytest.raises(ToolDenied):
        await ask(world.path(Renaming(world, "first")), server="secret")
    assert world.steps == ["role"]


async def test_the_role_counts_as_it_stands_now(world):
    path = world.path()
    world.roles = {}
    with pytest.raises(GrantInvalid, match="no longer exists"):
        await ask(path)
    assert world.steps == []


async def test_limits_come_before_everything_else(world):
    with pytest.raises(LimitExceeded):
        await ask(world.path(Renaming(world, "first")), size=2000)
    assert world.steps == []


@pytest.mark.parametrize("arguments", ["text", 1, [1], True])
async def test_arguments_must_be_an_object(world, arguments):
    with pytest.raises(InvalidArguments, match="`arguments` must be an object"):
        await ask(world.path(), arguments=arguments)


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 257, 1, None])
async def test_a_name_must_be_a_name(world, name):
    with pytest.raises(InvalidArguments, match="`tool` must be a name of 1 to 256 characters"):
        await ask(world.path(), tool=name)
    assert ask.calls == ()


# --- results that not every program could read ---


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
async def test_what_is_not_a_finite_number_is_null(world, number):
    world.result = {"structuredContent": {"a": [1.5, number], "b": {"c": number}}, "content": []}
    answer, _ = await ask(world.path())
    finite = {"structuredContent": {"a": [1.5, None], "b": {"c": None}}, "content": []}
    assert (answer.result, json.loads(answer.text, parse_constant=pytest.fail)) == (finite, finite)
    assert world.steps[-1] == ("observe", finite)


async def test_a_result_that_is_nested_too_deeply_to_be_written_is_refused(world):
    deep = []
    for _ in range(5000):
        deep = [deep]
    world.result = {"structuredContent": deep}
    with pytest.raises(LimitExceeded, match="nested too deeply"):
        await ask(world.path())
    assert [call.outcome for call in ask.calls] == ["limited"]


# --- large results ---

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def large(size, *, failed=False, images=()):
    return LargeResult(b'{"content":[],"pad":"' + b"x" * size + b'"}', failed=failed, images=images)


async def test_a_large_result_is_passed_on_as_it_is(world):
    world.result = large(300_000)
    answer, _ = await ask(world.path(limits=GENEROUS))
    assert answer.text is world.result.text
    assert [(call.outcome, call.result_bytes) for call in ask.calls] == [("done", len(answer.text))]
    assert [step for step in world.steps if step[0] == "observe"] == []


@pytest.mark.parametrize(("size", "is_observed"), [(100_000, True), (300_000, False)])
async def test_only_results_that_are_not_too_large_are_learned_from(world, size, is_observed):
    world.result = large(size)
    await ask(world.path(limits=GENEROUS))
    assert (("observe", world.result) in world.steps) is is_observed


async def test_a_large_result_that_is_an_error_is_recorded_as_one(world):
    world.result = large(300_000, failed=True)
    await ask(world.path(limits=GENEROUS))
    assert [call.outcome for call in ask.calls] == ["tool_error"]


async def test_the_pictures_of_a_large_result_are_kept(world):
    world.result = large(300_000, images=("no base64!", PIXEL))
    _, grant = await ask(world.path(limits=GENEROUS))
    assert [image.mime_type for image in grant.images()] == ["image/png"]


async def test_a_policy_may_change_a_large_result(world):
    world.result = large(300_000)
    answer, _ = await ask(world.path(Renaming(world, "first"), limits=GENEROUS))
    assert json.loads(answer.text)["first"] is True


async def test_a_result_of_our_own_making_is_given_room_like_any_other(world):
    world.result = {"content": [{"type": "text", "text": "x" * 100_000}]}
    path = world.path(limits=GENEROUS)
    grant = path.open(DEVELOPER, "e", lambda call: None)
    await world.journal.open(record(id="e", state=State.RUNNING))
    with path.room(grant) as room:
        await path.call(grant, "postgres", "query", {}, 10, room)
        assert path.rooms.results.taken > 100_000
    assert path.rooms.results.taken == 0
    grant.revoke()
    await path.finish()


# --- what servers are given at once ---


class Crowd:
    """Calls that a server has and does not answer until it is let."""

    def __init__(self, world, **limits):
        self.world, self.inside, self.go = world, [], asyncio.Event()
        world.call = self.answer
        self.path = world.path(limits=GENEROUS, room_limits=RoomLimits(**limits))
        self.tasks, self.grants = [], {}

    async def answer(self, server, tool, arguments, timeout_seconds, role, room, sessions):
        self.inside.append((arguments["caller"], server))
        await self.go.wait()
        return self.world.result

    async def begin(self, caller, count=1, size=10, server="postgres"):
        if caller not in self.grants:
            await self.world.journal.open(record(id=caller.key_name, state=State.RUNNING))
            self.grants[caller] = self.path.open(caller, caller.key_name, lambda call: None)
        for _ in range(count):
            self.tasks.append(asyncio.create_task(self.one(caller, size, server)))
        for _ in range(20):
            await asyncio.sleep(0)

    async def one(self, caller, size, server):
        grant = self.grants[caller]
        with self.path.room(grant) as room:
            return await self.path.call(grant, server, "query", {"caller": caller.key_name}, size, room)

    def of(self, caller):
        return sum(1 for name, _ in self.inside if name == caller.key_name)

    async def end(self):
        self.go.set()
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*self.tasks)
        for grant in self.grants.values():
            grant.revoke()
        await self.path.finish()
        return answers


async def test_a_caller_that_fills_a_servers_places_leaves_another_some(world):
    crowd = Crowd(world, calls_per_server=Shares(5, 3))
    await crowd.begin(DEVELOPER, 20)
    assert crowd.of(DEVELOPER) == 3
    waiting = [call.outcome for call in crowd.grants[DEVELOPER].calls()]
    assert (waiting.count("in_flight"), waiting.count("never_sent")) == (3, 17)
    await crowd.begin(OTHER_DEVELOPER, 2)
    assert crowd.of(OTHER_DEVELOPER) == 2
    assert len(await crowd.end()) == 22


async def test_a_server_is_given_no_more_bytes_of_one_caller_than_its_share(world):
    crowd = Crowd(world, request_bytes_per_server=Shares(30_000_000, 8_000_000))
    await crowd.begin(DEVELOPER, 8, size=3_600_000)
    assert crowd.of(DEVELOPER) == 2
    await crowd.begin(OTHER_DEVELOPER, 1, size=3_600_000)
    assert crowd.of(OTHER_DEVELOPER) == 1
    assert len(await crowd.end()) == 9


async def test_a_call_that_is_given_up_while_it_waits_for_a_place_was_never_sent(world):
    crowd = Crowd(world, calls_per_server=Shares(1, 1))
    await crowd.begin(DEVELOPER, 2)
    given_up = crowd.tasks.pop()
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    assert [call.outcome for call in crowd.grants[DEVELOPER].calls()] == ["in_flight", "never_sent"]
    await crowd.begin(DEVELOPER, 1)
    assert len(await crowd.end()) == 2
    assert crowd.of(DEVELOPER) == 2


# --- sessions of an execution's own ---


async def test_a_session_that_cannot_be_had_is_told_before_anything_is_sent(world):
    world.session_fault = SessionsFull("All sessions are in use.")
    with pytest.raises(SessionsFull):
        await ask(world.path())
    assert world.steps == ["role"]
    assert [(call.outcome, call.detail) for call in ask.calls] == [("limited", "All sessions are in use.")]


async def test_a_role_that_may_not_call_opens_no_session(world):
    with pytest.raises(ToolDenied):
        await ask(world.path(), server="secret")
    assert world.sessions == []


async def test_whoever_waits_for_a_session_holds_no_place_at_the_server(world):
    crowd = Crowd(world, calls_per_server=Shares(1, 1))
    there = asyncio.Event()

    async def open_session(server, sessions, timeout_seconds):
        if sessions is crowd.grants[DEVELOPER].sessions:
            await there.wait()

    world.open_session = open_session
    await crowd.begin(DEVELOPER)
    await crowd.begin(OTHER_DEVELOPER)
    assert (crowd.of(DEVELOPER), crowd.of(OTHER_DEVELOPER)) == (0, 1)
    there.set()
    assert len(await crowd.end()) == 2


async def test_the_time_that_a_session_takes_to_open_is_the_calls_own(world):
    left = []

    async def open_session(server, sessions, timeout_seconds):
        left.append(timeout_seconds)
        await asyncio.sleep(0.05)

    async def call(server, tool, arguments, timeout_seconds, role, room, sessions):
        left.append(timeout_seconds)
        return world.result

    world.open_session, world.call = open_session, call
    await ask(world.path())
    assert left[0] == 5
    assert 4 < left[1] <= 4.95


async def test_the_sessions_of_a_grant_end_with_it_and_with_its_key(world):
    path = world.path()
    ended = []
    for name in ("by itself", "with its key"):
        await world.journal.open(record(id=name, state=State.RUNNING))
        grant = path.open(DEVELOPER, name, lambda call: None)
        grant.sessions.when_ended(lambda name=name: ended.append(name))
        if name == "by itself":
            grant.revoke()
    assert ended == ["by itself"]
    world.hashes = ()
    path.drop_grants_of_lost_keys()
    assert ended == ["by itself", "with its key"]


# --- calls that no program makes ---


def direct(world, *policies):
    return DirectCalls(world.path(*policies), world.journal, Ends(world.journal), "this daemon")


async def test_a_direct_call_is_recorded_from_its_beginning_to_its_end(world):
    calls = direct(world)
    assert await calls.call(DEVELOPER, "d", "postgres", "query", {"sql": "select 1"}) == world.result
    found = await world.journal.find("d")
    assert (found.kind, found.state, found.outcome) == (Kind.CALL, State.FINISHED, Outcome.COMPLETED)
    assert (found.caller, found.role, found.instance) == (DEVELOPER.key_name, "developer", "this daemon")
    assert [(call.server, call.tool, call.outcome) for call in found.tool_calls] == [("postgres", "query", "done")]


@pytest.mark.parametrize(
    ("server", "fault", "error", "outcome"),
    [
        ("secret", None, ToolDenied, "denied"),
        ("postgres", ToolUnavailable("It is down."), ToolUnavailable, "unavailable"),
    ],
)
async def test_a_direct_call_that_fails_is_recorded_as_failed_with_its_cause(world, server, fault, error, outcome):
    world.fault = fault
    with pytest.raises(error):
        await direct(world).call(DEVELOPER, "d", server, "query", {})
    found = await world.journal.find("d")
    assert (found.state, found.outcome, found.error_code) == (State.FINISHED, Outcome.FAILED, error.code)
    assert [call.outcome for call in found.tool_calls] == [outcome]


async def test_policies_hold_for_direct_calls_too(world):
    with pytest.raises(ToolDenied):
        await direct(world, Denying()).call(DEVELOPER, "d", "postgres", "query", {})
    assert [call.outcome for call in (await world.journal.find("d")).tool_calls] == ["denied"]


async def test_a_defect_is_told_as_ours_not_as_a_cancellation(world):
    with pytest.raises(TypeError):
        await direct(world, Defective()).call(DEVELOPER, "d", "postgres", "query", {})
    found = await world.journal.find("d")
    assert (found.outcome, found.error_code) == (Outcome.SANDBOX_ERROR, "internal_error")
    assert [(call.outcome, call.detail) for call in found.tool_calls] == [("unavailable", "The daemon failed.")]


async def test_a_direct_call_whose_caller_leaves_is_told_as_cancelled_and_in_flight(world):
    never = asyncio.Event()
    reached = asyncio.Event()

    async def hang(*arguments):
        reached.set()
        await never.wait()

    world.call = hang
    calling = asyncio.create_task(direct(world).call(DEVELOPER, "d", "postgres", "query", {}))
    await reached.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    found = await world.journal.find("d")
    assert (found.outcome, [call.outcome for call in found.tool_calls]) == (Outcome.CANCELLED, ["in_flight"])


async def test_a_direct_call_whose_end_cannot_be_recorded_is_answered_all_the_same(world, monkeypatch):
    calls = direct(world)
    opened = world.journal.open

    async def open_then_break(*arguments):
        await opened(*arguments)
        world.journal.broken = True

    monkeypatch.setattr(world.journal, "open", open_then_break)
    assert await calls.call(DEVELOPER, "d", "postgres", "query", {}) == world.result


async def test_a_direct_call_of_a_key_that_is_taken_away_ends(world):
    reached = asyncio.Event()

    async def hang(*arguments):
        reached.set()
        await asyncio.Event().wait()

    world.call = hang
    path = world.path()
    calls = DirectCalls(path, world.journal, Ends(world.journal), "")
    calling = asyncio.create_task(calls.call(DEVELOPER, "d", "postgres", "query", {}))
    await reached.wait()
    path.drop_grants_of_lost_keys()
    assert not calling.done()  # the control: the key is there
    world.hashes = ()
    path.drop_grants_of_lost_keys()
    with pytest.raises(GrantInvalid):
        await calling


async def test_what_waited_while_its_key_was_taken_away_has_no_tools_from_the_start(world):
    path = world.path()
    world.hashes = ()
    with pytest.raises(GrantInvalid):
        await ask(path)
    assert world.steps == []
    assert [call.outcome for call in ask.calls] == ["denied"]


async def test_a_key_that_was_given_another_role_calls_with_that_one(world):
    world.roles["guest"] = Role("guest", frozenset())
    path = world.path()
    assert await ask(path)
    world.role = "guest"
    with pytest.raises(ToolDenied, match="guest"):
        await ask(path)


async def test_calls_wait_until_the_program_has_passed_its_check_and_only_then_are_in_the_ledger(world):
    path = world.path()
    await world.journal.open(record(id="e", state=State.RUNNING))
    grant = path.open(DEVELOPER, "e", lambda call: None, passed=False)
    with path.room(grant) as room:
        calling = asyncio.ensure_future(path.call(grant, "postgres", "query", {}, 10, room))
        await asyncio.sleep(0)
        assert (world.steps, grant.calls()) == ([], ())
        grant.passed.set()
        await calling
    assert [call.tool for call in grant.calls()] == ["query"]


async def test_a_call_that_waits_for_the_verdict_ends_with_the_grant_and_leaves_no_trace(world):
    path = world.path()
    grant = path.open(DEVELOPER, "e", lambda call: None, passed=False)
    with path.room(grant) as room:
        calling = asyncio.ensure_future(grant.within(path.call(grant, "postgres", "query", {}, 10, room)))
        await asyncio.sleep(0)
        grant.revoke()
        with pytest.raises(GrantInvalid):
            await calling
    assert (world.steps, grant.calls()) == ([], ())
