"""One suite for the skills in memory and for those in SQLite; the latter also survive a daemon that is killed."""

import asyncio
import random
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.skills import (
    BUILT_IN,
    KEPT_RETIRED,
    Proof,
    Remark,
    SkillContent,
    SkillState,
    SkillUse,
    SkillVersion,
)
from orchestrator.journals.skills import SqliteSkills
from orchestrator.journals.sqlite import SqliteJournal
from orchestrator.service.skill_proofs import Proven
from tests.support.fake_skill_store import FakeSkillStore
from tests.support.installation import PROJECT
from tests.support.skills import skill

OPEN = (SkillState.DRAFT, SkillState.PROVEN)
EVERYTHING = SkillVersion(
    content=SkillContent(
        name="weekly_report",
        description="Sums up “the week” in Zürich.",
        language=Language.TYPESCRIPT,
        code="export default function run() {\n\treturn '…';\n}\n",
        input={"type": "object", "properties": {"week": {"type": "integer", "minimum": 1}}},
        output={"type": ["string", "null"]},
        tools=("postgres/query", "skills/count_orders"),
        examples=({"week": 1}, {"week": 53, "more": [1.5, None, {"deep": True}]}),
    ),
    author="author-key",
    author_role="developer",
    state=SkillState.PROVEN,
    created_at=1234.5,
    inferred=("input", "tools"),
    remarks=(Remark("words", "It has words.", "code:1:2"), Remark("other", "It has others.", refuses=True)),
    proof=Proof(1235.5, {"postgres/query": "a" * 64, "skills/count_orders": "b" * 64}, ("e1", "e2"), 7),
    drift=("`week` is gone.",),
)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    if request.param == "memory":
        yield FakeSkillStore()
        return
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10)
    yield SqliteSkills(journal)
    await journal.close()


async def states(store):
    return {each.key: each.state for each in await store.all()}


async def state_of(store, saved):
    return (await states(store)).get(saved.key)


async def test_a_skill_comes_back_with_every_field_as_it_was_saved(store):
    await store.save(EVERYTHING, b"recording")
    assert await store.all() == [EVERYTHING]
    assert await store.recording(EVERYTHING.version, EVERYTHING.author) == b"recording"


async def test_the_oldest_comes_first(store):
    later, earlier = skill("later", at=2.0), skill("earlier", at=1.0)
    await store.save(later, None)
    await store.save(earlier, None)
    assert [each.name for each in await store.all()] == ["earlier", "later"]


async def test_a_draft_has_no_recording_and_neither_has_what_is_not_there(store):
    draft = skill(state=SkillState.DRAFT)
    await store.save(draft, None)
    assert await store.recording(draft.version, draft.author) is None
    assert await store.recording("0" * 64, draft.author) is None


@pytest.mark.parametrize("before", OPEN)
async def test_what_its_author_had_open_under_the_name_is_retired_by_the_next(store, before):
    first, second = skill(code="1", state=before, at=1.0), skill(code="2", at=2.0)
    await store.save(first, b"first")
    await store.save(second, b"second")
    assert await state_of(store, first) is SkillState.RETIRED
    assert await state_of(store, second) is SkillState.PROVEN
    assert await store.recording(first.version, first.author) is None
    assert await store.recording(second.version, second.author) == b"second"


async def test_a_draft_retires_the_draft_before_it_and_nothing_that_is_proven(store):
    states = (SkillState.PROVEN, SkillState.DRAFT, SkillState.DRAFT)
    for number, state in enumerate(states):
        await store.save(skill(code=f"# {number}", state=state, at=1000.0 + number), None)
    assert [each.state for each in await store.all()] == [SkillState.PROVEN, SkillState.RETIRED, SkillState.DRAFT]


async def test_nothing_else_is_retired_by_saving(store):
    others = [
        skill("another_name", code="1"),
        skill(author="another-key", code="1"),
        skill(code="approved", state=SkillState.APPROVED),
    ]
    for other in others:
        await store.save(other, None)
    await store.save(skill(code="2"), None)
    assert [await state_of(store, other) for other in others] == [other.state for other in others]


async def test_what_was_retired_is_open_again_once_it_is_saved_again(store):
    first, second = skill(code="1", at=1.0), skill(code="2", at=2.0)
    for saved in (first, second, replace(first, created_at=3.0)):
        await store.save(saved, None)
    assert await state_of(store, first) is SkillState.PROVEN
    assert await state_of(store, second) is SkillState.RETIRED


async def test_what_is_saved_again_has_its_new_proof_and_its_old_uses(store):
    saved = skill(state=SkillState.DRAFT)
    await store.save(saved, b"before")
    await store.count_uses([SkillUse(saved.name, saved.version, saved.author, 3, 1, 50.0)])
    again = skill(proof=Proof(2.0, {"postgres/query": "c"}), at=2.0)
    await store.save(again, b"after")
    assert await store.all() == [replace(again, uses=3, failures=1, last_used_at=50.0)]
    assert await store.recording(saved.version, saved.author) == b"after"


async def test_the_same_content_is_kept_for_each_of_its_authors(store):
    one, other = skill(author="one"), skill(author="other", state=SkillState.DRAFT, at=1001.0)
    await store.save(one, b"of one")
    await store.save(other, None)
    assert one.version == other.version
    assert await store.all() == [one, other]
    assert (await store.recording(one.version, "one"), await store.recording(one.version, "other")) == (b"of one", None)
    await store.retire(one.version, "one")
    assert await state_of(store, other) is SkillState.DRAFT
    assert await store.recording(one.version, "one") is None


async def test_approving_keeps_by_whom_and_retires_the_version_that_was_approved(store):
    first, second = skill(code="1", at=1.0), skill(author="another-key", code="2", at=2.0)
    for saved in (first, second):
        await store.save(saved, b"recording")
        approved = replace(saved, state=SkillState.APPROVED, approved_by="approver-key", approved_at=9.0)
        await store.approve(approved)
    assert await state_of(store, first) is SkillState.RETIRED
    assert (await store.all())[1] == approved
    assert await store.recording(second.version, second.author) == b"recording"


async def test_approving_retires_nothing_of_another_name_and_nothing_that_is_open(store):
    other, waiting = skill("another_name", state=SkillState.APPROVED), skill(author="another-key", code="2")
    saved = skill()
    for each in (other, waiting, saved):
        await store.save(each, None)
    await store.approve(replace(saved, state=SkillState.APPROVED))
    assert await state_of(store, other) is SkillState.APPROVED
    assert await state_of(store, waiting) is SkillState.PROVEN


async def test_of_the_same_content_only_one_authors_is_approved(store):
    one, other = skill(author="one"), skill(author="other", at=1001.0)
    for saved in (one, other):
        await store.save(saved, None)
        await store.approve(replace(saved, state=SkillState.APPROVED))
    assert await state_of(store, one) is SkillState.RETIRED
    assert await state_of(store, other) is SkillState.APPROVED


async def test_retiring_twice_or_what_is_not_there_does_no_harm(store):
    saved = skill()
    await store.save(saved, None)
    for _ in range(2):
        await store.retire(saved.version, saved.author)
    await store.retire("0" * 64, "nobody")
    assert await states(store) == {saved.key: SkillState.RETIRED}


async def test_of_what_an_author_retired_only_the_newest_are_kept(store):
    by_age = [skill(code=str(number), at=float(number)) for number in range(KEPT_RETIRED + 3)]
    of_others = skill(author="another-key", state=SkillState.RETIRED, at=0.5)
    for saved in (of_others, *by_age):
        await store.save(saved, b"recording")
    kept = await states(store)
    assert kept.pop(of_others.key) is SkillState.RETIRED
    assert [version for version, _ in kept] == [each.version for each in by_age[2:]]
    forgotten = by_age[0]
    assert await store.recording(forgotten.version, forgotten.author) is None


async def test_what_is_approved_is_never_forgotten(store):
    approved = skill(code="approved", state=SkillState.APPROVED, at=0.0)
    await store.save(approved, None)
    for number in range(KEPT_RETIRED + 3):
        await store.save(skill(code=str(number), at=1.0 + number), None)
    assert await state_of(store, approved) is SkillState.APPROVED


async def test_a_proof_changes_and_keeps_its_recording_if_there_is_no_new_one(store):
    saved = skill(proof=Proof(1.0, {"postgres/query": "before"}))
    await store.save(saved, b"before")
    stale = replace(saved, drift=("`text` is gone.",))
    await store.change_proof(stale, None)
    assert await store.all() == [stale]
    assert await store.recording(saved.version, saved.author) == b"before"
    renewed = replace(saved, proof=Proof(2.0, {"postgres/query": "after"}))
    await store.change_proof(renewed, b"after")
    assert await store.all() == [renewed]
    assert await store.recording(saved.version, saved.author) == b"after"


async def test_a_changed_proof_keeps_state_and_uses_as_they_are_in_the_store(store):
    saved = skill()
    await store.save(saved, None)
    await store.retire(saved.version, saved.author)
    await store.count_uses([SkillUse(saved.name, saved.version, saved.author, 2, 0, 5.0)])
    await store.change_proof(replace(saved, drift=("gone",)), None)
    (found,) = await store.all()
    assert (found.state, found.drift, found.uses) == (SkillState.RETIRED, ("gone",), 2)


async def test_a_proof_of_what_is_not_there_is_not_kept(store):
    await store.change_proof(skill(), b"recording")
    assert await store.all() == []


async def test_uses_of_saved_skills_and_of_those_that_come_along_add_up(store):
    saved = skill()
    await store.save(saved, None)
    for at in (10.0, 20.0):
        await store.count_uses(
            [
                SkillUse(saved.name, saved.version, saved.author, 2, 1, at),
                SkillUse("table_profile", None, BUILT_IN, 5, 0, at),
            ]
        )
    assert await store.all() == [replace(saved, uses=4, failures=2, last_used_at=20.0)]
    assert await store.built_in_uses() == {"table_profile": SkillUse("table_profile", None, BUILT_IN, 10, 0, 20.0)}


async def test_uses_are_counted_for_the_author_whose_skill_it_was(store):
    one, other = skill(author="one"), skill(author="other", at=1001.0)
    await store.save(one, None)
    await store.save(other, None)
    await store.count_uses([SkillUse(other.name, other.version, "other", 1, 0, 5.0)])
    assert [each.uses for each in await store.all()] == [0, 1]


async def test_uses_of_what_is_not_there_any_more_do_no_harm(store):
    await store.count_uses([SkillUse("gone", "0" * 64, "nobody", 1, 0, 5.0)])
    await store.count_uses([])
    assert await store.all() == []
    assert await store.built_in_uses() == {}


# The seed chooses after how many skills the child is killed; at which statement that hits it is up to the machine.
ROUNDS = 8
MOST_SAVES = 25


@pytest.mark.processes
async def test_whoever_is_killed_while_saving_leaves_every_skill_whole(tmp_path):
    file, chance = tmp_path / "journal.sqlite3", random.Random(20261118)
    for number in range(ROUNDS):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.saving_skills", str(file), str(number)),
            cwd=PROJECT,
            stdout=asyncio.subprocess.PIPE,
        )
        told = b""
        try:
            async with asyncio.timeout(60):
                for _ in range(chance.randint(1, MOST_SAVES)):
                    told += await child.stdout.readline()
        finally:
            child.kill()
            told += (await child.communicate())[0]
        assert child.returncode == -signal.SIGKILL
        *_, last = told.decode().split("\n")[:-1]
        await require_whole(file, last)


async def require_whole(file, last_version):
    journal = SqliteJournal(file, max_executions=10)
    store = SqliteSkills(journal)
    found = await store.all()
    opened = Counter((each.author, each.name, each.state) for each in found if each.state in OPEN)
    assert set(opened.values()) == {1}  # of what is proven and of the drafts beside it, the newest
    assert {(author, name) for author, name, _ in opened} == {(each.author, each.name) for each in found}
    assert last_version in {each.version for each in found}
    for each in found:
        recording = await store.recording(each.version, each.author)
        assert each.content.version == each.version
        assert (each.state is SkillState.DRAFT) <= (each.proof is None)
        assert (recording is not None) == (each.proof is not None and each.state is not SkillState.RETIRED)
        if recording is not None:
            assert Proven.unpacked(recording).runs[0].output == each.content.code
    await journal.close()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
