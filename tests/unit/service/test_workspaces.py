"""Whose turn a workspace is, and which versions it has."""

import asyncio
from dataclasses import replace

import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import (
    FileNotFound,
    InvalidRequest,
    QueueFull,
    TooManyWorkspaces,
    WorkspaceBusy,
    WorkspaceNotFound,
)
from orchestrator.domain.execution import Outcome, Shares
from orchestrator.domain.files import LEAST_BYTES, File, Keep, Kept, LeftOut, Why, WorkspaceUse
from tests.support.fake_journal import FakeJournal
from tests.support.fake_storage import MEBIBYTE, RULES, FakeStorage
from tests.support.samples import DEVELOPER, OTHER_DEVELOPER

PROJECT = WorkspaceUse("project")
SHARING = Role("team", frozenset(), shared_workspaces=("shared-*",))
ANN, BOB = Caller("ann", SHARING), Caller("bob", SHARING)


@pytest.fixture
def storage():
    return FakeStorage(FakeJournal())


@pytest.fixture
def workspaces(storage):
    return storage.workspaces


def kept(*names: str, **more) -> Kept:
    return Kept(tuple(File(name, 5, str(len(name)) * 64) for name in names), **more)


async def work(workspaces, execution_id, left, caller=DEVELOPER, use=PROJECT, outcome=Outcome.COMPLETED, complete=True):
    """Do with a workspace what an execution does."""
    turn = workspaces.queue(caller, use)
    async with turn:
        before = await workspaces.current(turn)
        return await workspaces.keep(turn, use, execution_id, outcome, before, left, complete=complete)


async def test_what_one_execution_leaves_the_next_one_finds(workspaces):
    end = await work(workspaces, "e1", kept("a", "bb"))
    assert (end.kept, end.version, end.files, end.bytes, end.why_not) == (True, "e1", 2, 10, None)
    turn = workspaces.queue(DEVELOPER, PROJECT)
    async with turn:
        assert [file.name for file in (await workspaces.current(turn)).files] == ["a", "bb"]


async def test_an_execution_that_changes_nothing_makes_no_version(workspaces):
    await work(workspaces, "e1", kept("a"))
    end = await work(workspaces, "e2", kept("a"))
    assert (end.kept, end.version) == (True, "e1")
    assert len(await workspaces.versions(DEVELOPER, "project")) == 1


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.COMPLETED] + [None])
async def test_an_execution_that_does_not_complete_leaves_the_old_version_in_place(workspaces, outcome):
    await work(workspaces, "e1", kept("a"))
    end = await work(workspaces, "e2", kept("bb"), outcome=outcome)
    assert (end.kept, end.version, bool(end.why_not)) == (False, "e1", True)
    always = replace(PROJECT, keep=Keep.ALWAYS)
    assert (await work(workspaces, "e3", kept("bb"), outcome=outcome, use=always)).version == "e3"


async def test_what_was_not_handed_over_whole_is_no_version(workspaces):
    await work(workspaces, "e1", kept("a"))
    end = await work(workspaces, "e2", kept("a"), complete=False)
    assert (end.kept, end.version, end.why_not) == (
        False,
        "e1",
        "The sandbox ended before its files were handed over.",
    )


@pytest.mark.parametrize(
    ("why", "is_kept"), [(Why.NOT_A_FILE, True), (Why.TOO_LARGE, False), (Why.TOO_MANY, False), (Why.LOST, False)]
)
async def test_a_version_is_kept_only_if_no_file_is_missing_from_it(workspaces, why, is_kept):
    end = await work(workspaces, "e1", kept("a", left_out=(LeftOut("x", why, 1),), left_out_count=1))
    assert (end.kept, [each.name for each in end.left_out]) == (is_kept, ["x"])
    assert is_kept or "could not be kept" in end.why_not


@pytest.mark.parametrize(
    ("left_out", "count", "told"),
    [
        ((LeftOut("big", Why.TOO_LARGE, 40 * MEBIBYTE),), 1, "'big' could not be kept (40 MiB, too large"),
        ((LeftOut("a", Why.LOST), LeftOut("b", Why.LOST)), 5, "'a' could not be kept ("),
        ((LeftOut("a", Why.LOST), LeftOut("b", Why.LOST)), 5, ", and 4 more."),
        (
            tuple(LeftOut(str(number), Why.TOO_MANY) for number in range(20)),
            800,
            f"800 of 802 files could not be kept: a workspace holds at most {RULES.workspace.max_files}.",
        ),
        (tuple(LeftOut(str(number), Why.NOT_A_FILE) for number in range(20)), 23, "3 files could not be kept."),
        ((LeftOut(".", Why.NOT_A_FILE),), 1, "/workspace/files itself was replaced by something else."),
        ((LeftOut(".", Why.UNREADABLE),), 1, "/workspace/files itself could not be read."),
    ],
    ids=["one", "the first", "and others", "too many", "behind links", "replaced", "unreadable"],
)
async def test_it_is_told_what_a_version_would_lack(workspaces, left_out, count, told):
    await work(workspaces, "e1", kept("a"))
    end = await work(workspaces, "e2", kept("a", "bb", left_out=left_out, left_out_count=count))
    assert (end.kept, end.version, end.left_out, end.left_out_count) == (False, "e1", left_out, count)
    assert told in end.why_not


async def test_a_folder_that_was_replaced_does_not_empty_its_workspace(workspaces):
    await work(workspaces, "e1", kept("a"))
    replaced = Kept((), (LeftOut(".", Why.NOT_A_FILE),), 1)
    for use in (PROJECT, replace(PROJECT, keep=Keep.ALWAYS)):
        end = await work(workspaces, "e2", replaced, use=use)
        assert (end.kept, end.version, end.files) == (False, "e1", 1)


async def test_an_earlier_version_is_restored_and_the_restoring_undone_by_one_call_each(workspaces):
    for number in (1, 2, 3, 4):
        await work(workspaces, f"e{number}", kept("a" * number))
    assert [each.execution_id for each in await workspaces.versions(DEVELOPER, "project")] == ["e4", "e3", "e2"]
    await workspaces.restore(DEVELOPER, "project", "e2")
    assert [each.execution_id for each in await workspaces.versions(DEVELOPER, "project")] == ["e2", "e4", "e3"]
    await workspaces.restore(DEVELOPER, "project", "e4")
    assert [each.execution_id for each in await workspaces.versions(DEVELOPER, "project")] == ["e4", "e2", "e3"]
    with pytest.raises(FileNotFound, match="no version e1"):
        await workspaces.restore(DEVELOPER, "project", "e1")


async def test_a_version_has_the_time_of_its_restoring(workspaces):
    for number in (1, 2):
        await work(workspaces, f"e{number}", kept("a" * number))
    restored = await workspaces.restore(DEVELOPER, "project", "e1")
    newest, older = await workspaces.versions(DEVELOPER, "project")
    assert (newest, newest.execution_id) == (restored, "e1")
    assert newest.made_at > older.made_at


async def test_the_second_execution_waits_for_the_first_and_the_third_for_the_second(workspaces):
    first, second, third = (workspaces.queue(DEVELOPER, PROJECT) for _ in range(3))
    assert [turn.has_come for turn in (first, second, third)] == [True, False, False]
    waiting = asyncio.create_task(second.__aenter__())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    first.leave()
    assert third.has_come, "whoever gives up its turn keeps nobody waiting"
    third.leave()
    third.leave()
    assert workspaces.queue(DEVELOPER, PROJECT).has_come


async def test_whoever_does_not_want_to_wait_is_refused_at_once(workspaces):
    impatient = replace(PROJECT, wait=False)
    first = workspaces.queue(DEVELOPER, impatient, "e1")
    with pytest.raises(WorkspaceBusy, match=r"Execution e1 has the workspace project\. Leave `wait`") as refused:
        workspaces.queue(DEVELOPER, impatient, "e2")
    assert refused.value.execution_id == "e1"
    for use in (workspaces.restore(DEVELOPER, "project", "e1"), workspaces.delete(DEVELOPER, "project")):
        with pytest.raises(WorkspaceBusy, match=r"Execution e1 has the workspace project\.$"):
            await use
    assert workspaces.queue(OTHER_DEVELOPER, impatient).has_come, "another caller's is another workspace"
    first.leave()
    assert workspaces.queue(DEVELOPER, impatient).has_come
    with pytest.raises(WorkspaceBusy, match="is just being restored or deleted"):
        workspaces.queue(DEVELOPER, impatient, "e2")


async def test_a_caller_waits_for_a_bounded_number_of_workspaces(workspaces):
    for _ in range(4):
        workspaces.queue(DEVELOPER, PROJECT)
    with pytest.raises(QueueFull):
        workspaces.queue(DEVELOPER, PROJECT)
    assert workspaces.queue(DEVELOPER, WorkspaceUse("another")).has_come


async def test_a_workspace_is_its_keys_own_unless_the_role_shares_it(workspaces):
    await work(workspaces, "e1", kept("a"), ANN, WorkspaceUse("own"))
    await work(workspaces, "e2", kept("bb"), ANN, WorkspaceUse("shared-wiki"))
    assert [each.workspace for each in await workspaces.newest(ANN)] == ["shared-wiki", "own"]
    assert [each.workspace for each in await workspaces.newest(BOB)] == ["shared-wiki"]
    assert (await workspaces.file(BOB, "shared-wiki", "bb")).file.name == "bb"
    for use in (workspaces.versions, workspaces.delete):
        with pytest.raises(WorkspaceNotFound):
            await use(BOB, "own")
    assert await workspaces.newest(Caller("bob", replace(SHARING, shared_workspaces=()))) == []


async def test_a_file_is_read_as_it_is_now_or_as_an_execution_left_it(workspaces, storage):
    for number, content in ((1, b"first"), (2, b"second")):
        file = File("a", len(content), storage.contents.add(content))
        await work(workspaces, f"e{number}", Kept((file,)))
    now = await workspaces.file(DEVELOPER, "project", "a")
    then = await workspaces.file(DEVELOPER, "project", "a", "e1")
    assert (await now.read(0, 100), await then.read(0, 100)) == (b"second", b"first")
    for name, version in (("b", None), ("a", "e9")):
        with pytest.raises(FileNotFound):
            await workspaces.file(DEVELOPER, "project", name, version)


async def test_a_deleted_workspace_is_gone_with_all_versions(workspaces):
    await work(workspaces, "e1", kept("a"))
    await work(workspaces, "e2", kept("bb"))
    assert await workspaces.delete(DEVELOPER, "project") == 2
    assert await workspaces.newest(DEVELOPER) == []


async def test_workspaces_are_bounded_in_number_and_size(workspaces):
    for number in range(4):
        assert (await work(workspaces, f"e{number}", kept("a"), use=WorkspaceUse(f"w{number}"))).kept
    refused = await work(workspaces, "e5", kept("a"), use=WorkspaceUse("w5"))
    assert (refused.kept, refused.version, refused.why_not) == (
        False,
        None,
        "At most 4 workspaces are allowed; delete one first.",
    )
    with pytest.raises(TooManyWorkspaces, match="There are 4 workspaces, and w5 would be another; at most 4"):
        await workspaces.require_place_for(DEVELOPER, "w5")
    await workspaces.require_place_for(DEVELOPER, "w3")
    await workspaces.require_place_for(OTHER_DEVELOPER, "w5")
    small = FakeStorage(FakeJournal(), stored=Shares(100 * LEAST_BYTES, LEAST_BYTES)).workspaces
    assert "quota" in (await work(small, "e1", kept("a", "bb"))).why_not


@pytest.mark.parametrize("name", ["../x", "", "a/b"])
async def test_a_name_that_no_workspace_can_have_is_refused(workspaces, name):
    with pytest.raises(InvalidRequest):
        workspaces.queue(DEVELOPER, WorkspaceUse(name))


async def test_all_callers_together_wait_for_a_bounded_number_of_workspaces(workspaces):
    callers = [Caller(f"key-{number}", Role(f"role-{number}", frozenset())) for number in range(3)]
    for caller in callers[:2]:
        for _ in range(3):
            workspaces.queue(caller, PROJECT)
    workspaces.queue(callers[2], PROJECT)
    workspaces.queue(callers[2], PROJECT)
    with pytest.raises(QueueFull, match="5 executions are waiting for a workspace"):
        workspaces.queue(callers[2], PROJECT)
