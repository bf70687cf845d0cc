"""Python programs that call tools."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from typing import Any

import pytest

from orchestrator.domain.tools import Tool
from tests.unit.client_library.gateway import GRANT, Gateway, Request, text
from tests.unit.client_library.test_typescript_client import CLOSED, READ
from tests.unit.client_library.workspace import Workspace

NOT_AWAITED = "The call was not awaited: write `await` before it to get its result."
IMPORT = "import asyncio, json\nfrom servers.file_system import read_file\n"


def run(workspace: Workspace, gateway: Gateway, program: str, *tools: Tool) -> str:
    workspace.add_tools(READ, CLOSED, *tools)
    completed = workspace.run_python(program, gateway.environment)
    assert completed.stderr == ""
    return completed.stdout


def run_in_event_loop(workspace: Workspace, gateway: Gateway, body: str) -> str:
    lines = "".join(f"    {line.strip()}\n" for line in body.strip().splitlines())
    return run(workspace, gateway, f"{IMPORT}async def main():\n{lines}\nasyncio.run(main())\n")


def value_of(workspace: Workspace, gateway: Gateway, arguments: str = "path='x'") -> Any:
    return json.loads(run(workspace, gateway, f"{IMPORT}print(json.dumps(read_file({arguments})))"))


def failure_of(workspace: Workspace, gateway: Gateway, arguments: str = "path='x'") -> Any:
    program = f"""{IMPORT}
from servers.errors import ToolError
try:
    read_file({arguments})
except ToolError as error:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    print(json.dumps({{**vars(error), "kinds": kinds[: kinds.index("Exception")], "message": str(error)}}))
"""
    return json.loads(run(workspace, gateway, program))


def test_call_carries_the_grant_and_the_original_names(workspace: Workspace, gateway: Gateway) -> None:
    value_of(workspace, gateway)
    body = {"server": "file-system", "tool": "read.file", "arguments": {"path": "x"}}
    assert gateway.requests == [Request("/call", f"Bearer {GRANT}", body)]


@pytest.mark.parametrize("arguments", ["path='x', head=1", "{'path': 'x', 'head': 1}", "{'path': 'x'}, head=1"])
def test_arguments_are_keywords_or_one_dict(arguments: str, workspace: Workspace, gateway: Gateway) -> None:
    assert value_of(workspace, gateway, arguments) == "ok"
    assert gateway.arguments == [{"path": "x", "head": 1}]


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [{"type": "text", "text": "seen"}], "structuredContent": {"a": [1]}}, {"a": [1]}),
        (text('{"a": 1}')[1], {"a": 1}),
        (text(" [1, 2]\n")[1], [1, 2]),
        (text("{not json")[1], "{not json"),
        (text("42")[1], "42"),
        (text("one", '{"two": 2}')[1], ["one", {"two": 2}]),
        ({"content": []}, None),
        ({}, None),
    ],
)
def test_result_is_unwrapped(result: Any, value: Any, workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((200, result))
    assert value_of(workspace, gateway) == value


def test_images_and_resources_are_objects_with_bytes(workspace: Workspace, gateway: Gateway) -> None:
    contents = [
        {"type": "image", "mimeType": "image/png", "data": "AP/+"},
        {"type": "resource", "resource": {"uri": "a:", "blob": "AQI="}},
        {"type": "resource", "resource": {"uri": "b:", "mimeType": "text/plain", "text": "hi"}},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "of the future", "x": 1},
    ]
    gateway.answers((200, {"content": contents}))
    program = f"""{IMPORT}
from servers.content import Image, Resource, ResourceLink
image, blob, note, link, other = read_file(path="x")
assert image == Image("image/png", b"\\x00\\xff\\xfe"), image
assert blob == Resource("a:", data=b"\\x01\\x02"), blob
assert note == Resource("b:", "text/plain", "hi"), note
assert link == ResourceLink("file:///a", "a"), link
assert other == {{"type": "of the future", "x": 1}}, other
print(image)
"""
    assert run(workspace, gateway, program) == "Image(mime_type='image/png')\n"


@pytest.mark.parametrize("data", ["AP/+", "AP/\n+", "AP/+\n"])
def test_base64_may_have_line_breaks(data: str, workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((200, {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}))
    assert run(workspace, gateway, f"{IMPORT}\nprint(list(read_file(path='x').data))") == "[0, 255, 254]\n"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"type": "image", "mimeType": "image/png", "data": "no base64!"}, "an image"),
        ({"type": "image", "mimeType": "image/png", "data": "abcde"}, "an image"),
        ({"type": "image", "mimeType": "image/png"}, "an image"),
        ({"type": "image", "mimeType": "image/png", "data": 5}, "an image"),
        ({"type": "audio", "mimeType": "audio/wav", "data": "%%"}, "audio"),
        ({"type": "resource", "resource": {"uri": "a:", "blob": "é"}}, "a resource"),
    ],
)
def test_data_that_is_no_base64_is_an_error_of_the_tool(
    content: Any, what: str, workspace: Workspace, gateway: Gateway
) -> None:
    gateway.answers((200, {"content": [content]}))
    error = failure_of(workspace, gateway)
    assert error["kinds"] == ["ToolError"]
    assert error["message"] == f"file-system/read.file: The tool returned {what} whose data is not base64."


def test_error_of_a_tool_has_the_message_of_its_server(workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((200, {**text("ENOENT: no such file")[1], "isError": True}))
    error = failure_of(workspace, gateway)
    assert error["kinds"] == ["ToolError"]
    assert error["message"] == "file-system/read.file: ENOENT: no such file"
    assert (error["server"], error["tool"]) == ("file-system", "read.file")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "tool_denied", "ToolDenied"),
        (401, "grant_invalid", "ToolDenied"),
        (503, "tool_unavailable", "ToolUnavailable"),
        (422, "invalid_arguments", "InvalidArguments"),
        (429, "limit_exceeded", "ToolLimitExceeded"),
        (413, "limit_exceeded", "ToolLimitExceeded"),
    ],
)
def test_refusal_of_the_gateway_has_its_class(
    status: int, code: str, kind: str, workspace: Workspace, gateway: Gateway
) -> None:
    gateway.answers((status, {"code": code, "message": "Because.", "hint": "Do otherwise."}))
    error = failure_of(workspace, gateway)
    assert error["kinds"] == [kind, "ToolError"]
    assert error["message"] == "file-system/read.file: Because.\nDo otherwise."
    assert (error["code"], error["hint"]) == (code, "Do otherwise.")


def test_reply_that_is_no_json_is_an_unavailable_tool(workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((502, b"<html>Bad gateway</html>"))
    assert failure_of(workspace, gateway)["kinds"][0] == "ToolUnavailable"


def test_gateway_that_is_not_there_is_an_unavailable_tool(workspace: Workspace, gateway: Gateway) -> None:
    gateway.address = "@nobody-listens-here"
    error = failure_of(workspace, gateway)
    assert error["kinds"][0] == "ToolUnavailable"
    assert "Connection refused" in error["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "`path` is required."),
        ("'x'", "The arguments must be keywords or one dict."),
        ("path=1", "`path` must be a string, not 1."),
        ("path=None", "`path` must be a string, not None."),
        ("path='x', head=1.5", "`head` must be an integer, not 1.5."),
        ("path='x', head=True", "`head` must be an integer, not True."),
        ("path='x', mode='texd'", "`mode` must be one of 'text', 'binary', not 'texd'."),
        ("path='x', Head=1", "`Head` is unknown; did you mean `head`?"),
        ("path='x', haed=1", "`haed` is unknown; did you mean `head`?"),
        ("file='x'", "`path` is required. `file` is unknown; did you mean `path`?"),
        ("path='x', edits=[{'line': 1}, {}]", "`edits[1].line` is required."),
        ("path='x', when=1", "`when` must be a string or None, not 1."),
        (
            "path='x', extra={1, 2}",
            "The arguments cannot be written as JSON: Object of type set is not JSON serializable",
        ),
        ("path='x', extra=float('nan')", "The arguments cannot be written as JSON: Out of range float values"),
    ],
)
def test_wrong_arguments_are_not_sent(arguments: str, message: str, workspace: Workspace, gateway: Gateway) -> None:
    error = failure_of(workspace, gateway, arguments)
    assert error["kinds"] == ["InvalidArguments", "ToolError"]
    assert error["message"].startswith(f"file-system/read.file: {message}")
    assert "\nUsage: read_file(*, path: str, head: int = ..., " in error["message"]
    assert gateway.requests == []


def test_none_stands_for_an_argument_that_is_not_given(workspace: Workspace, gateway: Gateway) -> None:
    value_of(workspace, gateway, "path='x', head=None, when=None, edits=({'line': 1},)")
    assert gateway.arguments == [{"path": "x", "when": None, "edits": [{"line": 1}]}]


def test_arguments_that_are_no_keywords_have_aliases(workspace: Workspace, gateway: Gateway) -> None:
    tool = Tool("s", "t", input_schema={"properties": {"from": {"type": "string"}, "user-id": {}}})
    program = "from servers.s import t\nt(from_='x', user_id=1)\nt({'from': 'y'})\nt(**{'user-id': 2})"
    run(workspace, gateway, program, tool)
    assert gateway.arguments == [{"from": "x", "user-id": 1}, {"from": "y"}, {"user-id": 2}]


def test_tools_are_imported_in_every_usual_way(workspace: Workspace, gateway: Gateway) -> None:
    program = """
import servers
from servers.file_system.read_file import read_file, ReadFileInput
from servers.file_system import read_file as again
from servers import file_system
import servers.file_system.close
assert read_file is again is file_system.read_file is servers.file_system.read_file
assert servers.file_system.close() == "ok"
from servers.file_system import *
assert close() == read_file(path="x") == "ok"
try:
    file_system.reed_file
except AttributeError as error:
    print(error)
"""
    printed = run(workspace, gateway, program)
    assert printed == (
        "servers.file_system has no tool 'reed_file'; it has: close, read_file. Did you mean 'read_file'?\n"
    )


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("from servers import file_sytem", "There is no server 'file_sytem'; there are: file_system. Did you mean "),
        ("import servers; servers.absent", "There is no server 'absent'; there are: file_system."),
        ("from servers.file_system import reed_file", "servers.file_system has no tool 'reed_file'; it has: close, "),
        (
            "from servers import discovery; discovery.list_tools('file_sytem')",
            "There is no server 'file_sytem'; there are: file_system. Did you mean 'file_system'?",
        ),
    ],
)
def test_wrong_name_is_answered_with_those_that_are_there(
    statement: str, complaint: str, workspace: Workspace, gateway: Gateway
) -> None:
    program = f"""
try:
    {statement}
except (ImportError, AttributeError, ValueError) as error:
    print(error)
    assert error.__cause__ is None and error.__context__ is None
"""
    assert run(workspace, gateway, program).startswith(complaint)


def test_absent_name_can_be_asked_for(workspace: Workspace, gateway: Gateway) -> None:
    program = """
import servers
from servers import file_system
print(hasattr(servers, "absent"), hasattr(file_system, "absent"), getattr(file_system, "absent", None))
"""
    assert run(workspace, gateway, program) == "False False None\n"


@pytest.mark.parametrize(
    ("message", "path", "is_told"),
    [
        ("ENOENT: no such file or directory", "main.py", False),
        ("ENOENT: no such file or directory", "./main.py", True),
        ("Access denied - path outside allowed directories", "{home}/main.py", True),
        ("ENOENT: no such file or directory", "{home}/absent.py", False),
        ("The disk is full", "{home}/main.py", False),
    ],
)
def test_path_that_only_the_sandbox_has_is_explained(
    message: str, path: str, is_told: bool, workspace: Workspace, gateway: Gateway
) -> None:
    gateway.answers((200, {**text(message)[1], "isError": True}))
    at_home = path.format(home=workspace.path)
    error = failure_of(workspace, gateway, f"path={at_home!r}")
    hint = (
        f"\n{at_home} is in the sandbox, and the tool's server has files of its own: "
        "read it here with open(), or pass its content to a tool that writes files."
    )
    assert error["message"] == f"file-system/read.file: {message}{hint if is_told else ''}"


PICTURES = """
class Figure:
    def savefig(self, file, *, format, bbox_inches):
        file.write(f"figure as {format}".encode())

class Axes:
    figure = Figure()

class Drawing:
    def __init__(self, mode="RGB"):
        self.mode = mode
    def convert(self, mode):
        return Drawing(mode)
    def save(self, file, *, format):
        file.write(f"drawing in {self.mode} as {format}".encode())

import pathlib
from servers.content import Image
from servers.output import emit_image
pathlib.Path("picture.png").write_bytes(b"in a file")
pictures = [
    b"bytes", bytearray(b"array"), memoryview(b"view"), Image("image/png", b"of a tool"),
    "picture.png", pathlib.Path("picture.png"), Figure(), Axes(), Drawing(), Drawing("CMYK"),
]
"""
SHOWN = [
    *("bytes", "array", "view", "of a tool", "in a file", "in a file"),
    *("figure as png", "figure as png", "drawing in RGB as PNG", "drawing in RGB as PNG"),
]


@pytest.mark.parametrize(
    "show",
    [
        "for each in pictures: emit_image(each)",
        "import asyncio\nasync def main():\n    for each in pictures: await emit_image(each)\nasyncio.run(main())",
    ],
    ids=["plain", "async"],
)
def test_pictures_of_every_kind_are_shown(show: str, workspace: Workspace, gateway: Gateway) -> None:
    run(workspace, gateway, f"{PICTURES}{show}")
    assert [b64decode(request.body["data"]).decode() for request in gateway.requests] == SHOWN


def test_what_is_no_picture_is_not_sent(workspace: Workspace, gateway: Gateway) -> None:
    program = f"{PICTURES}try:\n    emit_image(5)\nexcept TypeError as error:\n    print(error)"
    assert run(workspace, gateway, program) == (
        "`picture` must be a matplotlib figure, a PIL image, a path, bytes or an Image, not int.\n"
    )
    assert gateway.requests == []


FILES = """
import os, pathlib
from servers.output import emit_file
os.makedirs("sub/folder")
pathlib.Path("sub/report.csv").write_text("a,b")
os.makedirs("out/made")
pathlib.Path("out/made/here.txt").write_text("here")
"""
EMITTED = [
    "'sub/report.csv'",
    "pathlib.Path('sub/report.csv'), 'deep/er/renamed.csv'",
    "os.path.abspath('sub/report.csv'), name='absolute.csv'",
    "'out/made/here.txt'",
    "'out/made/here.txt', 'again.txt'",
]


@pytest.mark.parametrize(
    "emit",
    [
        "\n".join(f"print(emit_file({each}))" for each in EMITTED),
        "import asyncio\nasync def main():\n"
        + "\n".join(f"    print(await emit_file({each}))" for each in EMITTED)
        + "\nasyncio.run(main())",
    ],
    ids=["plain", "async"],
)
def test_a_file_is_emitted_by_a_copy_unless_it_is_there_already(
    emit: str, workspace: Workspace, gateway: Gateway
) -> None:
    assert run(workspace, gateway, f"{FILES}{emit}") == "None\n" * len(EMITTED)
    out = workspace.path / "out"
    left = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}
    assert left == {
        **dict.fromkeys(("report.csv", "deep/er/renamed.csv", "absolute.csv"), "a,b"),
        **dict.fromkeys(("made/here.txt", "again.txt"), "here"),
    }
    assert gateway.requests == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("'nowhere.csv'", "FileNotFoundError: [Errno 2] No such file or directory"),
        ("'sub/folder'", "IsADirectoryError: `path` must be a file"),
        ("b'sub/report.csv'", "TypeError: `path` must be the path of a file, not bytes."),
        *(
            (f"'sub/report.csv', {name!r}", "ValueError: `name` must be a relative path")
            for name in ("../x", "/etc/x", "a/../../x", "", "a//b", "a/", "a\0b", 5)
        ),
    ],
)
def test_what_cannot_be_emitted_is_told_at_once(
    arguments: str, error: str, workspace: Workspace, gateway: Gateway
) -> None:
    program = (
        f"{FILES}try:\n    emit_file({arguments})\n"
        "except Exception as error:\n    print(f'{type(error).__name__}: {error}')"
    )
    assert run(workspace, gateway, program).startswith(error)
    assert sorted(path.name for path in workspace.path.parent.rglob("x")) == []


def test_only_what_is_used_is_loaded(workspace: Workspace, gateway: Gateway) -> None:
    program = (
        f"{IMPORT}import sys\nprint('servers.file_system.close' in sys.modules, 'servers._pending' in sys.modules)"
    )
    assert run(workspace, gateway, program) == "False False\n"


def test_connection_is_kept_and_replaced_when_it_was_closed(workspace: Workspace, gateway: Gateway) -> None:
    program = f"""{IMPORT}
from servers import _client
for _ in range(5): read_file(path="x")
_client._connections._idle[0]._socket.shutdown(2)
for _ in range(5): read_file(path="x")
"""
    run(workspace, gateway, program)
    assert len(gateway.requests) == 10
    assert gateway.connections == 2


def test_forked_child_has_connections_of_its_own(workspace: Workspace, gateway: Gateway) -> None:
    gateway.answer = lambda request: text(request.body["arguments"]["path"])
    program = f"""{IMPORT}
import os
read_file(path="before")
child = os.fork()
mine = [read_file(path=f"{{os.getpid()}}") == f"{{os.getpid()}}" for _ in range(50)]
assert all(mine)
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both")
"""
    assert run(workspace, gateway, program) == "both\n"


def test_forked_child_can_await(workspace: Workspace, gateway: Gateway) -> None:
    program = f"""{IMPORT}
import os
async def main():
    return await read_file(path="x")

asyncio.run(main())
child = os.fork()
assert asyncio.run(main()) == "ok"
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both")
"""
    assert run(workspace, gateway, program) == "both\n"


def test_await_gather_and_tasks_run_concurrently(workspace: Workspace, gateway: Gateway) -> None:
    together = threading.Barrier(50, timeout=30)

    def answer_when_all_are_there(request: Request) -> Any:
        together.wait()
        return text(request.body["arguments"]["path"])

    gateway.answer = answer_when_all_are_there
    body = """
        task = asyncio.create_task(read_file(path="0"))
        tasks = [asyncio.ensure_future(read_file(path="1"))]
        rest = await asyncio.gather(*(read_file(path=str(n)) for n in range(2, 50)))
        print(",".join([await task, *[await each for each in tasks], *rest]))
    """
    assert run_in_event_loop(workspace, gateway, body) == ",".join(map(str, range(50))) + "\n"


@pytest.mark.parametrize(
    "use",
    [
        "[await call for call in asyncio.as_completed([read_file(path='x')])]",
        "[await asyncio.wait_for(read_file(path='x'), 30)]",
        "[await asyncio.shield(read_file(path='x'))]",
        "[await asyncio.to_thread(read_file, path='x')]",
        "[await asyncio.create_task(coroutine()) for coroutine in [lambda: read_file(path='x')]]",
    ],
)
def test_call_works_with_each_way_to_await(use: str, workspace: Workspace, gateway: Gateway) -> None:
    assert run_in_event_loop(workspace, gateway, f"print({use})") == "['ok']\n"


def test_task_group_takes_calls(workspace: Workspace, gateway: Gateway) -> None:
    program = f"""{IMPORT}
async def read(path):
    return await read_file(path=path)

async def main():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read_file(path="x")), group.create_task(read("y"))]
    print([task.result() for task in tasks])

asyncio.run(main())
"""
    assert run(workspace, gateway, program) == "['ok', 'ok']\n"


def test_call_begins_before_it_is_awaited_and_may_be_awaited_again(workspace: Workspace, gateway: Gateway) -> None:
    body = """
        first, second = read_file(path="1"), read_file(path="2")
        print(await second, await first, await first)
    """
    together = threading.Barrier(2, timeout=30)

    def answer_when_both_are_there(request: Request) -> Any:
        together.wait()
        return text(request.body["arguments"]["path"])

    gateway.answer = answer_when_both_are_there
    assert run_in_event_loop(workspace, gateway, body) == "2 1 1\n"


def test_threads_without_an_event_loop_get_results(workspace: Workspace, gateway: Gateway) -> None:
    program = f"""{IMPORT}
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    print(set(pool.map(lambda n: read_file(path=str(n)), range(40))))

async def main():
    print(await asyncio.get_running_loop().run_in_executor(None, lambda: read_file(path="x")))

asyncio.run(main())
"""
    assert run(workspace, gateway, program) == "{'ok'}\nok\n"
    assert len(gateway.requests) == 41


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        ("rows[0]", NOT_AWAITED),
        ("len(rows)", NOT_AWAITED),
        ("list(rows)", NOT_AWAITED),
        ("'n' in rows", NOT_AWAITED),
        ("if rows: pass", NOT_AWAITED),
        ("rows or []", NOT_AWAITED),
        ("rows + 1", NOT_AWAITED),
        ("sorted([rows, rows])", NOT_AWAITED),
        ("int(rows)", NOT_AWAITED),
        ("rows.get('n')", f"An UnawaitedCall has no 'get'. {NOT_AWAITED}"),
        ("rows.result()", f"An UnawaitedCall has no 'result'. {NOT_AWAITED}"),
        ("json.dumps({'rows': rows})", "Object of type UnawaitedCall is not JSON serializable"),
    ],
)
def test_call_that_is_used_as_a_value_names_the_mistake(
    use: str, complaint: str, workspace: Workspace, gateway: Gateway
) -> None:
    gateway.answers(text('{"n": [2]}'))
    program = f"""{IMPORT}
async def main():
    rows = read_file(path="x")
    try:
        {use}
    except (AttributeError, TypeError) as error:
        print(error)
    print(rows, await rows)

asyncio.run(main())
"""
    assert run(workspace, gateway, program).splitlines() == [
        complaint,
        "<UnawaitedCall: await it to get its result> {'n': [2]}",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("path=first", "`path` must be a string, not <UnawaitedCall: await it to get its result>."),
        ("path='y', edits=[first]", "`edits[0]` must be a dict, not <UnawaitedCall: await it to get its result>."),
        (
            "path='y', extra={'deep': first}",
            "The arguments cannot be written as JSON: Object of type UnawaitedCall is not JSON serializable",
        ),
        ("first", "The arguments must be keywords or one dict."),
    ],
)
def test_call_that_was_not_awaited_is_no_argument(
    arguments: str, message: str, workspace: Workspace, gateway: Gateway
) -> None:
    program = f"""{IMPORT}
from servers.errors import InvalidArguments
async def main():
    first = read_file(path="x")
    try:
        await read_file({arguments})
    except InvalidArguments as error:
        print(str(error).splitlines()[0])

asyncio.run(main())
"""
    assert run(workspace, gateway, program) == f"file-system/read.file: {message}\n"
    assert gateway.arguments == [{"path": "x"}]


def test_the_program_keeps_its_own_json_encoder(workspace: Workspace, gateway: Gateway) -> None:
    body = """
        before = vars(json.JSONEncoder).copy()
        await read_file(path="x")
        print(vars(json.JSONEncoder) == before)
    """
    assert run_in_event_loop(workspace, gateway, body) == "True\n"


def test_arguments_that_contain_themselves_are_refused(workspace: Workspace, gateway: Gateway) -> None:
    tool = Tool("s", "t", input_schema={"properties": {"rows": {"type": "array"}}})
    program = """
from servers.errors import InvalidArguments
from servers.s import t
endless = []
endless.append(endless)
for argument in ("rows", "extra"):
    try:
        t(**{argument: endless})
    except InvalidArguments as error:
        print(str(error).splitlines()[0])
"""
    assert run(workspace, gateway, program, tool) == (
        "s/t: The arguments cannot be written as JSON: Circular reference detected\n" * 2
    )


def test_statements_inside_an_event_loop_keep_their_order(workspace: Workspace, gateway: Gateway) -> None:
    finished: list[str] = []

    def answer(request: Request) -> Any:
        path = request.body["arguments"]["path"]
        assert len(finished) == int(path)
        finished.append(path)
        return text("ok")

    gateway.answer = answer
    run_in_event_loop(workspace, gateway, "\n".join(f"read_file(path='{n}')" for n in range(20)))
    assert finished == [str(n) for n in range(20)]


@pytest.mark.parametrize("ending", ["", "raise ValueError('broken')"])
def test_call_that_the_program_gave_up_does_not_keep_it_alive(
    ending: str, workspace: Workspace, gateway: Gateway
) -> None:
    program_ended = threading.Event()

    def answer_too_late(request: Request) -> Any:
        assert program_ended.wait(60)
        return text("too late")

    gateway.answer = answer_too_late
    workspace.add_tools(READ)
    program = f"""{IMPORT}
async def main():
    try:
        await asyncio.wait_for(read_file(path="x"), 0.1)
    except TimeoutError:
        print("gave up")

asyncio.run(main())
{ending}
"""
    completed = workspace.run_python(program, gateway.environment)
    program_ended.set()
    assert completed.stdout == "gave up\n"
    assert ("ValueError: broken" in completed.stderr) is bool(ending)


@pytest.mark.parametrize("ending", ["", "raise ValueError('broken')"])
def test_call_that_nobody_awaited_ends_before_the_program(ending: str, workspace: Workspace, gateway: Gateway) -> None:
    answered: list[str] = []

    def answer_slowly(request: Request) -> Any:
        together.wait()
        answered.append(request.body["arguments"]["path"])
        return text("ok")

    together = threading.Barrier(3, timeout=30)
    gateway.answer = answer_slowly
    workspace.add_tools(READ)
    program = f"""{IMPORT}
kept = []
async def main():
    kept.extend([read_file(path=str(n)) for n in range(3)])

asyncio.run(main())
{ending}
"""
    completed = workspace.run_python(program, gateway.environment)
    assert sorted(answered) == ["0", "1", "2"]
    assert "Exception ignored" not in completed.stderr


def test_forked_child_does_not_wait_for_calls_of_its_parent(workspace: Workspace, gateway: Gateway) -> None:
    child_ended = threading.Event()

    def answer(request: Request) -> Any:
        if request.body["arguments"]["path"] == "child ended":
            child_ended.set()
        assert child_ended.wait(60)
        return text("ok")

    gateway.answer = answer
    program = f"""{IMPORT}
import os
kept = []
async def main():
    kept.append(read_file(path="before"))

asyncio.run(main())
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    read_file(path="child ended")
    async def value():
        return await kept[0]

    print(asyncio.run(value()))
"""
    assert run(workspace, gateway, program) == "ok\n"


def test_failure_that_nobody_asked_for_is_told(workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((403, {"code": "tool_denied", "message": "The role may not."}))
    workspace.add_tools(READ)
    program = f"{IMPORT}async def main():\n    read_file(path='x')\n\nasyncio.run(main())\n"
    completed = workspace.run_python(program, gateway.environment)
    assert completed.stderr == (
        "Traceback (most recent call last):\n"
        f'  File "{workspace.path}/main.py", line 4, in main\n'
        "    read_file(path='x')\n"
        "servers.errors.ToolDenied: file-system/read.file: The role may not.\n"
        "The call was not awaited, so nothing could catch its failure: in async code, await each call.\n"
    )


def test_error_is_raised_where_it_is_awaited(workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((403, {"code": "tool_denied", "message": "The role may not."}))
    body = """
        from servers.errors import ToolDenied
        results = await asyncio.gather(read_file(path="x"), read_file(path="y"), return_exceptions=True)
        print(all(isinstance(each, ToolDenied) for each in results))
    """
    assert run_in_event_loop(workspace, gateway, body) == "True\n"


def test_discovery_works_with_and_without_await(workspace: Workspace, gateway: Gateway) -> None:
    found = [{"server": "file-system", "name": "read.file"}]
    gateway.answers((200, {"tools": found}), (200, {"name": "read.file"}), (200, found))
    program = """
import asyncio, json
from servers.discovery import list_servers, list_tools, search_tools, tool_info
async def main():
    print(await list_servers(), list_tools("file_system"), json.dumps(list_tools()))
    print(await search_tools("read", server="file_system"), (await tool_info("file_system", "read_file"))["name"])

asyncio.run(main())
print(search_tools(["a", "b"])[0]["name"])
"""
    assert run(workspace, gateway, program).splitlines() == [
        "['file_system'] ['close', 'read_file'] [\"file_system/close\", \"file_system/read_file\"]",
        "[{'server': 'file-system', 'name': 'read.file'}] read.file",
        "read.file",
    ]
    assert [(request.path, request.body) for request in gateway.requests] == [
        ("/search", {"query": "read", "server": "file-system"}),
        ("/info", {"server": "file-system", "tool": "read.file"}),
        ("/search", {"query": ["a", "b"]}),
    ]


@pytest.mark.parametrize("server", ["file_system", "file-system"])
@pytest.mark.parametrize("tool", ["read_file", "read.file"])
def test_tool_is_described_by_either_of_its_names(
    server: str, tool: str, workspace: Workspace, gateway: Gateway
) -> None:
    run(workspace, gateway, f"from servers.discovery import tool_info\ntool_info('{server}', '{tool}')")
    assert [request.body for request in gateway.requests] == [{"server": "file-system", "tool": "read.file"}]


def test_unknown_names_are_left_to_the_gateway(workspace: Workspace, gateway: Gateway) -> None:
    run(workspace, gateway, "from servers.discovery import tool_info\ntool_info('absent', 'some')")
    assert [request.body for request in gateway.requests] == [{"server": "absent", "tool": "some"}]


def test_program_without_a_gateway_is_told_so(workspace: Workspace, gateway: Gateway) -> None:
    program = f"{IMPORT}import os\ndel os.environ['CODE_EXECUTOR_GATEWAY']\nread_file(path='x')"
    workspace.add_tools(READ)
    completed = workspace.run_python(program, gateway.environment)
    assert completed.returncode == 1
    assert (
        "ToolUnavailable: file-system/read.file: Tools can be called only where CODE_EXECUTOR_GATEWAY and "
        "CODE_EXECUTOR_GRANT are set.\n" in completed.stderr
    )


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (text()[1], []),
        (text('{"a": 1}')[1], [{"a": 1}]),
        (text("one", "two")[1], ["one", "two"]),
        ({"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}}, ["one"]),
        ({"structuredContent": {"a": 1}}, []),
    ],
)
def test_a_server_may_always_give_the_list_of_contents(
    workspace: Workspace, gateway: Gateway, result: Any, value: Any
) -> None:
    gateway.answers((200, result))
    rows = Tool("rows", "rows", "", {"type": "object"}, lists_contents=True)
    program = "import json\nfrom servers.rows import rows\nprint(json.dumps(rows()))"
    assert json.loads(run(workspace, gateway, program, rows)) == value
