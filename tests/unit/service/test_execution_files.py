"""An execution and its files: what it is given, what is kept of it, and whose turn a workspace is."""

import asyncio
from dataclasses import replace

import pytest

from orchestrator.domain.errors import (
    AlreadyInterrupted,
    IdempotencyMismatch,
    IntakeFull,
    JournalUnavailable,
    SandboxFault,
    TooManyWorkspaces,
    WorkspaceBusy,
)
from orchestrator.domain.execution import CancelledBy, Language, Outcome, State
from orchestrator.domain.files import FromUpload, FromWorkspace, Given, Keep, Why, WorkspaceUse
from orchestrator.domain.ledger import CallOutcome
from orchestrator.service import executions as executions_module
from orchestrator.service.executions import ProgramRequest, new_execution_id
from tests.support.api import until
from tests.support.fake_engine import (
    CHANGE_THE_WORKSPACE,
    COPY_THE_INPUTS,
    FOREVER,
    HELLO,
    LEAVE_A_FILE,
    LEAVE_A_FILE_THEN_EAT_MEMORY,
    LEAVE_A_FILE_THEN_FAIL,
    LEAVE_A_FILE_THEN_FLOOD,
    LEAVE_A_FILE_THEN_GO_ON,
    LEAVE_A_FILE_THEN_IMPORT_NO_TOOL,
    LEAVE_MORE_THAN_FITS,
)
from tests.support.fake_storage import MEBIBYTE
from tests.support.samples import DEVELOPER, OTHER_DEVELOPER, tool_call
from tests.unit.service.test_executions import Service

PROJECT = WorkspaceUse("project")


@pytest.fixture
async def service():
    service = Service(max_running=2)
    yield service
    await service.executions.drain(0)
    await service.sandboxes.all_destroyed()
    assert not service.engine.sandboxes
    assert service.storage.contents.under_way == 0
    assert not service.storage.files._held


async def begin(service, code=HELLO, caller=DEVELOPER, timeout_seconds=5, **asked):
    request = ProgramRequest(Language.PYTHON, code, timeout_seconds, **asked)
    return await service.executions.start(caller, request, new_execution_id())


async def run(service, code=HELLO, **asked):
    return await (await begin(service, code, **asked)).result()


async def content(service, result, name):
    stored = await service.storage.files.of_execution_named(DEVELOPER, result.execution_id, name)
    return b"".join([piece async for piece in stored.pieces()])


async def test_what_a_program_leaves_is_in_its_result_and_can_be_read(service):
    result = await run(service, LEAVE_A_FILE)
    assert [(file.name, file.bytes, file.media_type) for file in result.record.files] == [("left.txt", 4, "text/plain")]
    assert await content(service, result, "left.txt") == b"left"
    assert (await service.journal.find(result.execution_id)).files == result.record.files


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (LEAVE_A_FILE, Outcome.COMPLETED),
        (LEAVE_A_FILE_THEN_FAIL, Outcome.FAILED),
        (LEAVE_A_FILE_THEN_FLOOD, Outcome.OUTPUT_LIMIT),
        (LEAVE_A_FILE_THEN_EAT_MEMORY, Outcome.OUT_OF_MEMORY),
        (LEAVE_A_FILE_THEN_IMPORT_NO_TOOL, Outcome.REJECTED),
    ],
)
async def test_every_ending_keeps_the_files(service, code, outcome):
    result = await run(service, code)
    assert (result.outcome, await content(service, result, "left.txt")) == (outcome, b"left")


async def test_a_program_that_times_out_keeps_its_files(service):
    result = await run(service, LEAVE_A_FILE_THEN_GO_ON, timeout_seconds=0.05)
    assert (result.outcome, await content(service, result, "left.txt")) == (Outcome.TIMED_OUT, b"left")


@pytest.mark.parametrize("code", [LEAVE_A_FILE, LEAVE_A_FILE_THEN_GO_ON], ids=["completed", "timed out"])
async def test_calls_under_way_end_with_the_program_and_not_with_its_files(service, code):
    service.tool_calls.made = (tool_call(CallOutcome.IN_FLIGHT),)
    service.engine.may_hand_over.clear()
    running = await begin(service, code, timeout_seconds=0.05)
    await until(lambda: any(sandbox.handing_over for sandbox in service.engine.sandboxes))
    (grant,) = service.tool_calls.grants
    assert (grant.open, running.finished) == (False, False)
    grant.made = (tool_call(CallOutcome.DONE),)  # an answer that comes now is nobody's
    service.engine.may_hand_over.set()
    record = (await running.result()).record
    assert [call.outcome for call in record.tool_calls] == [CallOutcome.IN_FLIGHT]
    assert [file.name for file in record.files] == ["left.txt"]


@pytest.mark.parametrize("by", list(CancelledBy))
async def test_a_cancelled_program_keeps_its_files_and_its_exit_code_says_nothing(service, by):
    running = await begin(service, LEAVE_A_FILE_THEN_GO_ON)
    await anext(running.happenings(1))
    running.cancel(by)
    result = await running.result()
    assert (result.outcome, result.record.cancelled_by, result.record.exit_code) == (Outcome.CANCELLED, by, None)
    assert await content(service, result, "left.txt") == b"left"


async def test_a_sandbox_that_does_not_stop_is_destroyed_and_its_files_are_lost(service, monkeypatch):
    monkeypatch.setattr(executions_module, "STOP_SECONDS", 0.05)
    service.engine.supervisor_hangs = True
    running = await begin(service, LEAVE_A_FILE_THEN_GO_ON)
    await anext(running.happenings(1))
    running.cancel()
    result = await running.result()
    assert (result.outcome, result.record.files) == (Outcome.CANCELLED, ())


async def test_what_does_not_fit_is_left_out_by_name(service):
    service.storage.files.rules = replace(
        service.storage.files.rules, outputs=replace(service.storage.files.rules.outputs, max_file_bytes=100)
    )
    record = (await run(service, LEAVE_MORE_THAN_FITS)).record
    assert [file.name for file in record.files] == ["a", "c", "d"]
    assert {each.name: each.why for each in record.left_out} == {"b": Why.TOO_LARGE, "link": Why.NOT_A_FILE}
    assert record.left_out_count == 2


async def test_inputs_are_there_before_the_program_runs(service):
    given = {"a.txt": Given(b"one"), "sub/b.txt": Given(b"two"), "empty": Given(b"")}
    result = await run(service, COPY_THE_INPUTS, files=given)
    names = {file.name for file in result.record.files}
    assert names == set(given)
    assert await content(service, result, "sub/b.txt") == b"two"


async def test_what_came_with_a_request_is_held_until_its_execution_has_ended(service):
    large = {"a": Given(b"x" * MEBIBYTE)}
    running = await begin(service, FOREVER, files=large)
    with pytest.raises(IntakeFull):
        await begin(service, files=large)
    running.cancel()
    await running.result()
    assert (await run(service, files=large)).outcome is Outcome.COMPLETED


async def test_what_is_refused_holds_nothing(service):
    service.journal.broken = True
    for _ in range(3):
        with pytest.raises(JournalUnavailable):
            await begin(service, files={"a": Given(b"x" * MEBIBYTE)}, workspace=PROJECT)
        service.readiness.problem = None
    service.journal.broken = False
    result = await run(service, CHANGE_THE_WORKSPACE, files={"a": Given(b"x" * MEBIBYTE)}, workspace=PROJECT)
    assert result.record.workspace.kept


async def test_a_key_names_the_program_with_its_files_and_its_workspace(service):
    asked = {"idempotency_key": "k", "files": {"a": Given(b"1")}, "workspace": PROJECT}
    first = await run(service, **asked)
    assert (await run(service, **asked)).execution_id == first.execution_id
    for other in ({"files": {"a": Given(b"2")}}, {"workspace": WorkspaceUse("other")}, {"files": {}}):
        with pytest.raises(IdempotencyMismatch):
            await begin(service, **{**asked, **other})


async def test_a_workspace_lasts_from_one_execution_to_the_next(service):
    printed = [(await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)).stdout for _ in range(3)]
    assert printed == [b"1\n", b"2\n", b"3\n"]
    assert (await run(service, CHANGE_THE_WORKSPACE, caller=OTHER_DEVELOPER, workspace=PROJECT)).stdout == b"1\n"
    other = await run(service, COPY_THE_INPUTS, files={"n": FromWorkspace("project", "count")})
    assert await content(service, other, "n") == b"3"


async def test_a_file_of_an_earlier_version_is_given(service):
    first = await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)
    await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)
    asked = {"files": {"n": FromWorkspace("project", "count", first.execution_id)}, "idempotency_key": "k"}
    result = await run(service, COPY_THE_INPUTS, **asked)
    assert await content(service, result, "n") == b"1"
    with pytest.raises(IdempotencyMismatch):
        await begin(service, COPY_THE_INPUTS, **{**asked, "files": {"n": FromWorkspace("project", "count")}})


async def test_a_workspace_beyond_the_number_that_is_allowed_is_refused_before_anything_runs(service):
    for number in range(4):
        await run(service, CHANGE_THE_WORKSPACE, workspace=WorkspaceUse(f"w{number}"))
    ran = len(service.engine.programs_run)
    with pytest.raises(TooManyWorkspaces):
        await begin(service, CHANGE_THE_WORKSPACE, workspace=WorkspaceUse("another"))
    assert len(service.engine.programs_run) == ran
    assert (await run(service, CHANGE_THE_WORKSPACE, workspace=WorkspaceUse("w0"))).stdout == b"2\n"


async def test_an_execution_that_does_not_complete_leaves_its_workspace_as_it_was(service):
    await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)
    for asked in ({"workspace": PROJECT}, {"workspace": replace(PROJECT, keep=Keep.ALWAYS)}):
        running = await begin(service, FOREVER, **asked)
        await anext(running.happenings(1))
        running.cancel()
        end = (await running.result()).record.workspace
        assert (end.name, end.version is not None) == ("project", True)
    assert (await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)).stdout == b"2\n"


async def test_files_that_a_sandbox_loses_leave_the_workspace_as_it_was(service):
    await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)
    service.engine.loses_files = True
    end = (await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)).record.workspace
    assert (end.kept, "handed over" in end.why_not) == (False, True)
    service.engine.loses_files = False
    assert (await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)).stdout == b"2\n"


async def test_the_second_waits_for_the_first_without_taking_a_place_among_the_running(service):
    first = await begin(service, FOREVER, workspace=PROJECT)
    await anext(first.happenings(1))
    waiting = [await begin(service, CHANGE_THE_WORKSPACE, workspace=PROJECT) for _ in range(2)]
    assert [(each.state, each.position) for each in waiting] == [(State.QUEUED, 1)] * 2
    assert service.admission.running == 1
    assert (await run(service, HELLO)).outcome is Outcome.COMPLETED
    first.cancel()
    assert [(await each.result()).stdout for each in waiting] == [b"1\n", b"2\n"]


async def test_whoever_does_not_want_to_wait_is_refused(service):
    first = await begin(service, FOREVER, workspace=PROJECT)
    with pytest.raises(WorkspaceBusy, match=f"Execution {first.execution.id} has the workspace project"):
        await begin(service, workspace=replace(PROJECT, wait=False))
    first.cancel()
    await first.result()
    assert (await run(service, workspace=replace(PROJECT, wait=False))).outcome is Outcome.COMPLETED


async def test_whoever_is_cancelled_while_it_waits_keeps_nobody_waiting(service):
    first = await begin(service, FOREVER, workspace=PROJECT)
    second, third = [await begin(service, CHANGE_THE_WORKSPACE, workspace=PROJECT) for _ in range(2)]
    second.cancel()
    assert (await second.result()).outcome is Outcome.CANCELLED
    first.cancel()
    async with asyncio.timeout(5):
        assert (await third.result()).stdout == b"1\n"


async def test_what_one_in_the_background_was_given_is_held_until_its_program_has_it(service):
    large = {"a": Given(b"x" * MEBIBYTE)}
    running = await begin(service, FOREVER, files=large, background=True)
    await anext(running.happenings(1))
    assert not service.storage.files._held
    assert (await run(service, files=large)).outcome is Outcome.COMPLETED


async def test_a_request_is_the_same_though_its_program_has_changed_what_it_was_given(service):
    await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)
    asked = {"files": {"n": FromWorkspace("project", "count")}, "workspace": PROJECT, "idempotency_key": "k"}
    first = await run(service, CHANGE_THE_WORKSPACE, **asked)
    assert (await run(service, CHANGE_THE_WORKSPACE, **asked)).execution_id == first.execution_id
    with pytest.raises(IdempotencyMismatch):
        await begin(service, CHANGE_THE_WORKSPACE, **{**asked, "files": {"n": FromWorkspace("project", "other")}})


async def test_what_ran_is_found_by_its_key_when_its_inputs_are_gone(service):
    async def pieces():
        yield b"1"

    upload = await service.storage.files.upload(DEVELOPER, pieces())
    asked = {"files": {"a": FromUpload(upload.sha256)}, "idempotency_key": "k"}
    first = await run(service, **asked)
    await service.storage.files.delete_upload(DEVELOPER, upload.sha256)
    assert (await run(service, **asked)).execution_id == first.execution_id


async def test_what_was_cut_off_after_it_had_changed_its_workspace_is_not_run_again(service):
    asked = {"workspace": PROJECT, "idempotency_key": "k"}
    first = await run(service, CHANGE_THE_WORKSPACE, **asked)
    # As a daemon leaves it that is killed between the version and the record.
    begun = replace(service.journal.records[first.execution_id], state=State.RUNNING, outcome=None, workspace=None)
    service.journal.records[first.execution_id] = begun
    await service.journal.mark_interrupted(begun.instance)
    with pytest.raises(AlreadyInterrupted, match="after it had begun to change the workspace project"):
        await begin(service, CHANGE_THE_WORKSPACE, **asked)
    await service.storage.workspaces.delete(DEVELOPER, "project")
    assert (await run(service, CHANGE_THE_WORKSPACE, **asked)).stdout == b"1\n"


async def test_what_a_program_left_is_in_use_until_the_journal_names_it(service):
    running = await begin(service, LEAVE_A_FILE, workspace=PROJECT)
    service.journal.broken = True
    result = await running.result()
    (file,) = result.record.files
    assert file.sha256 in service.executions.contents_in_use
    service.journal.broken = False
    await service.executions.record_what_is_missing()
    assert not service.executions.contents_in_use
    assert file.sha256 in await service.storage.index.wanted()


async def test_what_is_kept_counts_until_it_is_stored_and_no_longer(service):
    seen = []
    finish = service.journal.finish

    async def finish_and_look(*ended):
        seen.append(service.storage.quota._promised[DEVELOPER.key_name])
        await finish(*ended)

    service.journal.finish = finish_and_look
    await run(service, LEAVE_A_FILE)
    assert (seen[0] > 0, dict(service.storage.quota._promised)) == (True, {})


async def test_a_program_that_never_began_tells_what_its_workspace_has(service, monkeypatch):
    first = await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)

    async def fails(*_):
        raise SandboxFault("no recipe (test)")

    monkeypatch.setattr(service.executions._provisions, "for_role", fails)
    end = (await run(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)).record.workspace
    assert (end.kept, end.version, end.files) == (False, first.execution_id, 1)


async def test_who_has_waited_for_its_workspace_is_not_refused_because_others_wait_to_run():
    service = Service(max_running=1, max_waiting=1)
    first = await begin(service, FOREVER, workspace=PROJECT)
    waits_for_the_workspace = await begin(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)
    runs_next = await begin(service, FOREVER)
    service.admission._max_waiting = 0  # as if others had come in between
    first.cancel()
    await anext(runs_next.happenings(1))
    runs_next.cancel()
    async with asyncio.timeout(5):
        assert (await waits_for_the_workspace.result()).stdout == b"1\n"
    await service.executions.drain(0)
    await service.sandboxes.all_destroyed()


@pytest.mark.parametrize("by", list(CancelledBy))
async def test_a_cancellation_while_a_version_is_written_is_too_late(service, by):
    begun, may_go_on = asyncio.Event(), asyncio.Event()
    add_version = service.storage.index.add_version

    async def add_slowly(*version):
        begun.set()
        await may_go_on.wait()
        await add_version(*version)

    service.storage.index.add_version = add_slowly
    running = await begin(service, CHANGE_THE_WORKSPACE, workspace=PROJECT)
    await begun.wait()
    running.cancel(by)
    for _ in range(10):
        await asyncio.sleep(0)
    may_go_on.set()
    record = (await running.result()).record
    assert (record.outcome, record.workspace.kept, record.cancelled_by) == (Outcome.COMPLETED, True, None)
    assert await service.storage.workspaces.has_version(DEVELOPER, "project", record.id)
