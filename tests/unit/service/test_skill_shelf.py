"""Which skills there are, who sees which, and what becomes of them."""

import asyncio
from dataclasses import replace

import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import (
    ApprovalDenied,
    InvalidRequest,
    JournalUnavailable,
    SkillNotFound,
    SkillNotProven,
    SkillStale,
)
from orchestrator.domain.execution import Language
from orchestrator.domain.skills import BUILT_IN, KEPT_RETIRED, Proof, SkillState
from orchestrator.service.skill_files import SkillCode
from orchestrator.service.skill_reach import Touched, tool_digest
from orchestrator.service.skill_shelf import SkillShelf
from tests.support.fake_skill_store import FakeSkillStore
from tests.support.skills import TAKES_TEXT, built_in, content, skill, tool

NEWER = 4e9  # than what is approved now
BOTH = frozenset({"postgres", "minio"})
AUTHOR = Caller("author-key", Role("developer", BOTH))
COLLEAGUE = Caller("colleague-key", Role("developer", BOTH))
APPROVER = Caller("approver-key", Role("lead", BOTH, approves_skills=True))
OTHER_APPROVER = Caller("other-approver-key", Role("lead", BOTH, approves_skills=True))
OUTSIDER = Caller("outsider-key", Role("reporter", frozenset({"minio"}), approves_skills=True))
QUERY, UPLOAD = tool("postgres/query", annotations={"readOnlyHint": True}), tool("minio/upload")


class Place:
    def __init__(self, *of_files, store=None):
        self.store = store or FakeSkillStore()
        self.changes = 0
        self.shelf = SkillShelf(self.store, of_files, self.note_change)
        self.list_tools()

    def note_change(self):
        self.changes += 1

    def list_tools(self, *tools, offers=(QUERY, UPLOAD)):
        every = tools or offers
        servers = {each.server for each in every}
        return self.shelf.offered({name: tuple(t for t in every if t.server == name) for name in servers})

    def proof_of(self, saved):
        return Proof(1000.0, self.shelf.reach.digests(saved.content, self.shelf.own_of(saved.author)) or {})

    async def save(self, name="count_orders", author=AUTHOR, state=SkillState.PROVEN, **more):
        saved = skill(name, author.key_name, state, **more)
        if state is SkillState.PROVEN:
            saved = replace(saved, proof=self.proof_of(saved))
        return await self.shelf.add(saved, b"recording")

    async def approved(self, name="count_orders", **more):
        saved = await self.save(name, **more)
        return await self.shelf.approve(APPROVER, name, saved.version)

    async def make_stale(self, saved, *drift):
        await self.shelf.change_proof(saved, saved.proof, drift or ("`text` is gone.",))


@pytest.fixture
def place():
    return Place()


def names(skills):
    return [each.name for each in skills]


def sees(place, caller, name="count_orders"):
    return name in names(place.shelf.listed(caller))


def may_call(place, caller, name="count_orders"):
    try:
        place.shelf.version_to_call(caller, name)
    except SkillNotFound:
        return False
    return True


# Who sees what.


async def test_a_draft_is_for_its_author_alone(place):
    saved = await place.save(state=SkillState.DRAFT)
    assert [sees(place, each) for each in (AUTHOR, COLLEAGUE, APPROVER)] == [True, False, False]
    assert [may_call(place, each) for each in (AUTHOR, COLLEAGUE, APPROVER)] == [True, False, False]
    for caller in (COLLEAGUE, APPROVER):
        with pytest.raises(SkillNotFound):
            place.shelf.find(caller, saved.name, saved.version)


async def test_what_is_proven_is_shown_to_approvers_and_used_by_its_author_alone(place):
    saved = await place.save()
    assert [sees(place, each) for each in (AUTHOR, COLLEAGUE, APPROVER)] == [True, False, True]
    assert [may_call(place, each) for each in (AUTHOR, COLLEAGUE, APPROVER)] == [True, False, False]
    assert place.shelf.find(APPROVER, saved.name) == saved
    assert place.shelf.own_tools(COLLEAGUE, COLLEAGUE.role) == place.shelf.own_tools(APPROVER, APPROVER.role) == ()
    assert names(place.shelf.own_tools(AUTHOR, AUTHOR.role)) == ["count_orders"]


async def test_what_is_approved_is_for_every_role_that_may_call_its_tools(place):
    await place.approved()
    everybody = (AUTHOR, COLLEAGUE, APPROVER, OUTSIDER)
    assert [sees(place, each) for each in everybody] == [True, True, True, False]
    assert [may_call(place, each) for each in everybody] == [True, True, True, False]
    assert [names(place.shelf.approved_for(each)) for each in (COLLEAGUE, OUTSIDER)] == [["count_orders"], []]


@pytest.mark.parametrize("state", [SkillState.DRAFT, SkillState.PROVEN])
async def test_whoever_may_not_call_a_tool_any_more_does_not_see_what_calls_it_even_as_its_author(place, state):
    await place.save(state=state)
    demoted = replace(AUTHOR, role=replace(AUTHOR.role, denied_tools=("postgres/query",)))
    assert not sees(place, demoted)
    assert not may_call(place, demoted)
    assert place.shelf.own_tools(demoted, demoted.role) == ()


async def test_retiring_tells_nothing_of_tools_that_its_author_may_not_call(place):
    saved = await place.save()
    await place.make_stale(saved, "minio/upload is called by a skill that it uses, and was not before.")
    demoted = replace(AUTHOR, role=replace(AUTHOR.role, denied_tools=("postgres/query",)))
    assert (await place.shelf.retire(demoted, "count_orders", saved.version)).drift == ()


async def test_what_an_author_uses_of_its_own_is_the_same_whoever_asks(place):
    """Otherwise one would be proven with a helper, and found stale with the approved one of that name."""
    await place.approved("helper", tools=("minio/upload",))
    helper = await place.save("helper", author=COLLEAGUE, code="own")
    no_minio = replace(COLLEAGUE, role=replace(COLLEAGUE.role, denied_tools=("minio/upload",)))
    assert place.shelf.own(no_minio)["helper"] == place.shelf.own_of(COLLEAGUE.key_name)["helper"] == helper


async def test_an_approver_neither_sees_nor_approves_what_calls_tools_that_its_role_may_not(place):
    saved = await place.save()
    assert not sees(place, OUTSIDER)
    with pytest.raises(SkillNotFound):
        await place.shelf.approve(OUTSIDER, saved.name, saved.version)


async def test_a_skill_needs_the_tools_of_the_skills_that_it_uses(place):
    await place.approved("read_orders")
    await place.approved("store_orders", tools=("minio/upload", "skills/read_orders"))
    assert not sees(place, OUTSIDER, "store_orders")
    assert sees(place, COLLEAGUE, "store_orders")
    (offered,) = [each for each in place.list_tools() if each.name == "store_orders"]
    assert sorted(offered.skill.requires) == [("minio", "upload"), ("postgres", "query"), ("skills", "read_orders")]
    assert not offered.is_for(OUTSIDER.role)


async def test_when_a_used_skill_is_replaced_what_uses_it_needs_the_tools_of_the_new_one(place):
    await place.approved("store", tools=("minio/upload",))
    await place.approved("report", tools=("skills/store",))
    assert sees(place, OUTSIDER, "report")
    await place.approved("store", code="other", tools=("minio/upload", "postgres/query"), at=2000.0)
    assert not sees(place, OUTSIDER, "report")


@pytest.mark.parametrize("pattern", ["skills/count_orders", "skills/*"])
async def test_a_role_may_be_denied_a_skill_by_its_name(place, pattern):
    await place.approved()
    denied = replace(COLLEAGUE, role=replace(COLLEAGUE.role, denied_tools=(pattern,)))
    assert not sees(place, denied)
    assert not may_call(place, denied)


async def test_an_authors_newer_version_comes_before_the_approved_one_for_the_author_alone(place):
    before = await place.approved()
    mine = await place.save(code="newer", at=before.approved_at + 1)
    assert place.shelf.version_to_call(AUTHOR, "count_orders") == mine
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == before
    assert place.shelf.find(AUTHOR, "count_orders") == mine


async def test_what_is_proven_comes_before_what_is_approved_for_its_author_alone(place):
    waits = await place.save(author=COLLEAGUE, code="waits")
    approved = await place.approved(code="other")
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == waits
    assert place.shelf.version_to_call(AUTHOR, "count_orders") == approved


async def test_a_draft_comes_before_nothing_that_can_be_used(place):
    approved = await place.approved()
    draft = await place.save(author=COLLEAGUE, code="draft", state=SkillState.DRAFT)
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == approved
    await place.make_stale(approved, "`text` is gone.")
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == draft


async def test_a_stale_version_of_ones_own_gives_way_to_what_is_approved(place):
    own = await place.save(author=COLLEAGUE, code="own")
    approved = await place.approved()
    await place.make_stale(own, "`text` is gone.")
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == approved


async def test_the_bytes_that_are_approved_are_used_as_approved(place):
    await place.save(author=COLLEAGUE)
    approved = await place.approved()
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == approved
    assert place.shelf.own(COLLEAGUE) == {}


async def test_a_stale_skill_is_nobodys_to_call_and_says_how_the_tools_have_changed(place):
    saved = await place.approved()
    await place.make_stale(saved, "`text` is gone.")
    for caller in (AUTHOR, COLLEAGUE):
        with pytest.raises(SkillStale, match="`text` is gone"):
            place.shelf.version_to_call(caller, "count_orders")
    with pytest.raises(SkillNotFound):
        place.shelf.version_to_call(OUTSIDER, "count_orders")
    assert place.shelf.approved_for(COLLEAGUE) == []
    assert [sees(place, each) for each in (AUTHOR, COLLEAGUE, APPROVER)] == [True, False, True]


async def test_the_version_in_use_is_the_one_that_each_callers_programs_get(place):
    approved = await place.approved()
    mine = await place.save(code="newer", at=approved.approved_at + 1)
    in_use = [place.shelf.version_in_use(each, "count_orders") for each in (AUTHOR, COLLEAGUE, OUTSIDER)]
    assert in_use == [mine.version, approved.version, None]


async def test_no_version_of_a_retired_or_stale_skill_or_of_one_whose_tools_are_not_there_is_in_use(place):
    retired, stale, lonely = [await place.approved(each) for each in ("retired", "stale", "lonely")]
    await place.shelf.retire(APPROVER, retired.name, retired.version)
    await place.make_stale(stale)
    assert [place.shelf.version_in_use(AUTHOR, each.name) for each in (retired, stale)] == [None, None]
    assert place.shelf.version_in_use(AUTHOR, lonely.name) == lonely.version
    place.list_tools(UPLOAD)
    assert place.shelf.version_in_use(AUTHOR, lonely.name) is None


async def test_a_skill_that_comes_along_is_listed_only_where_its_tools_are():
    place = Place(built_in("table_profile"))
    assert sees(place, COLLEAGUE, "table_profile")
    place.list_tools(UPLOAD)
    assert not sees(place, COLLEAGUE, "table_profile")
    assert not sees(place, APPROVER, "table_profile")


async def test_an_unknown_version_is_told_as_such(place):
    await place.save()
    with pytest.raises(SkillNotFound, match="There is no skill count_orders with version 000"):
        place.shelf.find(AUTHOR, "count_orders", "0" * 64)
    with pytest.raises(SkillNotFound, match=r"There is no skill another\."):
        place.shelf.find(AUTHOR, "another")


# Saving.


async def test_saving_again_under_a_name_retires_what_the_author_had_open(place):
    first = await place.save(code="1")
    await place.save(code="2")
    assert place.shelf.find(AUTHOR, first.name, first.version).state is SkillState.RETIRED
    with pytest.raises(SkillNotFound):
        place.shelf.find(APPROVER, first.name, first.version)


async def test_saving_what_is_approved_already_leaves_it_approved(place):
    approved = await place.approved()
    assert await place.save() == approved
    assert await place.save(state=SkillState.DRAFT) == approved
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == approved
    assert await place.store.all() == [approved]


async def test_a_stale_skill_that_is_proven_anew_waits_for_its_approval(place):
    saved = await place.approved()
    await place.make_stale(saved)
    again = await place.save(at=2000.0)
    assert again.effective_state is SkillState.PROVEN
    assert not may_call(place, COLLEAGUE)
    approved = await place.shelf.approve(APPROVER, again.name, again.version)
    assert place.shelf.version_to_call(COLLEAGUE, "count_orders") == approved


async def test_a_stale_skill_whose_new_proof_fails_stays_approved_until_its_tools_are_as_they_were(place):
    saved = await place.approved()
    await place.make_stale(saved)
    kept = await place.save(state=SkillState.DRAFT)
    assert kept.effective_state is SkillState.STALE
    await place.shelf.change_proof(kept, kept.proof)
    assert may_call(place, COLLEAGUE)


async def test_what_is_saved_again_keeps_its_uses(place):
    saved = await place.save()
    place.shelf.uses.count(saved, failed=False)
    await place.shelf.write_uses()
    assert (await place.save(at=2000.0)).uses == 1
    assert place.shelf.find(AUTHOR, saved.name).uses == (await place.store.all())[0].uses == 1


async def test_the_shelf_forgets_what_the_store_forgets(place):
    for number in range(KEPT_RETIRED + 5):
        await place.save(code=str(number), at=float(number))
    held = {each.key for each in await place.store.all()}
    assert len(held) == KEPT_RETIRED + 1
    assert place.shelf._saved.keys() == held


async def test_after_a_start_everything_is_as_it_was(place):
    await place.approved()
    await place.save(code="mine", at=5000000000.0)
    await place.save("another_name", state=SkillState.DRAFT)
    restarted = Place(store=place.store)
    await restarted.shelf.load()
    for caller in (AUTHOR, COLLEAGUE, APPROVER):
        assert restarted.shelf.listed(caller) == place.shelf.listed(caller)


async def test_a_store_that_fails_changes_nothing(place):
    waiting = await place.save()
    before = place.shelf.listed(APPROVER), place.shelf.revision
    place.store.broken = True
    for change in (
        place.save(code="other"),
        place.shelf.approve(APPROVER, waiting.name, waiting.version),
        place.shelf.retire(AUTHOR, waiting.name, None),
        place.make_stale(waiting),
    ):
        with pytest.raises(JournalUnavailable):
            await change
    assert (place.shelf.listed(APPROVER), place.shelf.revision) == before


async def test_every_change_is_told_once(place):
    before = place.changes, place.shelf.revision
    await place.approved()
    assert (place.changes, place.shelf.revision) == (before[0] + 2, before[1] + 2)


# What uses what.


async def test_a_skill_must_not_call_itself_also_through_others(place):
    await place.approved("inner")
    await place.approved("outer", tools=("skills/inner",))
    with pytest.raises(InvalidRequest, match="inner → outer → inner"):
        place.shelf.reach.require_end(content("inner", tools=("skills/outer",)), {})
    with pytest.raises(InvalidRequest, match="fresh → fresh"):
        place.shelf.reach.require_end(content("fresh", tools=("skills/fresh",)), {})


async def test_a_skill_must_not_call_itself_through_the_authors_own(place):
    mine = skill("outer", tools=("skills/inner",))
    with pytest.raises(InvalidRequest, match="inner → outer → inner"):
        place.shelf.reach.require_end(content("inner", tools=("skills/outer",)), {"outer": mine})


async def test_skills_are_at_most_three_deep(place):
    await place.approved("first")
    await place.approved("second", tools=("skills/first",))
    third = content("third", tools=("skills/second",))
    place.shelf.reach.require_end(third, {})
    await place.approved("third", tools=("skills/second",))
    with pytest.raises(InvalidRequest, match="fourth → third → second → first"):
        place.shelf.reach.require_end(content("fourth", tools=("skills/third",)), {})


async def test_what_it_touches_is_told_with_what_servers_say_of_it(place):
    place.list_tools(QUERY, UPLOAD, tool("minio/odd", annotations={"readOnlyHint": "yes"}))
    saved = await place.save(tools=("postgres/query", "minio/upload", "minio/odd", "minio/gone"))
    assert place.shelf.reach.touched(saved) == [
        Touched("minio/gone", None, is_there=False),
        Touched("minio/odd", None, is_there=True),
        Touched("minio/upload", None, is_there=True),
        Touched("postgres/query", True, is_there=True),
    ]


# Approving and retiring.


async def test_approving_replaces_the_approved_version_and_keeps_by_whom(place):
    first = await place.approved(code="1")
    second = await place.save(author=COLLEAGUE, code="2")
    approved = await place.shelf.approve(APPROVER, second.name, second.version)
    assert (approved.state, approved.approved_by) == (SkillState.APPROVED, "approver-key")
    assert place.shelf.watched(approved=True) == (approved,)
    assert place.shelf.find(AUTHOR, first.name, first.version).state is SkillState.RETIRED
    held = {each.version: each.state for each in await place.store.all()}
    assert held == {first.version: SkillState.RETIRED, second.version: SkillState.APPROVED}


async def test_approving_twice_is_the_same_as_once(place):
    approved = await place.approved()
    revision = place.shelf.revision
    assert await place.shelf.approve(OTHER_APPROVER, approved.name, approved.version) == approved
    assert place.shelf.revision == revision


async def test_two_who_approve_at_the_same_time_approve_once(place):
    saved = await place.save()
    both = [place.shelf.approve(each, saved.name, saved.version) for each in (APPROVER, OTHER_APPROVER)]
    one, other = await asyncio.gather(*both)
    assert one == other
    assert one.approved_by == "approver-key"


async def test_a_role_without_the_right_to_approve_cannot(place):
    saved = await place.save()
    with pytest.raises(ApprovalDenied, match="Role developer must not approve skills: it lacks approvesSkills"):
        await place.shelf.approve(COLLEAGUE, saved.name, saved.version)


@pytest.mark.parametrize("state", [SkillState.DRAFT, SkillState.PROVEN])
async def test_whoever_saved_a_skill_cannot_approve_it(place, state):
    saved = await place.save(author=APPROVER, state=state)
    with pytest.raises(ApprovalDenied, match="Your key saved the same content, or imported it"):
        await place.shelf.approve(APPROVER, saved.name, saved.version)


@pytest.mark.parametrize("retired", [False, True])
async def test_whoever_saved_the_same_bytes_cannot_approve_them_for_another_author(place, retired):
    saved = await place.save()
    await place.save(author=APPROVER)
    if retired:
        await place.save(author=APPROVER, code="other", at=2000.0)
    with pytest.raises(ApprovalDenied):
        await place.shelf.approve(APPROVER, saved.name, saved.version)
    approved = await place.shelf.approve(OTHER_APPROVER, saved.name, saved.version)
    assert approved.author == AUTHOR.key_name


async def test_a_draft_cannot_be_approved(place):
    saved = await place.save(state=SkillState.DRAFT)
    with pytest.raises(SkillNotFound):
        await place.shelf.approve(APPROVER, saved.name, saved.version)


async def test_a_stale_skill_cannot_be_approved(place):
    saved = await place.save()
    await place.make_stale(saved, "`text` is gone.")
    with pytest.raises(SkillStale, match="`text` is gone"):
        await place.shelf.approve(APPROVER, saved.name, saved.version)


async def test_what_was_retired_cannot_be_approved(place):
    saved = await place.save()
    await place.shelf.retire(AUTHOR, saved.name, None)
    with pytest.raises(SkillNotFound):
        await place.shelf.approve(APPROVER, saved.name, saved.version)


async def test_what_uses_a_skill_is_approved_after_that(place):
    inner = await place.save("inner")
    outer = await place.save("outer", tools=("skills/inner",))
    with pytest.raises(
        SkillNotProven,
        match=rf"outer uses version {inner.version[:12]} of inner, which waits for approval: approve that first",
    ):
        await place.shelf.approve(APPROVER, "outer", outer.version)
    await place.shelf.approve(APPROVER, "inner", inner.version)
    approved = await place.shelf.approve(APPROVER, "outer", outer.version)
    assert approved.state is SkillState.APPROVED


async def test_what_would_call_itself_by_now_is_not_approved(place):
    for name, tools in (("inner", ()), ("middle", ("skills/inner",)), ("outer", ())):
        await place.approved(name, tools=tools)
    waiting = await place.save("outer", tools=("skills/middle",))
    await place.approved("inner", author=COLLEAGUE, tools=("skills/outer",))
    with pytest.raises(InvalidRequest, match="outer → middle → inner → outer"):
        await place.shelf.approve(APPROVER, "outer", waiting.version)


async def test_a_version_of_ones_own_that_ones_role_may_not_use_leaves_the_approved_one(place):
    await place.save("helper", author=COLLEAGUE)
    approved = await place.approved("helper", tools=("minio/upload",))
    no_query = replace(COLLEAGUE, role=replace(COLLEAGUE.role, denied_tools=("postgres/query",)))
    assert place.shelf.version_to_call(no_query, "helper") == approved


async def test_of_what_is_approved_and_a_later_draft_the_one_in_use_is_retired(place):
    await place.approved()
    draft = await place.save(code="draft", state=SkillState.DRAFT)
    await place.shelf.retire(AUTHOR, "count_orders", None)
    assert place.shelf.version_to_call(AUTHOR, "count_orders") == draft


@pytest.mark.parametrize("is_named", [True, False])
async def test_who_saved_the_same_bytes_as_another_retires_them_for_both(place, is_named):
    approved = await place.approved()
    await place.save(author=APPROVER)
    await place.shelf.retire(APPROVER, "count_orders", approved.version if is_named else None)
    assert not may_call(place, COLLEAGUE)
    assert not may_call(place, APPROVER)


async def test_of_a_proven_version_and_a_draft_the_one_in_use_is_retired_first(place):
    await place.save(code="proven")
    draft = await place.save(code="draft", state=SkillState.DRAFT)
    await place.shelf.retire(AUTHOR, "count_orders", None)
    assert place.shelf.version_to_call(AUTHOR, "count_orders") == draft


async def test_an_author_retires_what_is_its_own_whatever_its_state(place):
    for state in (SkillState.DRAFT, SkillState.PROVEN):
        await place.save(state.value, state=state)
        assert (await place.shelf.retire(AUTHOR, state.value, None)).state is SkillState.RETIRED
    await place.approved("approved")
    await place.shelf.retire(AUTHOR, "approved", None)
    assert place.shelf.listed(AUTHOR) == []
    assert place.shelf.watched(approved=True) == ()
    assert {each.state for each in await place.store.all()} == {SkillState.RETIRED}


async def test_an_approver_retires_what_others_use_or_want_approved(place):
    await place.approved("approved")
    await place.save("waiting")
    for name in ("approved", "waiting"):
        assert (await place.shelf.retire(APPROVER, name, None)).state is SkillState.RETIRED


async def test_others_retire_nothing(place):
    await place.approved()
    with pytest.raises(
        ApprovalDenied, match="Only author-key, or a role that approves skills, may retire count_orders"
    ):
        await place.shelf.retire(COLLEAGUE, "count_orders", None)
    with pytest.raises(SkillNotFound):
        await place.shelf.retire(OUTSIDER, "count_orders", None)
    assert may_call(place, COLLEAGUE)


async def test_what_comes_along_is_denied_and_not_retired():
    place = Place(built_in("table_profile"))
    with pytest.raises(InvalidRequest, match=r"Deny it to a role with skills/table_profile in tools\.deny"):
        await place.shelf.retire(APPROVER, "table_profile", None)


async def test_a_version_that_was_approved_takes_the_place_of_one_that_comes_along_until_it_is_retired():
    shipped = built_in("table_profile")
    place = Place(shipped)
    saved = await place.save("table_profile", code="better")
    approved = await place.shelf.approve(APPROVER, "table_profile", saved.version)
    assert place.shelf.version_to_call(COLLEAGUE, "table_profile") == approved
    await place.shelf.retire(APPROVER, "table_profile", None)
    assert place.shelf.version_to_call(COLLEAGUE, "table_profile") == shipped


# What is offered beside the tools.


async def test_a_skill_is_offered_while_its_tools_are_as_they_were_proven_with(place):
    await place.approved()
    assert names(place.list_tools()) == ["count_orders"]
    in_other_words = replace(QUERY, description="Asks it in other words.", input_schema={**TAKES_TEXT, "title": "Q"})
    assert names(place.list_tools(in_other_words)) == ["count_orders"]
    assert names(place.list_tools(replace(QUERY, input_schema={**TAKES_TEXT, "required": []}))) == []
    assert names(place.list_tools(UPLOAD)) == []
    assert names(place.list_tools()) == ["count_orders"]


async def test_a_stale_skill_is_offered_only_to_be_told_so(place):
    saved = await place.approved()
    await place.make_stale(saved, "`text` is gone.")
    (offered,) = place.list_tools(UPLOAD)
    assert offered.skill.drift == ("`text` is gone.",)


async def test_nothing_is_offered_that_nobody_approved(place):
    await place.save()
    await place.save("another_name", state=SkillState.DRAFT)
    assert place.list_tools() == ()


async def test_a_skill_only_reads_if_all_its_tools_say_that_they_do(place):
    await place.approved("reads")
    await place.approved("reads_and_writes", tools=("postgres/query", "minio/upload"))
    await place.approved("reads_through_another", tools=("skills/reads",))
    hints = {each.name: dict(each.annotations) for each in place.list_tools()}
    reads = {"readOnlyHint": True}
    assert hints == {"reads": reads, "reads_and_writes": {}, "reads_through_another": reads}


def test_a_digest_names_a_tool_by_what_a_program_depends_on():
    renamed, with_output = replace(QUERY, name="ask"), replace(QUERY, output_schema={"type": "object"})
    required = replace(QUERY, input_schema={**TAKES_TEXT, "required": []})
    described = replace(QUERY, title="Query", description="In other words.", annotations={})
    assert len({tool_digest(each) for each in (QUERY, renamed, with_output, required)}) == 4
    assert tool_digest(described) == tool_digest(QUERY)


class Offered:
    version = 7

    def __init__(self, tools):
        self.tools = tools

    def importable(self, role):
        return [each for each in self.tools if each.is_for(role)]


async def test_sandboxes_have_the_code_of_the_approved_skills_that_their_role_may_use_and_no_stale_one(place):
    await place.approved("for_all", tools=("minio/upload",), code="def run(input): return 1")
    await place.approved("for_some", code="def run(input): return 2")
    stale = await place.approved("stale", code="def run(input): return 3")
    await place.make_stale(stale)
    code = SkillCode(lambda: Offered([QUERY, *place.list_tools()]), place.shelf.code)
    assert code.version == 7
    assert code.files(COLLEAGUE.role, Language.PYTHON) == {
        "skills/_code/for_all.py": "def run(input): return 1",
        "skills/_code/for_some.py": "def run(input): return 2",
    }
    assert code.files(OUTSIDER.role, Language.PYTHON).keys() == {"skills/_code/for_all.py"}
    assert code.files(COLLEAGUE.role, Language.TYPESCRIPT) == {}


async def test_the_code_of_what_was_just_replaced_is_still_there_for_sandboxes_that_were_promised_it():
    shipped = built_in("table_profile", code="shipped")
    place = Place(shipped)
    first, second = [await place.approved("table_profile", code=code) for code in ("first", "second")]
    for promised in (shipped, first, second):
        assert place.shelf.code("table_profile", promised.version) == promised.content.code
    assert place.shelf.code("table_profile", "0" * 64) is None


# Proofs that are made anew.


async def test_what_was_found_out_about_an_earlier_proof_is_not_kept(place):
    before = await place.save()
    again = await place.save(at=2000.0)
    again = await place.shelf.add(replace(again, proof=Proof(2.0, {"postgres/query": "new"})), b"new")
    await place.make_stale(before)
    await place.shelf.change_proof(before, before.proof, recording=b"of before")
    assert place.shelf.find(AUTHOR, again.name) == again
    assert await place.shelf.recording(again) == b"new"


async def test_what_was_retired_meanwhile_stays_so(place):
    saved = await place.approved()
    await place.shelf.retire(AUTHOR, saved.name, None)
    await place.make_stale(saved)
    assert place.shelf.find(AUTHOR, saved.name, saved.version).drift == ()


async def test_what_comes_along_is_judged_anew_after_each_start():
    shipped = built_in("table_profile", proof=Proof(1.0, {"postgres/query": "old"}))
    place = Place(shipped)
    await place.make_stale(shipped)
    assert place.shelf.approved("table_profile").effective_state is SkillState.STALE
    assert await place.store.all() == []


# Uses.


async def test_uses_are_counted_and_written_down():
    place = Place(built_in("table_profile"))
    saved = await place.approved()
    shipped = place.shelf.approved("table_profile")
    for failed in (False, False, True):
        place.shelf.uses.count(saved, failed=failed)
    place.shelf.uses.count(shipped, failed=False)
    await place.shelf.write_uses()
    for shelf in (place.shelf, Place(built_in("table_profile"), store=place.store).shelf):
        await shelf.load()
        found = {each.name: (each.uses, each.failures) for each in shelf.listed(AUTHOR)}
        assert shelf.approved("count_orders").last_used_at is not None
        assert shelf.approved("table_profile").uses == 1
        assert found["count_orders"] == (2, 1)


async def test_uses_are_written_once(place):
    place.shelf.uses.count(await place.approved(), failed=False)
    await place.shelf.write_uses()
    place.store.broken = True
    await place.shelf.write_uses()  # there is nothing to write
    assert place.shelf.approved("count_orders").uses == 1


class SlowStore(FakeSkillStore):
    """Fails to count uses, when it may."""

    def __init__(self):
        super().__init__()
        self.asked, self.may_fail = asyncio.Event(), asyncio.Event()

    async def count_uses(self, uses):
        if self.may_fail.is_set():
            return await super().count_uses(uses)
        self.asked.set()
        await self.may_fail.wait()
        raise JournalUnavailable("disk full (test)")


async def test_a_store_that_fails_loses_no_use_not_even_those_counted_meanwhile():
    place = Place(store=SlowStore())
    saved = await place.approved()
    place.shelf.uses.count(saved, failed=False)
    place.shelf.uses.count(saved, failed=True)
    writing = asyncio.create_task(place.shelf.write_uses())
    await place.store.asked.wait()
    place.shelf.uses.count(saved, failed=False)
    place.store.may_fail.set()
    with pytest.raises(JournalUnavailable):
        await writing
    await place.shelf.write_uses()
    (held,) = await place.store.all()
    assert (held.uses, held.failures) == (2, 1)
    assert (place.shelf.approved(saved.name).uses, place.shelf.approved(saved.name).failures) == (2, 1)


async def test_uses_and_decisions_do_not_undo_each_other(place):
    saved = await place.save()
    place.shelf.uses.count(saved, failed=False)
    await asyncio.gather(place.shelf.approve(APPROVER, saved.name, saved.version), place.shelf.write_uses())
    assert place.shelf.approved(saved.name).uses == (await place.store.all())[0].uses == 1


async def test_uses_of_what_comes_along_survive_that_its_proof_is_made_anew():
    shipped = built_in("table_profile", proof=Proof(1.0, {}))
    place = Place(shipped)
    place.shelf.uses.count(shipped, failed=False)
    await place.shelf.write_uses()
    await place.shelf.change_proof(shipped, Proof(2.0, {}))
    assert place.shelf.approved("table_profile").uses == 1
    assert place.shelf.approved("table_profile").author == BUILT_IN


# What one tenant must not reach through another's skill, or through names.


async def test_an_authors_own_skills_stand_in_for_nothing_that_an_approved_skill_uses(place):
    hidden = Caller("outsider-key", Role("outsider", frozenset({"minio"})))
    await place.approved("base", tools=("postgres/query",))
    await place.approved("top", tools=("skills/base",))
    await place.save("base", hidden, tools=(), at=NEWER)
    assert not may_call(place, hidden, "top")
    assert may_call(place, hidden, "base")


async def test_what_a_skill_reaches_has_every_skill_on_the_way(place):
    await place.approved("inner", tools=("postgres/query",))
    await place.approved("middle", tools=("skills/inner",))
    outer = await place.approved("outer", tools=("skills/middle", "minio/upload"))
    assert place.shelf.reach.of(outer) == {"skills/middle", "skills/inner", "postgres/query", "minio/upload"}
    assert {"/".join(path) for path in place.shelf.reach.requires(outer.content)} == place.shelf.reach.of(outer)
    assert [each.path for each in place.shelf.reach.touched(outer)][:2] == ["minio/upload", "postgres/query"]


async def test_a_version_is_told_to_its_author_and_else_to_whom_the_approved_one_is_shown(place):
    approved = await place.approved()
    await place.shelf.add(replace(approved, author="another-key", state=SkillState.PROVEN), None)
    other = Caller("another-key", AUTHOR.role)
    assert place.shelf.find(COLLEAGUE, approved.name, approved.version).state is SkillState.APPROVED
    assert place.shelf.find(other, approved.name, approved.version).author == "another-key"


@pytest.mark.parametrize("change", ["approve", "retire"])
async def test_a_change_is_finished_when_nobody_waits_for_it_any_more(place, change):
    """What the journal has and what callers are told must be the same."""
    saved = await place.save()
    store, may_write = place.store, asyncio.Event()
    write = getattr(store, change)

    async def slowly(*given):
        await may_write.wait()
        await write(*given)

    setattr(store, change, slowly)
    changing = asyncio.create_task(getattr(place.shelf, change)(APPROVER, saved.name, saved.version))
    await asyncio.sleep(0)
    changing.cancel()
    await asyncio.gather(changing, return_exceptions=True)
    may_write.set()
    while place.shelf.changes:
        await asyncio.sleep(0)
    (kept,) = await store.all()
    assert kept.state is {"approve": SkillState.APPROVED, "retire": SkillState.RETIRED}[change]
    assert (place.shelf.approved(saved.name) is not None) == (change == "approve")


async def test_a_name_that_was_probably_meant_is_named_to_whom_it_is_shown(place):
    await place.approved("count_orders")
    outsider = Caller("minio-key", Role("uploader", frozenset({"minio"})))
    for caller, told in ((AUTHOR, "Did you mean count_orders?"), (outsider, "There is no skill count_order.")):
        with pytest.raises(SkillNotFound) as raised:
            place.shelf.version_to_call(caller, "count_order")
        assert raised.value.message.endswith(told)


@pytest.mark.parametrize("digits", [8, 12, 64])
async def test_the_first_digits_of_a_version_find_it_and_do_not_approve_it(place, digits):
    saved = await place.save()
    short = saved.version[:digits]
    assert place.shelf.find(AUTHOR, saved.name, short) == saved
    if digits < 64:
        with pytest.raises(InvalidRequest, match="all its digits"):
            await place.shelf.approve(APPROVER, saved.name, short)
    with pytest.raises(SkillNotFound):
        place.shelf.find(AUTHOR, saved.name, saved.version[:7])


async def test_an_author_takes_back_what_its_role_may_not_call_any_more(place):
    saved = await place.save(tools=("postgres/query",))
    fewer = Caller(AUTHOR.key_name, Role("developer", frozenset({"minio"})))
    with pytest.raises(SkillNotFound):
        place.shelf.find(fewer, saved.name)
    assert (await place.shelf.retire(fewer, saved.name, None)).state is SkillState.RETIRED


async def test_what_was_proven_with_another_version_of_what_it_uses_is_not_approved(place):
    await place.approved("inner")
    inner = await place.save("inner", code="own", at=NEWER)
    outer = await place.save("outer", tools=("skills/inner",))
    with pytest.raises(SkillNotProven, match=rf"outer uses version {inner.version[:12]} of inner, which waits"):
        await place.shelf.approve(APPROVER, "outer", outer.version)
