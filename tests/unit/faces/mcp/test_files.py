"""Files and workspaces as a model meets them: in the reply, by page, as pictures and as resources."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.domain.errors import FileNotFound, InvalidArguments, InvalidRequest, NotFound, WorkspaceNotFound
from orchestrator.domain.execution import Ending, ExecutionRecord, ExecutionResult, Outcome
from orchestrator.domain.files import (
    File,
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
from orchestrator.faces.mcp.report import report
from orchestrator.faces.mcp.resources import LARGEST_FILE_BYTES, Address, Resources
from orchestrator.faces.mcp.stored_files import MAX_PICTURE_BYTES
from orchestrator.faces.mcp.tool import Answer, Call
from orchestrator.faces.mcp.workspace_tools import WorkspaceTools
from orchestrator.service.budget import Budget
from orchestrator.service.records import Records
from tests.support.fake_files import FakeExecutions, FakeFiles, FakeWorkspaces
from tests.support.fake_journal import FakeJournal
from tests.support.samples import DEVELOPER, OTHER_DEVELOPER, record

COUNTER = O200kTokenCounter()
ENDED = record().ended(Ending(Outcome.COMPLETED, exit_code=0), 2.0)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
FILES = (File("out/report.csv", 1234, "0" * 64), File("chart.png", 3 * 1024 * 1024, "1" * 64))


def call_by(caller=DEVELOPER) -> Call:
    async def report(progress: float, message: str) -> None: ...

    return Call(caller, report, asyncio.Event())


class Place:
    def __init__(self) -> None:
        self.journal, self.files, self.executions = FakeJournal(), FakeFiles(), FakeExecutions()
        self.workspaces = FakeWorkspaces(self.files.contents)
        records = Records(self.journal, lambda _: None)
        executing: Any = self.executions
        self.tools = {
            tool.name: tool
            for tool in (
                *ExecutionTools(
                    executing, records, self.files, Budget(4, 2), Reporting(COUNTER, 6000, 3), lambda _: []
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


# --- the reply to a program ---


def told(**changes) -> str:
    return report(ExecutionResult(replace(ENDED, **changes), stdout=b"done\n"), 6000, COUNTER).text


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
    assert "Not kept: big.bin (20 MiB, too large), link (not a file, but a link or the like), and 5 more." in told(
        left_out=left_out, left_out_count=7
    )


@pytest.mark.parametrize("why", Why)
def test_each_reason_has_words(why):
    (line,) = file_lines(replace(ENDED, left_out=(LeftOut("a", why),), left_out_count=1), Room(COUNTER, 1000))
    assert line.startswith("Not kept: a (")


def test_a_workspace_is_mentioned_when_it_was_not_changed():
    end = WorkspaceEnd("notes", kept=False, why_not="The execution ended as failed.")
    assert "The workspace notes was not changed. The execution ended as failed.\n" in told(workspace=end)
    assert "notes" not in told(workspace=WorkspaceEnd("notes", kept=True, version="e1"))


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
            {"name": "c.csv", "from": {"workspace": "notes", "name": "c.csv"}},
        ],
        {
            "a.txt": {"text": "hello"},
            "b.csv": {"from": {"execution": "e1", "name": "out.csv"}},
            "c.csv": {"from": {"workspace": "notes", "name": "c.csv"}},
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
        "c.csv": FromWorkspace("notes", "c.csv"),
    }
    assert asked.workspace == WorkspaceUse("notes")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"files": [{"name": "a"}]}, "The file `a` must have one of"),
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


# --- reading what was left ---


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
    assert "Gr\ufffd\ufffde" in (await place.call("get_execution", {"file": "alt.txt"})).text


@pytest.mark.parametrize("name", ["chart.png", "chart.txt"])
async def test_a_picture_is_shown_whatever_its_name(place, name):
    await place.leave({name: PNG})
    answer = await place.call("get_execution", {"file": name})
    (picture,) = answer.more
    assert (picture.mime_type, b64decode(picture.data)) == ("image/png", PNG)
    assert answer.text == f"{name} of e1: image/png, {len(PNG)} bytes"


@pytest.mark.parametrize(
    "content",
    [PNG + bytes(MAX_PICTURE_BYTES), b"PK\x03\x04\0\0", bytes(range(128, 256)) * 10, b"<svg/>\0"],
    ids=["a huge picture", "an archive", "noise", "a text with a zero byte"],
)
async def test_any_other_file_says_how_to_get_at_it(place, content):
    await place.leave({"a b.bin": content})
    answer = await place.call("get_execution", {"file": "a b.bin"})
    assert not answer.more
    assert answer.text.startswith("a b.bin of e1 is no text: application/octet-stream, ")
    assert "/executions/e1/files/a%20b.bin" in answer.text


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
    await place.leave({"large.bin": bytes(LARGEST_FILE_BYTES + 1)})
    with pytest.raises(InvalidRequest, match="in pieces, with"):
        await place.resources.read(DEVELOPER, "execution://e1/files/large.bin")
    rest = await place.resources.read(DEVELOPER, f"execution://e1/files/large.bin?offset={LARGEST_FILE_BYTES}")
    assert len(b64decode(rest.blob)) == 1


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
    assert answer.text.splitlines() == [line, "- a.txt, 1 byte", "- b.txt, 2 bytes", "Earlier versions: e1."]
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
