"""The one way to call a tool, for a skill: only what it declares, recorded or answered from a recording."""

from dataclasses import replace

import pytest

from orchestrator.domain.access import AccessBook, KeyHash
from orchestrator.domain.errors import LimitExceeded, OrchestratorError, ToolDenied, ToolUnavailable
from orchestrator.domain.execution import GatewayLimits, State
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.service.scopes import RecordedCall, Recording, Replay, Scope
from orchestrator.service.tool_calls import MAX_USED_SKILLS, ToolCalls
from tests.support.fake_journal import FakeJournal
from tests.support.samples import DEVELOPER, record

LIMITS = GatewayLimits(
    max_calls=1000, max_concurrent_calls=2, max_request_bytes=1000, max_total_bytes=100_000, call_timeout_seconds=5
)
QUERY, DROP = "postgres/query", "postgres/drop"
RESULT = {"content": [], "structuredContent": {"count": 3}}


class World:
    """Everything beside the path itself: servers, skills, who may call what."""

    def __init__(self):
        self.journal = FakeJournal()
        self.dispatched = []
        self.fault = None
        self.used = []
        self.live = True

    @property
    def book(self):
        hashes = (KeyHash(DEVELOPER.key_name, DEVELOPER.key_sha256),) if self.live else ()
        return AccessBook({DEVELOPER.role.name: DEVELOPER.role}, {DEVELOPER.key_name: "developer"}, hashes)

    def callable_tool(self, role, server, name, own=()):
        traits = SkillTraits("1" * 64, "python", ()) if server == "skills" else None
        return Tool(server, name, skill=traits)

    async def open_session(self, server, sessions, timeout_seconds):
        pass

    async def call(self, *call):
        """Answer for servers, which are told nine things, and for skills, of which a call is one of four."""
        is_skill = len(call) == 4
        self.dispatched.append((call[2].path, call[3]) if is_skill else (f"{call[0]}/{call[1]}", call[2]))
        if self.fault is not None:
            raise self.fault
        return RESULT

    def own_tools(self, caller, role):
        return ()

    def count_use(self, caller, role, name, *, failed):
        self.used.append((name, failed))

    def note(self, role, tool, result):
        pass

    async def ask(self, scope, path=QUERY, **arguments):
        calls = ToolCalls(self, self, self, self, self.journal, LIMITS, (Adding(),))
        calls.skills = self
        await self.journal.open(record(id="e", state=State.RUNNING))
        grant = calls.open(DEVELOPER, "e", lambda call: None, scope=scope)
        server, _, tool = path.partition("/")
        try:
            with calls.room(grant) as room:
                return (await calls.call(grant, server, tool, arguments, 10, room)).result
        finally:
            self.ledger = [call.outcome for call in grant.calls()]
            grant.revoke()
            await calls.finish()


class Adding:
    """A policy that changes what goes out and what comes back."""

    async def before(self, call):
        return {**call.arguments, "added": True}

    async def after(self, call, result):
        return {**result, "seen": True}


@pytest.fixture
def world():
    return World()


def scope(*tools, **more):
    return Scope(frozenset(tools or (QUERY,)), ("count_orders",), **more)


async def test_what_a_skill_declares_is_called_as_by_any_program(world):
    assert await world.ask(scope(), text="a") == {**RESULT, "seen": True}
    assert world.dispatched == [(QUERY, {"text": "a", "added": True})]


async def test_what_it_does_not_declare_is_never_sent_and_is_in_the_ledger(world):
    narrow = scope()
    with pytest.raises(ToolDenied, match="The skill count_orders does not declare postgres/drop"):
        await world.ask(narrow, DROP)
    assert (world.dispatched, world.ledger, narrow.refused) == ([], ["denied"], [DROP])


async def test_a_call_is_noted_as_undeclared_before_the_role_is_asked(world):
    """Otherwise a skill would be proven whose author may not call what its callers may."""

    def denies(role, server, name, own=()):
        raise ToolDenied("The role may not call it.")

    world.callable_tool = denies
    scope = Scope(frozenset({QUERY}), ("count",), recording=Recording())
    with pytest.raises(ToolDenied, match="does not declare"):
        await world.ask(scope, DROP)
    assert scope.refused == [DROP]


async def test_a_call_is_noted_though_there_are_no_calls_left(world):
    """Somebody else's role may have more of them."""
    scope = Scope(frozenset({QUERY}), ("count",), recording=Recording())
    calls = ToolCalls(world, world, world, world, world.journal, replace(LIMITS, max_calls=0))
    grant = calls.open(DEVELOPER, "e", lambda call: None, scope=scope)
    with calls.room(grant) as room, pytest.raises(LimitExceeded):
        await calls.call(grant, "postgres", "drop", {}, 10, room)
    grant.revoke()
    await calls.finish()
    assert scope.refused == [DROP]


async def test_an_approved_skill_is_offered_nothing_that_its_caller_saved(world):
    asked = []
    world.own_tools = lambda caller, role: asked.append(role) or ()
    for of_approved in (True, False):
        scope = Scope(frozenset({"skills/inner"}), ("outer",), of_approved=of_approved)
        await world.ask(scope, "skills/inner")
        assert bool(asked) is not of_approved


async def test_what_is_recorded_is_what_the_program_asked_and_what_it_was_given(world):
    narrow = scope(recording=Recording())
    await world.ask(narrow, text="a")
    assert narrow.recording.calls == [RecordedCall(QUERY, {"text": "a"}, {**RESULT, "seen": True})]


async def test_a_call_that_fails_is_recorded_with_its_error(world):
    narrow, world.fault = scope(recording=Recording()), ToolUnavailable("It is down.")
    with pytest.raises(ToolUnavailable):
        await world.ask(narrow, text="a")
    assert narrow.recording.calls == [RecordedCall(QUERY, {"text": "a"}, None, ("tool_unavailable", "It is down."))]


async def test_a_replayed_call_reaches_no_server_and_no_policy(world):
    narrow = scope(replay=Replay((RecordedCall(QUERY, {"text": "a"}, RESULT),)))
    assert await world.ask(narrow, text="a") == RESULT
    assert (world.dispatched, world.ledger, narrow.replay.left) == ([], ["replayed"], [])


async def test_a_replay_goes_on_though_the_key_is_gone(world):
    world.live = False
    narrow = scope(replay=Replay((RecordedCall(QUERY, {}, RESULT),)))
    assert await world.ask(narrow) == RESULT
    with pytest.raises(OrchestratorError):
        await world.ask(scope())
    assert world.dispatched == []


@pytest.mark.parametrize(("path", "kind"), [(DROP, ToolDenied), (QUERY, ToolUnavailable)])
async def test_a_replay_answers_nothing_that_was_not_recorded(world, path, kind):
    with pytest.raises(kind):
        await world.ask(scope(replay=Replay(())), path, text="a")
    assert (world.dispatched, world.ledger) == ([], ["denied" if path == DROP else "replayed"])


async def test_a_recorded_error_is_raised_again_and_in_the_ledger(world):
    narrow = scope(replay=Replay((RecordedCall(QUERY, {}, None, ("tool_denied", "Not this one.")),)))
    with pytest.raises(ToolDenied, match="Not this one"):
        await world.ask(narrow)
    assert world.ledger == ["replayed"]


async def test_a_skill_in_the_other_language_is_called_through_the_same_steps(world):
    narrow = scope("skills/inner", recording=Recording())
    await world.ask(narrow, "skills/inner", text="a")
    assert world.dispatched == [("skills/inner", {"text": "a", "added": True})]
    assert [call.path for call in narrow.recording.calls] == ["skills/inner"]


async def test_a_use_in_a_programs_own_process_is_counted_once_and_only_so_many_are(world):
    calls = ToolCalls(world, world, world, world, world.journal, LIMITS)
    calls.skills = world
    grant = calls.open(DEVELOPER, "e", lambda call: None)
    for failed in (False, False, True, True):
        calls.note_use(grant, "count_orders", failed=failed)
    assert world.used == [("count_orders", False), ("count_orders", True)]
    for number in range(2 * MAX_USED_SKILLS):
        calls.note_use(grant, f"skill_{number}", failed=False)
    assert len(world.used) == MAX_USED_SKILLS
    grant.revoke()
