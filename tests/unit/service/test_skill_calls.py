"""Skills that are run by name, and those that programs in the other language wait for."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from orchestrator.domain.errors import InvalidArguments, LimitExceeded, SkillNotFound, SkillStale
from orchestrator.domain.execution import Check, Ending, GatewayLimits, Language, Outcome, RoomLimits, Shares, Stream
from orchestrator.domain.upstream import is_failure
from orchestrator.service.call_recorder import Recorder
from orchestrator.service.grants import Grants
from orchestrator.service.rooms import Rooms
from orchestrator.service.sandboxes import Lease
from orchestrator.service.scopes import Scope
from orchestrator.service.skill_calls import TOLD_CHARACTERS, SkillCalls
from orchestrator.service.skill_files import driver
from tests.support.api import until
from tests.support.fake_executions import input_of
from tests.support.fake_sources import FakeSources
from tests.support.fake_tool_calls import FakeProvisions
from tests.support.samples import limits
from tests.support.skill_world import AUTHOR, COLLEAGUE, SkillWorld

LIMITS = GatewayLimits(
    max_calls=100, max_concurrent_calls=10, max_request_bytes=1000, max_total_bytes=1000, call_timeout_seconds=5
)
COMPLETED = Ending(Outcome.COMPLETED, exit_code=0)
INPUT = {"text": "abc"}


class Sandbox:
    """Runs what the test says instead of a program, with the grant that was issued for it."""

    def __init__(self, place, number):
        self.place, self.id = place, f"sandbox-{number}"
        self.brought = {}
        self.grant = None

    async def bring(self, path, pieces):
        self.brought[path] = b"".join([piece async for piece in pieces]).decode()

    async def run(self, program, receive):
        self.grant = self.place.grants.find(program.environment["CODE_EXECUTOR_GRANT"], self.id)
        self.program = program
        return await self.place.run(self, receive)


class Place(SkillWorld):
    """The world of skills, with sandboxes for those that programs wait for."""

    def __init__(self):
        super().__init__()
        self.recorder = Recorder(self.journal)
        self.grants = Grants(LIMITS, self.recorder, Rooms(RoomLimits()))
        self.sandboxes, self.in_use = [], 0
        self.ending = COMPLETED
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.lease_fault = None
        self.calls = SkillCalls(
            self.shelf,
            FakeSources(),
            self.executions,
            self,
            FakeProvisions(),
            self.grants,
            limits,
            lambda role: self.list_tools(*self.tools),
            Shares(total=2, per_caller=1),
        )

    @asynccontextmanager
    async def lease(self, recipe, files, execution_id, timeout_seconds):
        if self.lease_fault is not None:
            raise self.lease_fault
        sandbox = Sandbox(self, len(self.sandboxes))
        self.sandboxes.append(sandbox)
        self.in_use += 1
        try:
            yield Lease(sandbox)
        finally:
            self.in_use -= 1

    async def run(self, sandbox, receive):
        await self.may_end.wait()
        receive(Stream.STDERR, b"printed\n")
        if self.ending.outcome is Outcome.COMPLETED:
            sandbox.grant.scope.hand_back({"count": len(input_of(sandbox.program.code)["text"])})
        return self.ending

    @property
    def sandbox(self):
        return self.sandboxes[-1]

    def grant(self, caller=AUTHOR, seconds=30.0, scope=None):
        deadline = None if seconds is None else time.monotonic() + seconds
        return self.grants.issue(caller, "e1", lambda call: None, "of the program", scope=scope, deadline=deadline)

    async def call(self, name="count_orders", grant=None, arguments=None):
        grant = grant or self.grant()
        skill = self.callable_tool(grant.caller.role, "skills", name, self.shelf.own_tools(grant.caller, AUTHOR.role))
        return await self.calls.call(grant, grant.caller.role, skill, INPUT if arguments is None else arguments)

    async def counted(self, name="count_orders"):
        await self.shelf.write_uses()
        found = self.shelf.find(AUTHOR, name)
        return found.uses, found.failures


@pytest.fixture
async def place():
    place = Place()
    place.executions.program = lambda program: {"count": 3}
    yield place
    assert place.in_use == 0
    await place.recorder.finish()


# For a program that waits.


async def test_a_program_gets_the_result_and_nothing_is_left_of_the_sandbox(place):
    await place.approved(tools=("postgres/query",))
    result = await place.call()
    assert (result["structuredContent"], is_failure(result)) == ({"count": 3}, False)
    assert place.sandbox.grant.revoked
    assert await place.counted() == (1, 0)


async def test_it_may_call_what_it_declares_within_the_budget_of_the_program(place):
    await place.approved("inner", tools=("minio/upload",))
    await place.approved("outer", tools=("postgres/query", "skills/inner"))
    grant = place.grant()
    await place.call("outer", grant)
    nested = place.sandbox.grant
    assert nested.scope.tools == {"postgres/query", "skills/inner", "minio/upload"}
    assert (nested.scope.chain, nested.scope.is_nested) == (("outer",), True)
    assert nested.ledger is grant.ledger
    assert nested.deadline == grant.deadline


async def test_its_author_waits_for_the_version_that_nobody_has_approved_yet(place):
    await place.save(code="def run(input): return 'mine'")
    await place.call()
    assert place.sandbox.brought["skills/_code/count_orders.py"] == "def run(input): return 'mine'"
    (skill,) = place.shelf.own_tools(AUTHOR, AUTHOR.role)
    with pytest.raises(SkillNotFound):
        await place.calls.call(place.grant(COLLEAGUE), COLLEAGUE.role, skill, INPUT)


async def test_an_input_that_does_not_fit_is_told_and_neither_run_nor_counted(place):
    await place.approved()
    with pytest.raises(InvalidArguments, match=r"`input\.text` is required"):
        await place.call(arguments={"txt": "abc"})
    assert (place.sandboxes, await place.counted()) == ([], (0, 0))


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY, Outcome.CANCELLED])
async def test_a_skill_that_fails_is_a_result_with_what_it_printed_and_is_counted(place, outcome):
    await place.approved()
    place.ending = Ending(outcome)
    result = await place.call()
    assert is_failure(result)
    assert result["content"] == [{"type": "text", "text": f"The skill {outcome.in_words}. printed"}]
    assert await place.counted() == (1, 1)


async def test_a_skill_that_hands_nothing_back_has_failed(place):
    await place.approved()

    async def returns_nothing(sandbox, receive):
        return COMPLETED

    place.run = returns_nothing
    assert is_failure(await place.call())


async def test_only_the_end_of_what_it_printed_is_told(place):
    await place.approved()

    async def prints_much(sandbox, receive):
        for number in range(1000):
            receive(Stream.STDOUT, b"%d " % number * 100)
        return Ending(Outcome.FAILED)

    place.run = prints_much
    text = (await place.call())["content"][0]["text"]
    assert text.endswith(" 999")
    assert len(text) <= TOLD_CHARACTERS + 100


async def test_a_supervisor_that_hangs_is_not_waited_for(place, monkeypatch):
    await place.approved()
    monkeypatch.setattr("orchestrator.service.skill_calls.BACKUP_KILL_SECONDS", -29.9)
    place.may_end.clear()
    result = await place.call()
    assert result["content"][0]["text"] == "The skill took too long."


async def test_a_sandbox_that_cannot_be_had_leaves_room_for_the_next_call(place):
    await place.approved()
    grant, place.lease_fault = place.grant(), LimitExceeded("No sandbox.")
    for _ in range(3):
        with pytest.raises(LimitExceeded, match="No sandbox"):
            await place.call(grant=grant)
    place.lease_fault = None
    assert not is_failure(await place.call(grant=grant))


@pytest.mark.parametrize("seconds", [0.0, 0.4, -5.0, None])
async def test_a_skill_is_not_begun_without_time_left(place, seconds):
    await place.approved()
    with pytest.raises(LimitExceeded, match="The program has no time left to run count_orders"):
        await place.call(grant=place.grant(seconds=seconds))
    assert place.sandboxes == []


async def test_a_skill_gets_what_is_left_of_the_programs_time(place):
    await place.approved()
    await place.call(grant=place.grant(seconds=10.0))
    assert 0 < place.sandbox.program.limits.timeout_seconds <= 10


# Skills that use skills.


async def test_a_skill_that_calls_itself_is_stopped(place):
    await place.approved()
    grant = place.grant(scope=Scope(frozenset({"skills/count_orders"}), ("count_orders",)))
    with pytest.raises(InvalidArguments, match="Skills must not call themselves: count_orders → count_orders"):
        await place.call(grant=grant)
    assert (place.sandboxes, await place.counted()) == ([], (0, 0))


async def test_skills_are_at_most_three_deep(place):
    await place.approved()
    for around in (("one",), ("one", "two")):
        assert not is_failure(await place.call(grant=place.grant(scope=Scope(frozenset(), around))))
    with pytest.raises(LimitExceeded, match="at most 3 deep: one → two → three → count_orders"):
        await place.call(grant=place.grant(scope=Scope(frozenset(), ("one", "two", "three"))))


async def test_a_chain_takes_one_place_however_deep_it_is(place):
    for name in ("inner", "middle", "outer"):
        await place.approved(name)
    told = place.run

    async def calls_the_next(sandbox, receive):
        chain = sandbox.grant.scope.chain
        if len(chain) < 3:
            await place.call(("outer", "middle", "inner")[len(chain)], sandbox.grant)
        return await told(sandbox, receive)

    place.run = calls_the_next
    async with asyncio.timeout(10):  # each caller has one place
        assert not is_failure(await place.call("outer"))
    assert len(place.sandboxes) == 3


# How many at once.


async def test_a_program_waits_for_one_skill_at_a_time(place):
    await place.approved()
    place.may_end.clear()
    grant = place.grant()
    waiting = [asyncio.create_task(place.call(grant=grant)) for _ in range(3)]
    await until(lambda: place.in_use)
    assert len(place.sandboxes) == 1
    place.may_end.set()
    assert [is_failure(await each) for each in waiting] == [False] * 3


async def test_a_callers_programs_share_its_places_and_leave_those_of_others(place):
    await place.approved()
    place.may_end.clear()
    waiting = [asyncio.create_task(place.call(grant=place.grant(AUTHOR))) for _ in range(3)]
    waiting.append(asyncio.create_task(place.call(grant=place.grant(COLLEAGUE))))
    await until(lambda: place.in_use == 2)
    assert len(place.sandboxes) == 2
    place.may_end.set()
    await asyncio.gather(*waiting)
    assert len(place.sandboxes) == 4


async def test_whoever_gives_up_leaves_its_place_and_nothing_of_its_sandbox(place):
    await place.approved()
    place.may_end.clear()
    running, waiting = (asyncio.create_task(place.call(grant=place.grant())) for _ in range(2))
    await until(lambda: place.in_use)
    nested = place.sandbox
    await until(lambda: nested.grant)
    for given_up in (waiting, running):
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    assert nested.grant.revoked
    assert place.in_use == 0
    place.may_end.set()
    assert not is_failure(await place.call())


# By name.


async def test_a_skill_is_run_by_its_name_with_the_rights_that_it_declares(place):
    saved = await place.approved(tools=("postgres/query",))
    await place.calls.start(COLLEAGUE, "count_orders", INPUT, "e1", 5.0)
    caller, request = place.executions.requests[-1]
    assert (caller, request.timeout_seconds, request.check) == (COLLEAGUE, 5.0, Check.OFF)
    assert request.skill.label == f"count_orders@{saved.version}"
    assert request.skill.scope.tools == {"postgres/query"}
    assert not request.skill.scope.returns
    assert input_of(request.code) == INPUT
    assert await place.counted() == (1, 0)


async def test_by_name_too_an_input_must_fit(place):
    await place.approved()
    with pytest.raises(InvalidArguments, match=r"`input\.text` must be a string, not an integer"):
        await place.calls.start(COLLEAGUE, "count_orders", {"text": 1}, "e1")
    assert await place.counted() == (0, 0)


async def test_nobody_starts_what_is_not_for_it_or_stale(place):
    saved = await place.save(tools=("postgres/query",))
    with pytest.raises(SkillNotFound):
        await place.calls.start(COLLEAGUE, "count_orders", INPUT, "e1")
    await place.shelf.change_proof(saved, saved.proof, ("`text` is gone.",))
    with pytest.raises(SkillStale):
        await place.calls.start(AUTHOR, "count_orders", INPUT, "e1")


@pytest.mark.parametrize(
    ("outcome", "failures"),
    [
        (Outcome.COMPLETED, 0),
        (Outcome.CANCELLED, 0),
        (None, 0),
        (Outcome.FAILED, 1),
        (Outcome.TIMED_OUT, 1),
    ],
)
async def test_how_it_ended_is_counted_unless_its_caller_cancelled_it(place, outcome, failures):
    await place.approved()
    await place.calls.start(COLLEAGUE, "count_orders", INPUT, "e1")
    place.calls.note_end(COLLEAGUE, "count_orders", outcome)
    assert await place.counted() == (1, failures)


async def test_uses_of_what_is_not_there_or_not_for_the_caller_are_not_counted(place):
    await place.approved(tools=("postgres/query",))
    denied = replace(COLLEAGUE.role, denied_tools=("skills/*",))
    place.calls.count_use(COLLEAGUE, COLLEAGUE.role, "unknown", failed=False)
    place.calls.count_use(COLLEAGUE, denied, "count_orders", failed=False)
    assert await place.counted() == (0, 0)
    assert place.shelf.uses.are_written


@pytest.mark.parametrize("text", ["'\"\\\n\u2028", "${x}`", "\ud800", "*/ // #", "</script>", "ä\x00"])
@pytest.mark.parametrize("language", list(Language))
def test_no_input_gets_out_of_the_program_that_hands_it_over(language, text):
    code = driver(language, "count_orders", {text: text})
    assert code.isascii()
    assert input_of(code) == {text: text}
    assert len(code.splitlines()) == 3


async def test_an_approved_skill_uses_what_is_approved_whatever_its_caller_saved(place):
    await place.approved("inner")
    outer = await place.approved("outer", tools=("skills/inner",))
    await place.save("inner", code="def run(input):\n    return {'count': 0}\n", tools=("postgres/query",))
    scope = Scope(place.shelf.reach.of(outer), ("outer",), of_approved=True)
    await place.call("inner", place.grant(scope=scope))
    assert place.sandbox.grant.scope.tools == frozenset()
    assert place.sandbox.grant.scope.of_approved


async def test_a_skill_that_is_used_may_call_no_more_than_what_uses_it_was_proven_with(place):
    await place.approved("inner", tools=("postgres/query", "minio/upload"))
    scope = Scope(frozenset({"skills/inner", "postgres/query"}), ("outer",))
    await place.call("inner", place.grant(scope=scope))
    assert place.sandbox.grant.scope.tools == {"postgres/query"}
