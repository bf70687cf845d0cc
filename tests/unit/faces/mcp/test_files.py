"""Files and workspaces as a model meets them: in the reply, by page, as pictures and as resources."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.domain.errors import (
    AlreadyFinished,
    FileNotFound,
    InvalidArguments,
    InvalidRequest,
    NotFound,
    OrchestratorError,
    WorkspaceNotFound,
)
from orchestrator.domain.execution import (
    Ending,
    ExecutionRecord,
    ExecutionResult,
    Outcome,
    State,
    Stream,
)
from orchestrator.domain.files import (
    File,
    FileLimits,
    FromExecution,
    FromWorkspace,
    Given,
    LeftOut,
    Why,
    WorkspaceEnd,
    WorkspaceUse,
)
from orchestrator.faces.mcp.excerpts import Room
from orchestrator.faces.mcp.execution_tools import ExecutionTools, Reporting
from orchestrator.faces.mcp.file_lines import file_lines
from orchestrator.faces.mcp.messages import MAX_CONTENT_BYTES, MAX_MESSAGE_BYTES
from orchestrator.faces.mcp.report import report
from orchestrator.faces.mcp.resources import SAFE_TEXT_BYTES, Address, Resources
from orchestrator.faces.mcp.tool import Answer, Call
from orchestrator.faces.mcp.workspace_tools import WorkspaceTools
from orchestrator.service.budget import Budget
from orchestrator.service.records import Records
from orchestrator.service.running import RunningExecution
from tests.support.fake_files import FakeExecutions, FakeFiles, FakeWorkspaces
from tests.support.fake_journal import FakeJournal
from tests.support.samples import DEVELOPER, OTHER_DEVELOPER, execution, record, refused

COUNTER = O200kTokenCounter()
ENDED = record().ended(Ending(Outcome.COMPLETED, exit_code=0), 2.0)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
MIB = 1024 * 1024
LIMITS = FileLimits(256, 16 * MIB, 64 * MIB)
RULES: Any = SimpleNamespace(outputs=LIMITS, workspace=replace(LIMITS, max_file_bytes=128 * MIB))
FILES = (File("out/report.csv", 1234, "0" * 64), File("chart.png", 3 * 1024 * 1024, "1" * 64))


def call_by(caller=DEVELOPER) -> Call:
    async def report(progress: float, message: str) -> None: ...

    return Call(caller, report, asyncio.Event())


class Place:
    def __init__(self) -> None:
        self.journal, self.files, self.executions = FakeJournal(), FakeFiles(), FakeExecutions()
        self.files.rules = RULES
        self.workspaces = FakeWorkspaces(self.files.contents)
        self.running: dict[str, RunningExecution] = {}
        records = Records(self.journal, self.running.get)
        executing: Any = self.executions
        self.tools = {
            tool.name: tool
            for tool in (
                *ExecutionTools(
                    executing,
                    records,
                    self.files,
                    self.workspaces,
                    Budget(4, 2),
                    Reporting(COUNTER, 6000, 3),
                    lambda _: [],
                    max_request_bytes=MIB,
                ).all(),
                WorkspaceTools(self.workspaces, Budget(4, 2)).list_workspaces,
            )
        }
        self.resources = Resources(records, self.files, Budget(4, 2))

    async def leave(self, files: dict[str, bytes], execution_id: str = "e1") -> None:
        left = self.files.leave(DEVELOPER, execution_id, files)
        await self.journal.open(replace(ENDED, id=execution_id, files=left))

    async def call(self, name: str, arguments: dict[str, Any], caller=DEVELOPER) -> Answer:
        return await self.tools[name].call(arguments, call_by(caller))


@pytest.fixture
def place():
    return Place()


# --- in the background ---


async def test_one_in_the_background_is_told_by_its_id(place):
    place.executions.result = ExecutionResult(ENDED)
    answer = await place.call("execute_code", {"code": "print()", "background": True})
    assert place.executions.asked[0].background
    assert (answer.reply.outcome, answer.reply.file_count) == (None, 0)
    assert f'{{"executionId": "{answer.reply.execution_id}", "waitSeconds": 30}}' in answer.text


@pytest.mark.parametrize("structured", [False, True])
async def test_the_reply_to_one_in_the_background_can_be_sent(place, structured):
    place.executions.result = ExecutionResult(ENDED)
    answer = await place.call("execute_code", {"code": "print()", "background": True})
    result = answer.as_result(structured=structured)
    assert answer.reply.execution_id in result.content[0].text
    assert (result.structured_content is not None) is structured
    if structured:
        jsonschema.validate(result.structured_content, place.tools["execute_code"].output_schema)


class Waiting(FakeExecutions):
    """Starts what then waits for its turn or its workspace."""

    async def start(self, caller, request, execution_id):
        asked = replace(execution(id=execution_id, caller=caller), workspace=request.workspace)
        return RunningExecution(asked, asked.record(State.QUEUED))


@pytest.mark.parametrize(
    ("workspace", "waits"),
    [
        (
            {"workspace": "shop"},
            "queued in the background, waits for the workspace shop, then runs for up to 30 s, execution ",
        ),
        ({}, "queued in the background, waits for its turn, then runs for up to 30 s, execution "),
    ],
)
async def test_one_in_the_background_says_what_it_waits_for(place, monkeypatch, workspace, waits):
    monkeypatch.setattr(place.executions, "start", Waiting().start)
    place.workspaces.keep(DEVELOPER, "shop", "e0", {})
    answer = await place.call("execute_code", {"code": "1", "background": True, **workspace})
    assert answer.text.startswith(waits)


async def test_one_in_the_background_says_that_its_workspace_is_new(place, monkeypatch):
    monkeypatch.setattr(place.executions, "start", Waiting().start)
    answer = await place.call("execute_code", {"code": "1", "background": True, "workspace": "shpo"})
    assert "\nThe workspace shpo is new.\n" in answer.text


@pytest.mark.parametrize("order", [{"background": True}, {}], ids=["in the background", "waited for"])
async def test_a_crash_after_the_start_names_the_execution(place, monkeypatch, order):
    place.executions.result = ExecutionResult(ENDED)
    monkeypatch.setattr("orchestrator.faces.mcp.execution_tools.ExecutionReport", None)
    monkeypatch.setattr("orchestrator.faces.mcp.execution_tools.report", None)
    with pytest.raises(OrchestratorError, match=r"after it had started execution [0-9a-f]{32}\.") as failed:
        await place.call("execute_code", {"code": "1", **order})
    assert failed.value.execution_id in failed.value.message


# --- cancelling ---


@pytest.mark.parametrize(
    ("ended", "how"),
    [(ENDED, "completed"), (replace(record(), state=State.INTERRUPTED), "interrupted"), (refused("e1"), "refused")],
)
async def test_to_cancel_what_has_ended_is_no_error(place, monkeypatch, ended, how):
    async def cancel(caller, execution_id):
        raise AlreadyFinished("It is over.")

    monkeypatch.setattr(place.executions, "cancel", cancel, raising=False)
    await place.journal.open(ended)
    answer = await place.call("cancel_execution", {"executionId": "e1"})
    assert answer.text == f"Execution e1 had already ended: {how}. get_execution reads its output."
    assert not answer.is_error
    result = answer.as_result(structured=True)
    jsonschema.validate(result.structured_content, place.tools["cancel_execution"].output_schema)


# --- the reply to a program ---


def told(*, in_new_workspace: bool = False, **changes) -> str:
    result = ExecutionResult(replace(ENDED, **changes), stdout=b"done\n")
    return report(result, 6000, COUNTER, RULES, in_new_workspace=in_new_workspace).text


def test_files_are_listed_before_what_the_program_printed():
    first, printed = told(files=FILES).split("\n\n")
    assert first.splitlines()[1:] == [
        "Files, which get_execution reads:",
        "- out/report.csv, 1.2 KiB",
        "- chart.png, 3 MiB",
    ]
    assert printed == "stdout:\ndone"


def test_whoever_leaves_files_is_told_the_id_that_they_are_asked_for_with():
    assert told(files=FILES).splitlines()[0].endswith(f"execution {ENDED.id}")
    assert ENDED.id not in told().replace("executed", "")


def test_a_program_that_left_files_need_not_print():
    text = report(ExecutionResult(replace(ENDED, files=FILES)), 6000, COUNTER).text
    assert "printed nothing" not in text


def test_a_program_that_changed_its_workspace_need_not_print():
    end = WorkspaceEnd("notes", True, ENDED.id, 1, 5)
    text = report(ExecutionResult(replace(ENDED, workspace=end)), 6000, COUNTER).text
    assert text.splitlines()[1:] == ["Workspace notes: 1 file, 5 bytes"]


def test_many_files_are_counted():
    lines = told(files=tuple(File(f"{number}.txt", 1, "0" * 64) for number in range(256))).splitlines()
    assert len([line for line in lines if line.startswith("- ")]) == 21
    assert "- and 236 more" in lines


def test_long_names_take_their_share_of_the_reply_and_no_more():
    files = tuple(File(f"{number}{'é' * 500}.txt", 1, "0" * 64) for number in range(256))
    result = ExecutionResult(replace(ENDED, files=files), stdout=b"rows\n" * 5000)
    text = report(result, 1000, COUNTER).text
    assert COUNTER.count(text) <= 1000
    assert "more" in text
    assert text.count("rows") > 100


def test_what_was_not_kept_is_told_with_its_reason():
    left_out = (LeftOut("big.bin", Why.TOO_LARGE, 20 * 1024 * 1024), LeftOut("link", Why.NOT_A_FILE))
    first = "big.bin (20 MiB, too large; the limit is 16 MiB)"
    assert f"Not kept: {first}, link (not a file, but a link or the like), and 5 more." in told(
        left_out=left_out, left_out_count=7
    )


@pytest.mark.parametrize("why", Why)
def test_each_reason_has_words(why):
    (line,) = file_lines(replace(ENDED, left_out=(LeftOut("a", why),), left_out_count=1), Room(COUNTER, 1000))
    assert line.startswith("Not kept: a (")


@pytest.mark.parametrize(
    ("why", "limit"),
    [
        (Why.TOO_LARGE, "too large; the limit is 16 MiB"),
        (Why.TOO_MANY, "more files than are kept; the limit is 256 files"),
        (Why.NO_ROOM, "too large; the limit is 64 MiB"),
    ],
)
def test_what_is_over_a_limit_is_told_the_limit(why, limit):
    assert f"{limit}).\n" in told(left_out=(LeftOut("a", why),), left_out_count=1)


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (WorkspaceEnd("notes", True, ENDED.id, 2, 276 * 1024), "Workspace notes: 2 files, 276 KiB"),
        (WorkspaceEnd("notes", True, "e0", 2, 276 * 1024), "Workspace notes: 2 files, 276 KiB, unchanged"),
        (WorkspaceEnd("notes", True, ENDED.id), "Workspace notes: empty. It keeps what is in /workspace/files."),
        (
            WorkspaceEnd("notes", version="e0", why_not="The execution ended as failed."),
            "The workspace notes was not changed. The execution ended as failed.",
        ),
        (
            WorkspaceEnd("notes", why_not="The execution ended as failed."),
            "The workspace notes was not created. The execution ended as failed.",
        ),
    ],
)
def test_what_became_of_a_workspace_is_told_in_a_line(end, line):
    assert told(workspace=end).splitlines()[1] == line


def test_a_new_workspace_is_called_so_because_its_name_may_be_a_slip():
    end = WorkspaceEnd("notse", True, ENDED.id, 1, 5)
    assert "\nWorkspace notse (new): 1 file, 5 bytes\n" in told(workspace=end, in_new_workspace=True)


@pytest.mark.parametrize(("existing", "is_new"), [("notes", False), ("others", True)])
async def test_a_workspace_is_new_if_it_did_not_exist_before(place, existing, is_new):
    place.workspaces.keep(DEVELOPER, existing, "e0", {})
    place.executions.result = ExecutionResult(replace(ENDED, workspace=WorkspaceEnd("notes", True, ENDED.id, 1, 5)))
    answer = await place.call("execute_code", {"code": "1", "workspace": "notes"})
    assert ("Workspace notes (new): 1 file" in answer.text) is is_new


def test_a_workspace_that_lacks_something_says_what():
    end = WorkspaceEnd("notes", kept=True, left_out=(LeftOut("pipe", Why.NOT_A_FILE),))
    assert "Not in the workspace: pipe (not a file, but a link or the like)." in told(workspace=end)


def test_programs_get_the_same_in_fields():
    left_out = (LeftOut("big.bin", Why.TOO_LARGE, 5),)
    end = WorkspaceEnd("notes", kept=True, version="e1")
    ended = replace(ENDED, files=FILES, left_out=left_out, left_out_count=1, workspace=end)
    fields = report(ExecutionResult(ended), 6000, COUNTER).structured.model_dump(mode="json", by_alias=True)
    assert [file["name"] for file in fields["files"]] == ["out/report.csv", "chart.png"]
    assert (fields["fileCount"], fields["filesLeftOutCount"], fields["workspace"]["version"]) == (2, 1, "e1")
    assert fields["filesLeftOut"] == [{"name": "big.bin", "bytes": 5, "why": "too_large"}]


# --- what execute_code takes ---


@pytest.mark.parametrize(
    "files",
    [
        [
            {"name": "a.txt", "text": "hello"},
            {"name": "b.csv", "from": {"execution": "e1", "name": "out.csv"}},
            {"name": "c.csv", "from": {"workspace": "notes", "name": "c.csv", "version": "e0"}},
        ],
        {
            "a.txt": {"text": "hello"},
            "b.csv": {"from": {"execution": "e1", "name": "out.csv"}},
            "c.csv": {"from": {"workspace": "notes", "name": "c.csv", "version": "e0"}},
        },
    ],
    ids=["list", "object"],
)
async def test_files_come_as_a_list_or_as_in_the_http_api(place, files):
    place.executions.result = ExecutionResult(ENDED)
    await place.call("execute_code", {"code": "1", "files": files, "workspace": "notes"})
    (asked,) = place.executions.asked
    assert asked.files == {
        "a.txt": Given(b"hello"),
        "b.csv": FromExecution("e1", "out.csv"),
        "c.csv": FromWorkspace("notes", "c.csv", "e0"),
    }
    assert asked.workspace == WorkspaceUse("notes")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"files": [{"name": "a"}]}, "The file `a` must have either `text` or `from`; it has neither."),
        (
            {"files": [{"name": "a", "text": "", "from": {"workspace": "w"}}]},
            "The file `a` must have either `text` or `from`; it has both.",
        ),
        (
            {"files": [{"name": "a", "from": "abc"}]},
            "`files.0.from` must be an object.",
        ),
        ({"files": ["abc"]}, "`files.0` must be an object."),
        ({"files": [{"name": "a", "from": {"name": "b"}}]}, "`from` must have either `execution` or `workspace`"),
        ({"files": [{"name": "../a", "text": ""}]}, "is no name for a file"),
        ({"files": [{"name": "a", "text": ""}, {"name": "a", "text": ""}]}, "each name once"),
        ({"files": [{"name": "a", "path": "/"}]}, "`files.0.path` is unknown; known are `name`, `text`, `from`"),
        ({"files": [{"text": "a"}]}, "`files.0.name` is missing"),
        ({"files": "a.txt"}, "`files` must be a list"),
        ({"files": {"a": "text"}}, "`files` must be a list"),
        ({"workspace": "../x"}, "`workspace` must have 1 to 64 letters"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_told(place, arguments, complaint):
    with pytest.raises((InvalidArguments, InvalidRequest)) as refused:
        await place.call("execute_code", {"code": "1", **arguments})
    assert complaint in refused.value.message
    assert not place.executions.asked


@pytest.mark.parametrize("kept", [{"workspace": "notes"}, {"workspace": "notes", "name": None}])
async def test_a_kept_file_has_the_same_name_unless_another_is_given(place, kept):
    place.executions.result = ExecutionResult(ENDED)
    await place.call("execute_code", {"code": "1", "files": [{"name": "a.csv", "from": kept}]})
    assert place.executions.asked[0].files == {"a.csv": FromWorkspace("notes", "a.csv")}


@pytest.mark.parametrize(("given", "meant"), [(True, True), ("true", True), ("False", False)])
async def test_true_and_false_are_understood_in_quotes(place, given, meant):
    place.executions.result = ExecutionResult(ENDED)
    await place.call("execute_code", {"code": "1", "background": given})
    assert place.executions.asked[0].background is meant


@pytest.mark.parametrize("given", ["yes", "on", "1", 1, 0, "", []])
async def test_what_is_neither_true_nor_false_is_refused(place, given):
    with pytest.raises(InvalidArguments, match="`background` must be true or false"):
        await place.call("execute_code", {"code": "1", "background": given})


# --- reading what was left ---


async def test_the_files_of_one_that_runs_come_when_it_has_ended(place):
    await place.journal.open(record(state=State.RUNNING))
    answer = await place.call("get_execution", {"executionId": "e1", "file": "a.txt"})
    assert answer.text == (
        "Execution e1 has not ended yet (running). Its files can be read when it has: ask again with "
        '"waitSeconds": 30 to wait for that.'
    )
    jsonschema.validate(
        answer.as_result(structured=True).structured_content, place.tools["get_execution"].output_schema
    )


async def test_whoever_waits_for_a_file_waits_for_the_end_and_not_for_output(place):
    await place.journal.open(record(state=State.RUNNING))
    place.running["e1"] = RunningExecution(execution(), record(state=State.RUNNING))
    asking = asyncio.create_task(place.call("get_execution", {"executionId": "e1", "file": "a.txt", "waitSeconds": 30}))
    for _ in range(10):
        await asyncio.sleep(0)
    place.running["e1"].receive(Stream.STDOUT, b"up")
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asking.done()
    left = place.files.leave(DEVELOPER, "e1", {"a.txt": b"whole"})
    ended = ExecutionResult(replace(ENDED, files=left))
    await place.journal.finish(ended)
    place.running.pop("e1").publish(ended)
    assert (await asking).text.endswith("whole")


async def test_a_text_file_is_read_by_page(place):
    await place.leave({"log.txt": b"".join(b"line %d\n" % number for number in range(5000))})
    answer = await place.call("get_execution", {"file": "log.txt", "maxTokens": 600})
    assert answer.text.startswith("log.txt of e1 (completed): bytes 0 to ")
    following = answer.reply.next_offset
    assert f'go on with "offset": {following}' in answer.text
    rest = await place.call("get_execution", {"file": "log.txt", "maxTokens": 600, "offset": following})
    assert f"bytes {following} to " in rest.text
    assert COUNTER.count(rest.text) <= 600


async def test_a_text_file_is_searched(place):
    await place.leave({"log.txt": b"one\nError: two\nthree\n" * 3})
    answer = await place.call("get_execution", {"executionId": "e1", "file": "log.txt", "search": "error"})
    assert answer.text.splitlines()[0] == "log.txt of e1 (completed): 3 of 3 lines with 'error'"
    assert answer.text.splitlines()[1] == "line 2, offset 4: Error: two"


async def test_of_a_huge_file_the_beginning_is_searched_and_that_is_told(place):
    await place.leave({"log.txt": b"a line\n" * 900_000 + b"the end\n"})
    answer = await place.call("get_execution", {"file": "log.txt", "search": "the end"})
    assert "0 of 0 lines with 'the end'" in answer.text
    assert answer.text.endswith("Only the first 4 MiB of 6 MiB were searched; let a program search the rest.")


async def test_a_text_in_an_old_encoding_is_still_text(place):
    await place.leave({"alt.txt": "Größe: fünf Fuß\n".encode("latin-1") * 5})
    said, shown = (await place.call("get_execution", {"file": "alt.txt"})).text.split("\n\n", 1)
    assert "Gr\ufffd\ufffde" in shown
    assert said.endswith("\n\ufffd stands for bytes that are not UTF-8; let a program read the file in its encoding.")
    found = await place.call("get_execution", {"file": "alt.txt", "search": "Größe"})
    assert found.text.splitlines()[1] == "Bytes that are not UTF-8 are shown as \ufffd, and cannot be searched for."


async def test_of_utf8_nothing_is_said_wherever_a_page_ends(place):
    await place.leave({"a.txt": "Größe: 数据 𝄞\n".encode() * 2000, "b.txt": "a real \ufffd\n".encode()})
    offset: int | None = 0
    while offset is not None:
        page = await place.call("get_execution", {"file": "a.txt", "offset": offset, "maxTokens": 500})
        assert "UTF-8" not in page.text
        offset = page.reply.next_offset
    for more in ({"offset": 1}, {"search": "real"}):
        assert "UTF-8" not in (await place.call("get_execution", {"file": "b.txt", **more})).text


@pytest.mark.parametrize("name", ["chart.png", "chart.txt"])
async def test_a_picture_is_shown_whatever_its_name(place, name):
    await place.leave({name: PNG})
    answer = await place.call("get_execution", {"file": name})
    (picture,) = answer.more
    assert (picture.mime_type, b64decode(picture.data)) == ("image/png", PNG)
    assert answer.text == f"{name} of e1: image/png, {len(PNG)} bytes"


@pytest.mark.parametrize(
    "content",
    [b"PK\x03\x04\0\0", bytes(range(128, 256)) * 10, b"<svg/>\0"],
    ids=["an archive", "noise", "a text with a zero byte"],
)
async def test_any_other_file_says_how_to_get_at_it(place, content):
    await place.leave({"a b.bin": content})
    answer = await place.call("get_execution", {"file": "a b.bin"})
    assert not answer.more
    assert answer.text.startswith("a b.bin of e1 is no text: application/octet-stream, ")
    assert "/executions/e1/files/a%20b.bin" in answer.text


async def test_a_picture_that_is_too_large_says_so_with_the_limit(place):
    await place.leave({"chart.png": PNG + bytes(MIB)})
    answer = await place.call("get_execution", {"file": "chart.png"})
    assert not answer.more
    assert answer.text.startswith("chart.png of e1 is a picture of 1 MiB; at most 720 KiB can be shown.")
    assert '"from": {"execution": "e1"}' in answer.text
    assert "/executions/e1/files/chart.png" in answer.text


async def test_the_largest_picture_that_is_shown_fits_into_one_message(place):
    await place.leave({"chart.png": PNG + bytes(MAX_CONTENT_BYTES - len(PNG))})
    answer = await place.call("get_execution", {"file": "chart.png"})
    assert len(answer.more) == 1
    assert len(answer.as_result(structured=True).model_dump_json()) < MAX_MESSAGE_BYTES


async def test_an_svg_is_text_and_not_a_picture(place):
    await place.leave({"a.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>"})
    answer = await place.call("get_execution", {"file": "a.svg"})
    assert not answer.more
    assert answer.text.endswith("<svg xmlns='http://www.w3.org/2000/svg'/>")


async def test_another_callers_file_is_as_if_it_were_not_there(place):
    await place.leave({"a.txt": b"secret"})
    with pytest.raises(NotFound):
        await place.call("get_execution", {"executionId": "e1", "file": "a.txt"}, OTHER_DEVELOPER)
    with pytest.raises(FileNotFound):
        await place.call("get_execution", {"executionId": "e1", "file": "b.txt"})
    with pytest.raises(NotFound):
        await place.resources.read(OTHER_DEVELOPER, "execution://e1/files/a.txt")
    assert await place.resources.listed(OTHER_DEVELOPER) == []


# --- resources ---


async def test_files_are_resources(place):
    await place.leave({"d/a b.txt": b"text", "c.bin": b"\0\1"})
    listed = await place.resources.listed(DEVELOPER)
    assert [(str(each.uri), each.name, each.size) for each in listed] == [
        ("execution://e1/files/d/a%20b.txt", "d/a b.txt", 4),
        ("execution://e1/files/c.bin", "c.bin", 2),
    ]
    text, binary = [await place.resources.read(DEVELOPER, str(each.uri)) for each in listed]
    assert text.text == "text"
    assert b64decode(binary.blob) == b"\0\1"
    part = await place.resources.read(DEVELOPER, "execution://e1/files/d/a%20b.txt?offset=1&length=2")
    assert part.text == "ex"


async def test_a_large_file_is_read_in_pieces(place):
    await place.leave({"large.bin": bytes(MAX_CONTENT_BYTES + 1)})
    with pytest.raises(InvalidRequest, match="in pieces, with"):
        await place.resources.read(DEVELOPER, "execution://e1/files/large.bin")
    first = await place.resources.read(DEVELOPER, f"execution://e1/files/large.bin?length={MAX_CONTENT_BYTES}")
    assert len(first.model_dump_json()) < MAX_MESSAGE_BYTES
    rest = await place.resources.read(
        DEVELOPER, f"execution://e1/files/large.bin?offset={MAX_CONTENT_BYTES}&length=999999999"
    )
    assert len(b64decode(rest.blob)) == 1


async def test_a_text_that_is_large_as_json_is_read_in_smaller_pieces(place):
    await place.leave({"large.txt": b"a line\n" + b"\x01" * (MAX_CONTENT_BYTES - 7)})
    with pytest.raises(InvalidRequest, match=f"with .offset=0&length={SAFE_TEXT_BYTES} first"):
        await place.resources.read(DEVELOPER, "execution://e1/files/large.txt")
    piece = await place.resources.read(DEVELOPER, f"execution://e1/files/large.txt?offset=7&length={SAFE_TEXT_BYTES}")
    assert len(json.dumps(piece.text)) < MAX_MESSAGE_BYTES


async def test_a_large_output_is_read_in_pieces(place):
    await place.journal.open(record())
    await place.journal.finish(ExecutionResult(ENDED, stdout=b"x" * (MAX_CONTENT_BYTES + 1)))
    for query in ("", f"?length={MAX_CONTENT_BYTES + 1}", "?length=999999999999999"):
        with pytest.raises(InvalidRequest, match="in pieces, with"):
            await place.resources.read(DEVELOPER, f"execution://e1/stdout{query}")
    first = await place.resources.read(DEVELOPER, f"execution://e1/stdout?length={MAX_CONTENT_BYTES}")
    assert len(first.text) == MAX_CONTENT_BYTES
    assert (await place.resources.read(DEVELOPER, f"execution://e1/stdout?offset={MAX_CONTENT_BYTES}")).text == "x"


@pytest.mark.parametrize(
    "uri",
    [
        *("execution://e1/files/", "execution://e1/files/../stdout", "execution://e1/files/..%2fx", "execution://e1/x"),
        *(
            "execution://e1/files/a%00",
            "execution://e1/files//etc/passwd",
            "file:///etc/passwd",
            "execution://../files/a",
        ),
    ],
)
def test_an_address_that_leads_elsewhere_is_refused(uri):
    with pytest.raises(InvalidRequest):
        Address.parse(uri)


# --- workspaces ---


async def test_workspaces_are_listed_in_a_line_each(place):
    place.workspaces.keep(DEVELOPER, "notes", "e1", {"a.txt": b"1"}, at=1)
    place.workspaces.keep(DEVELOPER, "notes", "e2", {"a.txt": b"1", "b.txt": b"22"}, at=2)
    place.workspaces.keep(OTHER_DEVELOPER, "secret", "e3", {"a.txt": b"1"})
    line = "notes: 2 files, 3 bytes, as execution e2 left it at 1970-01-01T00:00:02Z"
    assert (await place.call("list_workspaces", {})).text == line
    answer = await place.call("list_workspaces", {"name": "notes"})
    restore = (
        "Earlier versions: e1. `from` of execute_code takes a file of one with `version`; "
        "a person restores a whole one with `code-executor workspaces restore notes VERSION`."
    )
    assert answer.text.splitlines() == [line, "- a.txt, 1 byte", "- b.txt, 2 bytes", restore]
    with pytest.raises(WorkspaceNotFound):
        await place.call("list_workspaces", {"name": "secret"})


async def test_a_caller_without_workspaces_is_told_so(place):
    assert (await place.call("list_workspaces", {})).text == "You have no workspace."


async def test_long_lists_are_cut(place):
    place.workspaces.keep(DEVELOPER, "w", "e1", {f"{number}.txt": b"" for number in range(300)})
    for number in range(70):
        place.workspaces.keep(DEVELOPER, f"w{number}", "e1", {})
    assert (await place.call("list_workspaces", {"name": "w"})).text.endswith("\n- and 200 more")
    assert (await place.call("list_workspaces", {})).text.endswith("\nand 21 more")


def test_a_record_without_files_says_nothing_of_them():
    assert file_lines(ExecutionRecord("e", "c", "r", ENDED.state, 0.0), Room(COUNTER, 1000)) == []
