"""The steps of the one way to call a tool, in their order."""

import asyncio

import pytest

from orchestrator.domain.access import AccessBook
from orchestrator.domain.errors import GrantInvalid, InvalidArguments, LimitExceeded, ToolDenied, ToolUnavailable
from orchestrator.domain.execution import GatewayLimits, Kind, Outcome, State
from orchestrator.domain.tools import Tool
from orchestrator.service.direct_calls import DirectCalls
from orchestrator.service.tool_calls import ToolCalls
from tests.support.fake_journal import FakeJournal
from tests.support.samples import DEVELOPER, record

LIMITS = GatewayLimits(
    max_calls=2, max_concurrent_calls=2, max_request_bytes=1000, max_total_bytes=1000, call_timeout_seconds=5
)


class World:
    """Everything beside the path itself; notes what happened, in order."""

    def __init__(self):
        self.steps = []
        self.journal = FakeJournal()
        self.result = {"content": [{"type": "text", "text": "42"}]}
        self.fault = None
        self.roles = {DEVELOPER.role.name: DEVELOPER.role}

    @property
    def book(self):
        return AccessBook(self.roles, {}, ())

    def callable_tool(self, role, server, name):
        self.steps.append("role")
        if not role.may_call(server, name):
            raise ToolDenied(f"Role {role.name} may not call {server}/{name}.")
        return Tool(server, name)

    async def call(self, server, tool, arguments, timeout_seconds, role):
        self.steps.append(("dispatch", dict(arguments)))
        if self.fault is not None:
            raise self.fault
        return self.result

    def note(self, tool, result):
        self.steps.append(("observe", result))

    def path(self, *policies):
        return ToolCalls(self, self, self, self, self.journal, LIMITS, policies)


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
        return await path.call(grant, server, tool, {} if arguments is None else arguments, size), grant
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


# --- calls that no program makes ---


def direct(world, *policies):
    return DirectCalls(world.path(*policies), world.journal, "this daemon")


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
    calling = asyncio.create_task(DirectCalls(path, world.journal, "").call(DEVELOPER, "d", "postgres", "query", {}))
    await reached.wait()
    path.drop_grants_of_lost_keys()
    with pytest.raises(GrantInvalid):
        await calling
