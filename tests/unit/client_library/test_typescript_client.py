"""TypeScript programs that call tools, run by the same hooks as in a sandbox."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from typing import Any

import pytest

from orchestrator.domain.tools import Tool
from tests.unit.client_library.gateway import GRANT, Gateway, Request, text
from tests.unit.client_library.workspace import Workspace

READ = Tool(
    "file-system",
    "read.file",
    "Reads a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "head": {"type": "integer"},
            "mode": {"enum": ["text", "binary"]},
            "edits": {"type": "array", "items": {"properties": {"line": {"type": "number"}}, "required": ["line"]}},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["path"],
    },
)
CLOSED = Tool("file-system", "close", "", {"properties": {"handle": {}}, "additionalProperties": False})

IMPORT = "import { read_file } from '/workspace/servers/file_system/read_file.js';\n"
ERRORS = "import * as errors from '/workspace/servers/errors.js';\n"


def run(workspace: Workspace, gateway: Gateway, program: str, *tools: Tool) -> str:
    workspace.add_tools(READ, CLOSED, *tools)
    at_home = program.replace("/workspace/", f"{workspace.path}/")
    completed = workspace.run_typescript(at_home, gateway.environment)
    assert completed.stderr == ""
    return completed.stdout


def value_of(workspace: Workspace, gateway: Gateway, arguments: str = "{ path: 'x' }") -> Any:
    return json.loads(run(workspace, gateway, f"{IMPORT}console.log(JSON.stringify(await read_file({arguments})));"))


def failure_of(workspace: Workspace, gateway: Gateway, arguments: str = "{ path: 'x' }") -> Any:
    """Which of the exported classes the error belongs to, and what it carries."""
    program = f"""{IMPORT}{ERRORS}
        const error = await read_file({arguments} as any).then(() => undefined, (reason) => reason);
        const kinds = Object.keys(errors).filter((name) => error instanceof errors[name]);
        console.log(JSON.stringify({{ kinds, ...error, message: error.message, name: error.name }}));
    """
    return json.loads(run(workspace, gateway, program))


def test_call_carries_the_grant_and_the_original_names(workspace: Workspace, gateway: Gateway) -> None:
    value_of(workspace, gateway)
    body = {"server": "file-system", "tool": "read.file", "arguments": {"path": "x"}}
    assert gateway.requests == [Request("/call", f"Bearer {GRANT}", body)]


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [{"type": "text", "text": "seen"}], "structuredContent": {"a": [1]}}, {"a": [1]}),
        (text('{"a": 1}')[1], {"a": 1}),
        (text(" [1, 2]\n")[1], [1, 2]),
        (text("{not json")[1], "{not json"),
        (text("42")[1], "42"),
        (text("")[1], ""),
        (text("one", '{"two": 2}')[1], ["one", {"two": 2}]),
        ({"content": []}, None),
        ({}, None),
        (
            {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "a:", "mimeType": "text/plain", "text": "hi"}}]},
            {"type": "resource", "uri": "a:", "mimeType": "text/plain", "text": "hi"},
        ),
    ],
)
def test_result_is_unwrapped(result: Any, value: Any, workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((200, result))
    assert value_of(workspace, gateway) == value


def test_images_and_binary_resources_have_bytes(workspace: Workspace, gateway: Gateway) -> None:
    contents = [
        {"type": "image", "mimeType": "image/png", "data": "AP/+"},
        {"type": "resource", "resource": {"uri": "a:", "blob": "AQI="}},
    ]
    gateway.answers((200, {"content": contents}))
    program = f"""{IMPORT}
        const [image, resource] = await read_file({{ path: 'x' }}) as any[];
        console.log(image.type, image.mimeType, image.data instanceof Uint8Array, image.data.join());
        console.log(resource.uri, resource.data.join(), 'blob' in resource);
    """
    assert run(workspace, gateway, program) == "image image/png true 0,255,254\na: 1,2 false\n"


@pytest.mark.parametrize("data", ["AP/+", "AP/\n+", "AP/+\n"])
def test_base64_may_have_line_breaks(data: str, workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((200, {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}))
    assert (
        run(workspace, gateway, f"{IMPORT}\nconsole.log((await read_file({{ path: 'x' }}) as any).data.join());")
        == "0,255,254\n"
    )


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
    assert (error["server"], error["tool"], error["name"]) == ("file-system", "read.file", "ToolError")


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
    assert error["kinds"] == sorted(["ToolError", kind])
    assert error["message"] == "file-system/read.file: Because.\nDo otherwise."
    assert (error["code"], error["hint"]) == (code, "Do otherwise.")


def test_reply_that_is_no_json_is_an_unavailable_tool(workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((502, b"<html>Bad gateway</html>"))
    assert "ToolUnavailable" in failure_of(workspace, gateway)["kinds"]


def test_gateway_that_is_not_there_is_an_unavailable_tool(workspace: Workspace, gateway: Gateway) -> None:
    gateway.address = "@nobody-listens-here"
    error = failure_of(workspace, gateway)
    assert error["kinds"] == ["ToolError", "ToolUnavailable"]
    assert "ECONNREFUSED" in error["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{}", "`path` is required."),
        ("undefined", "`path` is required."),
        ("'x'", "The arguments must be one object."),
        ("{ path: 1 }", "`path` must be a string, not 1."),
        ("{ path: 'x', head: 1.5 }", "`head` must be an integer, not 1.5."),
        ("{ path: 'x', mode: 'texd' }", """`mode` must be one of "text", "binary", not "texd"."""),
        ("{ path: 'x', Head: 1 }", "`Head` is unknown; did you mean `head`?"),
        ("{ path: 'x', haed: 1 }", "`haed` is unknown; did you mean `head`?"),
        ("{ file: 'x' }", "`path` is required. `file` is unknown; did you mean `path`?"),
        ("{ path: Promise.resolve('x') }", "`path` is a Promise: await it first."),
        ("Promise.resolve({ path: 'x' })", "The argument is a Promise: await it first."),
        ("{ path: 'x', edits: [{ line: 1 }, {}] }", "`edits[1].line` is required."),
        ("{ path: 'x', when: 1 }", "`when` must be a string or null, not 1."),
        ("{ path: 'x', extra: 1n }", "The arguments cannot be written as JSON: Do not know how to serialize a BigInt"),
    ],
)
def test_wrong_arguments_are_not_sent(arguments: str, message: str, workspace: Workspace, gateway: Gateway) -> None:
    error = failure_of(workspace, gateway, arguments)
    assert error["kinds"] == ["InvalidArguments", "ToolError"]
    assert error["message"].startswith(
        f"file-system/read.file: {message}\nUsage: read_file(args: {{ path: string; head?"
    )
    assert gateway.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        "{ path: 'x', head: undefined, when: null }",
        "{ path: 'x', head: 3.0, unheard: true }",
        "{ path: new Date(0), toString: 1 }",
        "{ path: 'x', ['__proto__']: 1 }",
    ],
)
def test_arguments_that_may_be_right_are_sent(arguments: str, workspace: Workspace, gateway: Gateway) -> None:
    assert value_of(workspace, gateway, f"{arguments} as any") == "ok"


def test_unknown_argument_of_a_closed_tool_is_not_sent(workspace: Workspace, gateway: Gateway) -> None:
    program = """
        import { close } from '/workspace/servers/file_system/index.js';
        await close({ entirelyDifferent: 1 } as any).catch((error) => console.log(error.message));
        console.log(await close());
    """
    printed = run(workspace, gateway, program)
    assert printed.startswith("file-system/close: `entirelyDifferent` is unknown.\nUsage: close(args?: { handle")
    assert gateway.arguments == [{}]


def test_fifty_calls_run_at_once_and_connections_are_kept(workspace: Workspace, gateway: Gateway) -> None:
    together = threading.Barrier(50, timeout=30)

    def answer_when_all_are_there(request: Request) -> Any:
        if request.body["arguments"]["path"].isdecimal():
            together.wait()
        return text(request.body["arguments"]["path"])

    gateway.answer = answer_when_all_are_there
    program = f"""{IMPORT}
        const all = await Promise.all(Array.from({{ length: 50 }}, (_, n) => read_file({{ path: `${{n}}` }})));
        for (let n = 0; n < 20; n++) await read_file({{ path: 'later' }});
        console.log(all.join());
    """
    assert run(workspace, gateway, program) == ",".join(map(str, range(50))) + "\n"
    assert gateway.connections == 50


def test_uncaught_error_points_at_the_line_of_the_program(workspace: Workspace, gateway: Gateway) -> None:
    workspace.add_tools(READ)
    gateway.answers((403, {"code": "tool_denied", "message": "The role may not."}))
    program = f"{IMPORT}\nawait read_file({{ path: 'x' }});".replace("/workspace/", f"{workspace.path}/")
    completed = workspace.run_typescript(program, gateway.environment)
    assert completed.returncode == 1
    assert "ToolDenied: file-system/read.file: The role may not." in completed.stderr
    assert "main.ts:3:1" in completed.stderr


def test_caught_error_prints_as_its_message_and_the_programs_frames(workspace: Workspace, gateway: Gateway) -> None:
    gateway.answers((200, {**text("No such table")[1], "isError": True}))
    program = f"""{IMPORT}
await read_file({{ path: 'x' }}).catch((error) => console.log(error));
"""
    message, *frames = run(workspace, gateway, program).splitlines()
    assert message == "ToolError: file-system/read.file: No such table"
    assert all("main.ts" in frame for frame in frames)


@pytest.mark.parametrize(
    ("message", "path", "is_told"),
    [
        ("ENOENT: no such file or directory", "main.ts", False),
        ("ENOENT: no such file or directory", "./main.ts", True),
        ("Access denied - path outside allowed directories", "/workspace/main.ts", True),
        ("ENOENT: no such file or directory", "/workspace/absent.ts", False),
        ("The disk is full", "/workspace/main.ts", False),
    ],
)
def test_path_that_only_the_sandbox_has_is_explained(
    message: str, path: str, is_told: bool, workspace: Workspace, gateway: Gateway
) -> None:
    gateway.answers((200, {**text(message)[1], "isError": True}))
    error = failure_of(workspace, gateway, f"{{ path: '{path}' }}")
    at_home = path.replace("/workspace/", f"{workspace.path}/")
    hint = (
        f"\n{at_home} is in the sandbox, and the tool's server has files of its own: "
        "read it here with node:fs, or pass its content to a tool that writes files."
    )
    assert error["message"] == f"file-system/read.file: {message}{hint if is_told else ''}"


def test_pictures_are_shown_from_bytes_and_files(workspace: Workspace, gateway: Gateway) -> None:
    program = """
        import { writeFileSync } from 'node:fs';
        import { emitImage } from '/workspace/servers/output.js';
        writeFileSync('picture.png', 'in a file');
        await emitImage('picture.png');
        await emitImage(new URL('file:///workspace/picture.png'));
        await emitImage(new TextEncoder().encode('bytes'));
        await emitImage(new TextEncoder().encode('buffer').buffer);
        await emitImage({ type: 'image', mimeType: 'image/png', data: new TextEncoder().encode('of a tool') });
        for (const wrong of [5, null, { data: 'text' }]) {
            await emitImage(wrong as any).catch((error) => console.log(error.message));
        }
    """
    printed = run(workspace, gateway, program)
    assert printed == "`picture` must be a Uint8Array, an ArrayBuffer, a path or an Image.\n" * 3
    shown = [b64decode(request.body["data"]).decode() for request in gateway.requests]
    assert shown == ["in a file", "in a file", "bytes", "buffer", "of a tool"]


def test_a_file_is_emitted_by_a_copy_unless_it_is_there_already(workspace: Workspace, gateway: Gateway) -> None:
    program = """
        import { mkdirSync, writeFileSync } from 'node:fs';
        import { emitFile } from '/workspace/servers/output.js';
        mkdirSync('sub/folder', { recursive: true });
        writeFileSync('sub/report.csv', 'a,b');
        mkdirSync('out/made', { recursive: true });
        writeFileSync('out/made/here.txt', 'here');
        await emitFile('sub/report.csv');
        await emitFile(new URL('file:///workspace/sub/report.csv'), 'deep/er/renamed.csv');
        await emitFile('out/made/here.txt');
        await emitFile('out/made/here.txt', 'again.txt');
        for (const [path, name] of [
            ['nowhere.csv'], ['sub/folder'], [5], ['sub/report.csv', '../x'], ['sub/report.csv', '/etc/x'],
            ['sub/report.csv', ''], ['sub/report.csv', 'a//b'], ['sub/report.csv', 5],
        ] as any[]) {
            await emitFile(path, name).catch((error) => console.log(error.message.split(/[,:]/)[0]));
        }
    """
    told = [
        "ENOENT",
        "`path` must be a file",
        "`path` must be the path of a file",
        *["`name` must be a relative path such as `reports/june.csv`"] * 5,
    ]
    assert run(workspace, gateway, program).splitlines() == told
    out = workspace.path / "out"
    left = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}
    assert left == {
        **dict.fromkeys(("report.csv", "deep/er/renamed.csv"), "a,b"),
        **dict.fromkeys(("made/here.txt", "again.txt"), "here"),
    }


def test_dynamic_import_and_discovery_work_as_documented(workspace: Workspace, gateway: Gateway) -> None:
    found = [{"server": "file-system", "name": "read.file"}]
    gateway.answers((200, {"tools": found, "metrics": {}}), (200, {"name": "read.file"}))
    program = """
        const { listServers, listTools, searchTools, toolInfo } = await import('/workspace/servers/discovery.js');
        console.log(await listServers(), await listTools('file_system'), await listTools());
        console.log(JSON.stringify(await searchTools(['read', 'open'], { server: 'file_system', limit: 3 })));
        console.log(JSON.stringify(await toolInfo('file_system', 'read_file')));
        await listTools('absent').catch((error) => console.log(error.message));
        await listTools('filesystems').catch((error) => console.log(error.message));
    """
    first, second, third, fourth, fifth = run(workspace, gateway, program).splitlines()
    assert first == ("[ 'file_system' ] [ 'close', 'read_file' ] [ 'file_system/close', 'file_system/read_file' ]")
    assert json.loads(second) == found
    assert json.loads(third) == {"name": "read.file"}
    assert fourth == "There is no server 'absent'; there are: file_system."
    assert fifth == "There is no server 'filesystems'; there are: file_system. Did you mean 'file_system'?"
    search, info = gateway.requests
    assert (search.path, search.body) == (
        "/search", {"query": ["read", "open"], "server": "file-system", "limit": 3}
    )  # fmt: skip
    assert (info.path, info.body) == ("/info", {"server": "file-system", "tool": "read.file"})


@pytest.mark.parametrize("server", ["file_system", "file-system"])
@pytest.mark.parametrize("tool", ["read_file", "read.file"])
def test_tool_is_described_by_either_of_its_names(
    server: str, tool: str, workspace: Workspace, gateway: Gateway
) -> None:
    program = f"""
        const {{ toolInfo }} = await import('/workspace/servers/discovery.js');
        await toolInfo('{server}', '{tool}');
    """
    run(workspace, gateway, program)
    assert [request.body for request in gateway.requests] == [{"server": "file-system", "tool": "read.file"}]


def test_unknown_names_are_left_to_the_gateway(workspace: Workspace, gateway: Gateway) -> None:
    program = """
        const { toolInfo } = await import('/workspace/servers/discovery.js');
        await toolInfo('absent', 'constructor');
    """
    run(workspace, gateway, program)
    assert [request.body for request in gateway.requests] == [{"server": "absent", "tool": "constructor"}]


def test_hostile_names_arrive_at_the_gateway_unchanged(workspace: Workspace, gateway: Gateway) -> None:
    name = "*/ \" ' ` ${x} \\ \n \u2028 __proto__"
    tool = Tool("s", name, input_schema={"properties": {"__proto__": {"type": "string"}, "constructor": {}}})
    program = """
        const { listTools } = await import('/workspace/servers/discovery.js');
        const [tool] = await listTools('s');
        const wrapper = (await import(`/workspace/servers/s/${tool}.js`))[tool];
        await wrapper({ ['__proto__']: 1 }).catch((error) => console.log(error.constructor.name));
        await wrapper({ ['__proto__']: 'x', constructor: 1 });
    """
    assert run(workspace, gateway, program, tool) == "InvalidArguments\n"
    assert gateway.requests[0].body["tool"] == name
    assert gateway.arguments == [{"__proto__": "x", "constructor": 1}]


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
    program = "import { rows } from '/workspace/servers/rows/rows.js';\nconsole.log(JSON.stringify(await rows()));"
    assert json.loads(run(workspace, gateway, program, rows)) == value
