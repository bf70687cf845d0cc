"""How it is noticed that tools change under skills, and what becomes of those."""

import asyncio
import json
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from orchestrator.domain.errors import EngineUnavailable, SkillNotProven, SkillStale
from orchestrator.domain.execution import Outcome
from orchestrator.domain.skills import Proof, SkillState
from orchestrator.service import skill_drift
from orchestrator.service.skill_drift import FIRST_WAIT_SECONDS, REPLAYER
from orchestrator.service.skill_proofs import Proven, Run
from orchestrator.service.skill_reach import tool_digest
from tests.support.api import until
from tests.support.fake_executions import ProgramEnded
from tests.support.skill_world import APPROVER, AUTHOR, COLLEAGUE, QUERY, UPLOAD, SkillWorld
from tests.support.skills import RETURNS_COUNT, TAKES_TEXT, built_in

OPTIONAL = {**TAKES_TEXT, "properties": {**TAKES_TEXT["properties"], "limit": {"type": "integer"}}}
REQUIRED = {**OPTIONAL, "required": ["text", "limit"]}
ASKS = ("postgres/query",)


def query(program):
    return program.call("postgres/query", text=program.input["text"])["structuredContent"]


@pytest.fixture
def world():
    world = SkillWorld()
    world.executions.program = query
    return world


async def look(world):
    """Look until there is nothing new, and return how many programs were run for that."""
    before = len(world.executions.requests)
    revision = None
    while revision != world.shelf.revision:
        revision = world.shelf.revision
        await world.drift.take_up_changes(of_approved=True)
        await world.drift.take_up_changes(of_approved=False)
    return len(world.executions.requests) - before


def now(world, name="count_orders"):
    return world.shelf.approved(name)


def waiting(world, name):
    (found,) = [each for each in world.shelf.watched(approved=False) if each.name == name]
    return found


# What changes nothing.


async def test_nothing_is_run_while_the_tools_are_as_they_were(world):
    await world.approved(tools=ASKS)
    assert await look(world) == 0
    assert world.offered() == ["count_orders"]


async def test_words_for_readers_change_nothing(world):
    await world.approved(tools=ASKS)
    titled = {**TAKES_TEXT, "title": "Query", "properties": {"text": {"type": "string", "description": "What."}}}
    world.list_tools(replace(QUERY, description="In other words.", input_schema=titled), UPLOAD)
    assert await look(world) == 0
    assert world.offered() == ["count_orders"]


async def test_tools_that_it_does_not_call_change_nothing(world):
    await world.approved(tools=ASKS)
    world.list_tools(QUERY, replace(UPLOAD, input_schema=REQUIRED))
    assert await look(world) == 0


async def test_a_server_that_is_down_tells_nothing_about_its_tools(world):
    await world.approved(tools=ASKS)
    world.down = {"postgres"}
    world.list_tools(UPLOAD)
    assert await look(world) == 0
    assert now(world).effective_state is SkillState.APPROVED
    assert world.offered() == []


async def test_a_server_whose_tools_have_not_been_taken_up_yet_tells_nothing_either(world):
    await world.approved(tools=ASKS)
    world.list_tools(UPLOAD)  # it is connected, and of its tools nothing is known
    await look(world)
    assert now(world).drift == ()


# What is proven again.


@pytest.mark.parametrize(
    "changed",
    [replace(QUERY, input_schema=OPTIONAL), replace(QUERY, output_schema=RETURNS_COUNT)],
    ids=["an optional argument", "a schema of its results"],
)
async def test_a_change_that_what_was_recorded_fits_is_replayed_and_the_skill_goes_on(world, changed):
    before = await world.approved(tools=ASKS)
    world.list_tools(changed, UPLOAD)
    assert world.offered() == []  # until it has been looked at
    assert await look(world) == 1
    assert world.executions.requests[-1][0] is REPLAYER
    assert world.offered() == ["count_orders"]
    assert now(world).proof.digests == {"postgres/query": tool_digest(changed)}
    assert (now(world).state, now(world).approved_by) == (SkillState.APPROVED, before.approved_by)
    assert await look(world) == 0
    kept = Proven.unpacked(await world.shelf.recording(now(world)))
    assert kept.tools[0].input_schema == changed.input_schema


async def test_what_waits_for_its_approval_is_proven_again_as_well(world):
    saved = await world.save(tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)
    assert await look(world) == 1
    found = world.shelf.find(AUTHOR, saved.name)
    assert (found.effective_state, found.drift) == (SkillState.PROVEN, ())


async def test_what_was_proven_again_is_kept_over_a_start(world):
    await world.approved(tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)
    await look(world)
    assert await world.store.all() == [now(world)]


# What becomes stale.


async def test_a_new_required_argument_makes_it_stale_with_the_difference_and_runs_nothing(world):
    await world.approved(tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=REQUIRED), UPLOAD)
    with capture_logs() as logs:
        assert await look(world) == 0
    assert [each["event"] for each in logs] == ["skill.stale"]
    with pytest.raises(SkillStale, match="`limit` is new and required"):
        world.shelf.version_to_call(COLLEAGUE, "count_orders")
    assert world.offered() == []
    assert (await world.store.all())[0].drift == now(world).drift


async def test_a_result_that_does_not_fit_any_more_makes_it_stale(world):
    await world.approved(tools=ASKS)
    text = {"type": "object", "properties": {"count": {"type": "string"}}, "required": ["count"]}
    world.list_tools(replace(QUERY, output_schema=text), UPLOAD)
    assert await look(world) == 0
    assert "has a schema now" in " ".join(now(world).drift)


async def test_a_replay_that_does_something_else_makes_it_stale_and_tells_nothing_that_was_recorded(world):
    await world.approved(tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)

    def fails(program):
        raise ProgramEnded(Outcome.FAILED, "KeyError: 'private'")

    world.executions.program = fails
    assert await look(world) == 1
    assert now(world).drift[-1] == "The replay failed."
    assert "`limit` is new and optional" in now(world).drift[0]
    assert await look(world) == 0  # it is known not to fit these tools


async def test_a_tool_that_is_gone_makes_it_stale(world):
    await world.approved(tools=ASKS)
    world.list_tools(replace(QUERY, name="ask"), UPLOAD)
    assert await look(world) == 0
    assert now(world).drift == ("`postgres/query` is not there any more.",)


async def test_what_uses_a_stale_skill_is_stale_and_fits_again_together_with_it(world):
    world.executions.program = lambda program: {"count": 1}
    await world.approved("outer_first", tools=())  # whatever the order in which they are looked at
    await world.approved("inner", tools=ASKS)
    await world.approved("outer", tools=("skills/inner",))
    world.list_tools(replace(QUERY, name="ask"), UPLOAD)
    await look(world)
    assert now(world, "outer").drift == ("`skills/inner` is stale.",)
    world.list_tools(QUERY, UPLOAD)
    await look(world)
    assert (now(world, "inner").drift, now(world, "outer").drift) == ((), ())
    assert world.offered() == ["inner", "outer", "outer_first"]


async def test_a_skill_fits_again_when_its_tools_are_as_they_were(world):
    await world.approved(tools=ASKS)
    for changed in (replace(QUERY, input_schema=REQUIRED), replace(QUERY, name="ask")):
        world.list_tools(changed, UPLOAD)
        await look(world)
        assert now(world).effective_state is SkillState.STALE
        world.list_tools(QUERY, UPLOAD)
        assert await look(world) == 0
        assert now(world).effective_state is SkillState.APPROVED
        assert world.offered() == ["count_orders"]
    assert (await world.store.all())[0].drift == ()


async def test_only_so_many_differences_are_told(world):
    await world.approved(tools=ASKS)
    many = {**TAKES_TEXT, "required": ["text", *(f"more{number}" for number in range(100))]}
    world.list_tools(replace(QUERY, input_schema=many), UPLOAD)
    await look(world)
    assert len(now(world).drift) == 8


# The author's own.


async def test_a_skill_of_an_author_may_use_another_that_nobody_has_approved_yet(world):
    world.executions.program = lambda program: {"count": 1}
    await world.save("inner")
    saved = await world.save("outer", tools=("skills/inner",))
    assert await look(world) == 0
    assert world.shelf.find(AUTHOR, "outer").effective_state is SkillState.PROVEN
    assert (await world.drift.replay(AUTHOR, saved)).problem is None
    assert world.executions.runs[-1].skill.prepared["skills/_code/inner.py"]


# What goes wrong meanwhile.


async def test_while_no_sandbox_can_be_had_it_stays_hidden_and_is_tried_again(world):
    await world.approved(tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)
    world.executions.fault = EngineUnavailable("The engine does not answer.")
    for seconds in (FIRST_WAIT_SECONDS, 2 * FIRST_WAIT_SECONDS):
        with capture_logs() as logs:
            assert await look(world) == 1
            assert await look(world) == 0  # it is not tried again at once
        assert [each["event"] for each in logs] == ["skill.not_looked_at"]
        assert (now(world).drift, world.offered()) == ((), [])
        world.seconds += seconds
    world.executions.fault = None
    assert await look(world) == 1
    assert world.offered() == ["count_orders"]


async def test_one_that_cannot_be_judged_keeps_no_other_from_it(world):
    await world.approved("first", tools=ASKS)
    await world.approved("second", tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)

    def fails_for_the_first(program):
        if "skills/_code/first.py" in program.files:
            raise ProgramEnded(Outcome.SANDBOX_ERROR, detail="It does not fit.")
        return query(program)

    world.executions.program = fails_for_the_first
    await look(world)
    assert world.offered() == ["second"]


async def test_a_change_while_it_looks_is_looked_at_the_next_time(world):
    world.executions.program = lambda program: {"count": 1}
    await world.approved("first", tools=("minio/upload",))
    world.executions.program = query
    await world.approved("second", tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)

    def changes_the_first_meanwhile(program):
        world.list_tools(replace(QUERY, input_schema=OPTIONAL), replace(UPLOAD, name="put"))
        return query(program)

    world.executions.program = changes_the_first_meanwhile
    await look(world)
    await look(world)
    assert now(world, "first").drift == ("`minio/upload` is not there any more.",)


async def test_what_was_saved_again_while_it_was_looked_at_keeps_its_new_proof(world):
    saved = await world.save(tools=ASKS)
    world.list_tools(replace(QUERY, input_schema=REQUIRED), UPLOAD)
    again = await world.shelf.add(replace(saved, proof=Proof(2.0, {"postgres/query": "new"})), b"new")
    await world.shelf.change_proof(saved, saved.proof, ("`limit` is new and required.",))
    assert world.shelf.find(AUTHOR, saved.name) == again


# Built-in skills.


async def test_what_comes_along_is_replayed_from_its_file_and_judged_as_others_are():
    came_along = built_in("count_orders", proof=Proof(1.0, {"postgres/query": "of another edition"}))
    world = SkillWorld(came_along)
    world.recordings["count_orders"] = json.dumps(
        Proven((Run({"text": "abc"}, (), {"count": 3}),), (QUERY,)).as_document()
    ).encode()
    assert world.offered() == []
    world.executions.program = lambda program: {"count": 3}
    assert await look(world) == 1
    assert world.offered() == ["count_orders"]


async def test_what_comes_along_for_another_server_of_that_name_is_not_called_stale():
    world = SkillWorld(built_in("count_orders", tools=("postgres/other",), proof=Proof(1.0, {"postgres/other": "a"})))
    await look(world)
    assert (now(world).drift, world.offered()) == ((), [])


# On demand.


async def test_a_replay_on_demand_needs_neither_server_nor_tool(world):
    saved = await world.approved(tools=ASKS)
    world.down, world.executions.tools = {"postgres"}, {}
    world.list_tools(UPLOAD)
    assert (await world.drift.replay(COLLEAGUE, saved)).problem is None


async def test_only_the_author_reads_what_a_replay_on_demand_printed(world):
    saved = await world.approved(tools=ASKS)

    def fails(program):
        raise ProgramEnded(Outcome.FAILED, "KeyError: 'private'")

    world.executions.program = fails
    assert "private" in (await world.drift.replay(AUTHOR, saved)).problem
    for other in (COLLEAGUE, APPROVER):
        assert (await world.drift.replay(other, saved)).problem == "The replay failed."


async def test_a_draft_has_nothing_to_replay(world):
    world.executions.program = lambda program: {"count": "many"}
    draft = await world.save(tools=ASKS)
    with pytest.raises(SkillNotProven, match=f"Version {draft.version} of count_orders has no recording"):
        await world.drift.replay(AUTHOR, draft)


# What uses another skill.


async def test_a_skill_that_is_used_is_replaced_by_one_that_does_the_same_and_what_uses_it_goes_on(world):
    world.executions.program = lambda program: {"count": 1}
    await world.approved("inner")
    outer = await world.approved("outer", tools=("skills/inner",))
    await world.approved("inner", code="def run(input):\n    return {'count': 1}\n")
    assert await look(world) == 1
    assert now(world, "outer").effective_state is SkillState.APPROVED
    assert now(world, "outer").proof.digests != outer.proof.digests


async def test_what_was_proven_with_another_version_in_a_sandbox_of_its_own_is_stale(world):
    """Its replay would be answered from the recording, and so run none of the new version."""
    world.executions.program = lambda program: {"count": 1}
    world.executions.tools["skills/inner"] = lambda arguments: {"structuredContent": {"count": 1}}
    await world.approved("inner")
    world.executions.program = lambda program: program.call("skills/inner", text="a")["structuredContent"]
    await world.approved("outer", tools=("skills/inner",))
    world.executions.program = lambda program: {"count": 1}
    await world.approved("inner", code="def run(input):\n    return {'count': 1}\n")
    assert await look(world) == 0
    assert now(world, "outer").drift == ("`skills/inner` has another version now, which it was not proven with.",)


async def test_what_a_skill_in_its_process_passed_must_fit_as_what_it_passed_itself(world):
    await world.approved("inner", tools=ASKS)
    world.executions.tools["postgres/query"] = lambda arguments: {"structuredContent": {"count": 1}}
    long = ({"text": "abcdef"},)
    await world.approved("outer", tools=("skills/inner",), examples=long)
    narrow = {**TAKES_TEXT, "properties": {"text": {"type": "string", "enum": ["abc"]}}}
    world.list_tools(replace(QUERY, input_schema=narrow), UPLOAD)
    await look(world)
    assert now(world, "inner").effective_state is SkillState.APPROVED
    assert now(world, "outer").effective_state is SkillState.STALE


async def test_what_a_skill_in_its_process_called_in_a_sandbox_of_its_own_is_looked_at_too(world):
    world.executions.program = lambda program: {"count": 1}
    world.executions.tools["skills/last"] = lambda arguments: {"structuredContent": {"count": 1}}
    await world.approved("last")
    world.executions.program = lambda program: program.call("skills/last", text="a")["structuredContent"]
    await world.approved("inner", tools=("skills/last",))
    await world.approved("outer", tools=("skills/inner",))
    world.executions.program = lambda program: {"count": 1}
    await world.approved("last", code="def run(input):\n    return {'count': 999}\n")
    world.executions.program = lambda program: program.call("skills/last", text="a")["structuredContent"]
    await world.approved("inner", code="# again\n", tools=("skills/last",))
    await look(world)
    assert now(world, "outer").drift == ("`skills/last` has another version now, which it was not proven with.",)


async def test_a_skill_that_is_used_must_not_bring_in_a_tool_that_nobody_approved_for_what_uses_it(world):
    world.executions.program = lambda program: {"count": 1}
    await world.approved("inner")
    await world.approved("outer", tools=("skills/inner",))
    await world.approved("inner", code="def run(input):\n    return {'count': 2}\n", tools=("minio/upload",))
    assert await look(world) == 0
    assert now(world, "outer").drift == ("`minio/upload` is called by a skill that it uses, and was not before.",)


async def test_whoever_asks_for_many_replays_keeps_nobody_from_looking(world):
    saved = await world.approved(tools=ASKS)
    world.executions.may_go_on.clear()
    asking = [asyncio.create_task(world.drift.replay(AUTHOR, saved)) for _ in range(10)]
    await until(lambda: world.executions.running > 0)
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)
    looking = asyncio.create_task(world.drift.take_up_changes())
    await until(lambda: world.executions.running == 2)  # and not one for each that was asked for
    world.executions.may_go_on.set()
    await looking
    assert [(await each).problem for each in asking] == [None] * 10
    assert world.offered() == ["count_orders"]


async def test_one_that_takes_long_is_stale_and_not_tried_again_with_the_same_tools(world):
    await world.save("slow", AUTHOR, tools=ASKS)
    world.executions.slow_skills = {"slow"}
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)
    await look(world)
    assert world.executions.runs[-1].timeout_seconds == skill_drift.WAITING_SECONDS
    assert "takes too long" in waiting(world, "slow").drift[-1]
    assert await look(world) == 0


async def test_all_examples_share_the_time_that_one_has(world):
    await world.save("slow", tools=ASKS, examples=({"text": "a"}, {"text": "b"}))
    world.executions.seconds = skill_drift.WAITING_SECONDS
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)
    assert await look(world) == 1
    assert "takes too long" in waiting(world, "slow").drift[-1]


async def test_one_that_waits_to_be_run_is_not_stale_and_keeps_only_others_of_its_author_waiting(world, monkeypatch):
    for name in ("WAITING_SECONDS", "QUEUE_SECONDS"):
        monkeypatch.setattr(skill_drift, name, skill_drift.LEAST_SECONDS)
    await world.save("waits", AUTHOR, tools=ASKS)
    await world.save("quick", COLLEAGUE, tools=ASKS, code="# quick\n")
    world.executions.waiting_skills = {"waits"}
    world.list_tools(replace(QUERY, input_schema=OPTIONAL), UPLOAD)
    await look(world)
    waits, quick = waiting(world, "waits"), waiting(world, "quick")
    assert (waits.drift, quick.drift) == ((), ())
    assert waits.proof.digests != quick.proof.digests
    world.executions.waiting_skills = frozenset()
    world.seconds += skill_drift.LONGEST_WAIT_SECONDS
    assert await look(world) == 1
    assert waiting(world, "waits").proof.digests == quick.proof.digests
