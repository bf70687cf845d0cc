"""Programs call tools: real MCP servers, and a scripted upstream for what real ones do not do on request."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.api import Api
from tests.support.installation import PROJECT, Installation
from tests.support.metrics import samples
from tests.support.programs import PRELUDE
from tests.support.upstream_server import Huge, ScriptedProxy, Slow, malformed, reply, resets, serving, tool

SERVERS = PROJECT / ".build" / "mcp-servers" / "node_modules" / "@modelcontextprotocol"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ODD_NAMES = ("get-weread-rank", "a.b", "class", "größe", "Echo")

PROBE = (
    PRELUDE
    + """
def ask(path, body, token=None, method="POST", headers={}):
    connection = gateway_client()
    grant = os.environ["CODE_EXECUTOR_GRANT"] if token is None else token
    connection.request(method, path, body, {"Authorization": f"Bearer {grant}", **headers})
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"null")
def call(server, tool, arguments={}, **more):
    return ask("/call", json.dumps({"server": server, "tool": tool, "arguments": arguments}), **more)
"""
)


@dataclass
class Stack:
    api: Api
    developer: Api
    proxy: ScriptedProxy
    files: Path


def node() -> str:
    own = PROJECT / ".build" / "node" / "bin" / "node"
    return str(own) if own.exists() else "node"


async def image(_: web.Request, message: dict) -> web.Response:
    content = [{"type": "image", "mimeType": "image/png", "data": PIXEL}, {"type": "text", "text": "a pixel"}]
    return web.json_response(reply(message, {"content": content}))


@pytest.fixture(scope="module")
def real_servers() -> None:
    made = subprocess.run([PROJECT / "scripts" / "mcp_servers.sh"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
async def stack(real_servers, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tools")
    files = directory / "files"
    files.mkdir()
    proxy = ScriptedProxy("postgres", "minio", "secret")
    proxy.tools["postgres"] += [tool(name) for name in ("slow", "huge", "malformed", "resets", "image", "renamed")]
    proxy.tools["minio"] = [tool(name) for name in (*ODD_NAMES, "Get_Weread_Rank")]
    proxy.behaviours |= {
        "huge": Huge(50 * 1024 * 1024),
        "malformed": malformed,
        "resets": resets,
        "image": image,
    }
    async with serving(proxy.app()) as url:
        servers = {
            "memory": stdio("server-memory", env={"MEMORY_FILE_PATH": str(directory / "memory.json")}),
            "filesystem": stdio("server-filesystem", str(files)),
            **{name: {"url": f"{url}/{name}/mcp"} for name in proxy.tools},
            "nobody": {"url": "http://127.0.0.1:1/mcp"},
        }
        (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        place = Installation.create(directory, servers_file=directory / "servers.json", relist_seconds=1)
        async with place.run() as api, api.as_caller(place.keys["developer"]) as developer:
            await until_listed(api, 5)
            yield Stack(api, developer, proxy, files)


def stdio(package: str, *arguments: str, env: dict[str, str] | None = None) -> dict:
    return {"command": node(), "args": [str(SERVERS / package / "dist" / "index.js"), *arguments], "env": env or {}}


async def until_listed(api: Api, servers: int) -> None:
    async with asyncio.timeout(60):
        while len([tools for tools in (await api.get("/health"))[1]["toolsByServer"].values() if tools]) < servers:
            await asyncio.sleep(0.1)


def attempt(name: str, arguments: str = "") -> str:
    """A program that calls one tool and prints how it failed."""
    return f"""
from servers.postgres import {name}
try:
    print({name}({arguments}))
except Exception as error:
    print(type(error).__name__, error)
"""


async def test_a_program_discovers_servers_and_tools(stack):
    code = """
    const { listServers, listTools } = await import('/workspace/servers/discovery.js');
    console.log(JSON.stringify(await listServers()));
    console.log((await listTools('memory')).length);
    """
    result = await stack.api.typescript(code)
    assert result["output"].splitlines()[0] == '["filesystem","memory","minio","postgres","secret"]', result["stderr"]
    assert result["output"].splitlines()[1] == "9"


async def test_wrappers_are_real_files_that_a_program_can_list_and_read(stack):
    code = (
        "import fs from 'node:fs'; console.log(fs.readdirSync('/workspace/servers/memory').includes('read_graph.ts'));"
    )
    code += (
        "console.log(fs.readFileSync('/workspace/servers/memory/read_graph.ts', 'utf8').includes('Read the entire'))"
    )
    assert (await stack.api.typescript(code))["output"] == "true\ntrue\n"


async def test_typescript_writes_a_file_through_a_real_server(stack):
    path = stack.files / "hello.txt"
    code = f"""
    import {{ write_file, read_text_file }} from '/workspace/servers/filesystem/index.js';
    await write_file({{ path: '{path}', content: 'héllo' }});
    const read: any = await read_text_file({{ path: '{path}' }});
    console.log(read.content);
    """
    result = await stack.api.typescript(code)
    assert (result["output"], path.read_text()) == ("héllo\n", "héllo"), result["stderr"]
    assert [(call["tool"], call["outcome"]) for call in result["toolCalls"]] == [
        ("write_file", "done"),
        ("read_text_file", "done"),
    ]


@pytest.mark.parametrize(
    ("language", "code", "how"),
    [
        (
            "python",
            "open('/workspace/mine.txt', 'w').close()\n"
            "from servers.filesystem import read_text_file\nread_text_file(path='/workspace/mine.txt')",
            "read it here with open()",
        ),
        (
            "typescript",
            "import { writeFileSync } from 'node:fs';\nwriteFileSync('/workspace/mine.txt', '');\n"
            "import { read_text_file } from '/workspace/servers/filesystem/index.js';\n"
            "await read_text_file({ path: '/workspace/mine.txt' });",
            "read it here with node:fs",
        ),
    ],
)
async def test_a_file_that_only_the_sandbox_has_is_explained(stack, language, code, how):
    stderr = (await stack.api.execute(code, language))["stderr"]
    assert f"/workspace/mine.txt is in the sandbox, and the tool's server has files of its own: {how}" in stderr


@pytest.mark.parametrize(
    ("language", "code", "how"),
    [
        ("python", "open('/workspace/yours.txt')", "servers.filesystem.read_text_file(path=...)."),
        (
            "typescript",
            "import { readFileSync } from 'node:fs';\nreadFileSync('/workspace/yours.txt');",
            "read_text_file from '/workspace/servers/filesystem/read_text_file.js'.",
        ),
    ],
)
async def test_a_file_that_only_a_server_may_have_is_explained(stack, language, code, how):
    stderr = (await stack.api.execute(code, language))["stderr"]
    assert stderr.splitlines()[-1] == (
        f"The sandbox has files of its own: a file of the server 'filesystem' is read with {how}"
    )


async def test_a_misspelt_tool_is_answered_with_the_one_that_was_meant(stack):
    code = "from servers.discovery import tool_info\ntool_info('memory', 'read_grap')"
    assert (
        "There is no tool memory/read_grap. Did you mean memory/read_graph?" in (await stack.api.python(code))["stderr"]
    )


async def test_python_composes_two_servers_and_filters_in_the_sandbox(stack):
    path = stack.files / "names.csv"
    code = f"""
from servers.memory import create_entities, read_graph
from servers.filesystem import write_file
create_entities(entities=[{{"name": n, "entityType": "t", "observations": []}} for n in ("ann", "bob", "amy")])
graph = read_graph()
chosen = sorted(e["name"] for e in graph["entities"] if e["name"].startswith("a"))
write_file(path="{path}", content="\\n".join(chosen))
print(len(chosen))
"""
    result = await stack.api.python(code)
    assert (result["output"], path.read_text()) == ("2\n", "amy\nann"), result["stderr"]


async def test_sync_and_await_both_work_in_python(stack):
    code = """
import asyncio
from servers.postgres import echo
async def main():
    print(await echo(text="b"))
    print(await asyncio.gather(echo(text="c"), echo(text="d")))

print(echo(text="a"))
asyncio.run(main())
"""
    result = await stack.api.python(code)
    assert result["output"] == "{'text': 'a'}\n{'text': 'b'}\n[{'text': 'c'}, {'text': 'd'}]\n", result["stderr"]


async def test_a_result_that_was_not_awaited_in_async_python_is_a_clear_error(stack):
    code = """
from servers.postgres import echo
print(await echo(text="a"))
print(echo(text="b")["text"])
"""
    result = await stack.api.python(code, check="off")
    assert (result["output"], result["exitCode"]) == ("{'text': 'a'}\n", 1)
    assert "TypeError: The call was not awaited: write `await` before it" in result["stderr"]


async def test_fifty_calls_run_at_once(stack):
    slow = stack.proxy.behaviours["slow"] = Slow()
    slow.go.set()
    code = """
    import { slow } from '/workspace/servers/postgres/slow.js';
    const all = await Promise.all(Array.from({ length: 50 }, () => slow({})));
    console.log(all.length);
    """
    result = await stack.api.typescript(code)
    assert (result["output"], len(result["toolCalls"])) == ("50\n", 50), result["stderr"]


async def test_a_tools_error_is_a_typed_exception_with_the_servers_message(stack):
    code = """
    import { fail } from '/workspace/servers/postgres/fail.js';
    import { ToolError } from '/workspace/servers/errors.js';
    try { await fail({}) } catch (e) { console.log(e instanceof ToolError, (e as Error).message) }
    """
    result = await stack.api.typescript(code)
    assert result["output"].startswith("true"), result["stderr"]
    assert 'relation "nope" does not exist' in result["output"]
    assert result["toolCalls"][0]["outcome"] == "tool_error"


async def test_wrong_arguments_are_refused_before_sending_with_the_right_signature(stack):
    sent = stack.proxy.count("tools/call")
    result = await stack.api.python(attempt("echo", "text=3"))
    assert "echo(" in result["output"], result["stderr"]
    assert stack.proxy.count("tools/call") == sent


async def test_an_image_arrives_as_bytes(stack):
    code = """
from servers.postgres import image
picture, caption = image()
print(type(picture.data).__name__, len(picture.data), picture.data[:4], caption)
"""
    result = await stack.api.python(code)
    assert result["output"] == "bytes 70 b'\\x89PNG' a pixel\n", result["output"] + result["stderr"]


async def test_names_that_are_no_identifiers_are_callable_and_collisions_disable_only_themselves(stack):
    code = """
import servers.minio as minio
print(minio.a_b(text="x"), minio.class_(text="y"))
print([name for name in ("get_weread_rank", "Get_Weread_Rank", "Echo") if hasattr(minio, name)])
"""
    result = await stack.api.python(code)
    assert result["output"].splitlines()[0] == "{'text': 'x'} {'text': 'y'}", result["stderr"]
    assert "Echo" in result["output"]


@pytest.mark.parametrize(("name", "kind"), [("malformed", "ToolUnavailable"), ("resets", "ToolUnavailable")])
async def test_an_upstream_that_breaks_off_or_talks_nonsense_is_unavailable(stack, name, kind):
    code = (
        f"from servers.postgres import {name} as t\ntry:\n    t()\nexcept Exception as e:\n    print(type(e).__name__)"
    )
    result = await stack.api.python(code)
    assert result["output"].split()[0] == kind, result["output"] + result["stderr"]
    assert result["toolCalls"][0]["outcome"] == "unavailable"


async def test_a_huge_result_is_refused_without_being_held(stack):
    result = await stack.api.python(attempt("huge"))
    assert result["output"].startswith("ToolLimitExceeded"), result["output"] + result["stderr"]
    assert result["toolCalls"][0]["outcome"] == "limited"


async def test_a_tool_renamed_between_list_and_call_is_a_clear_error(stack):
    kept = stack.proxy.tools["postgres"]

    async def rename(_, message):
        stack.proxy.tools["postgres"] = [item for item in kept if item["name"] != "renamed"]
        return web.json_response(reply(message, {"content": []}))

    stack.proxy.behaviours["echo"] = rename  # called when the program has imported both
    try:
        code = attempt("renamed").replace("import renamed", "import echo, renamed\necho()")
        result = await stack.api.python(code)
    finally:
        stack.proxy.tools["postgres"] = kept
        del stack.proxy.behaviours["echo"]
    assert "renamed" in result["output"], result["stderr"]


async def test_the_ledger_tells_what_was_in_flight_when_the_time_was_up(stack):
    stack.proxy.behaviours["slow"] = Slow()
    code = "from servers.postgres import echo, slow\necho()\nslow()"
    result = await stack.api.python(code, timeout_seconds=10)
    assert result["outcome"] == "timed_out"
    assert [call["outcome"] for call in result["toolCalls"]] == ["done", "in_flight"]
    _, record = await stack.api.get(f"/executions/{result['executionId']}")
    assert [call["outcome"] for call in record["toolCalls"]] == ["done", "in_flight"]


async def test_calls_are_streamed_as_events(stack):
    events = [event async for event in stack.api.stream("from servers.postgres import echo\necho()", "python")]
    calls = [fields for name, fields in events if name == "tool_call"]
    assert [(call["server"], call["tool"], call["outcome"]) for call in calls] == [("postgres", "echo", "done")]


async def test_a_developers_workspace_has_only_what_the_role_may_call(stack):
    code = "import pathlib; print(sorted(p.name for p in pathlib.Path('/workspace/servers').iterdir() if p.is_dir()))"
    assert (await stack.developer.python(code))["output"] == "['minio', 'postgres']\n"
    assert "filesystem" in (await stack.api.python(code))["output"]


@pytest.mark.parametrize(
    "server",
    [
        "filesystem",
        "memory",
        "Filesystem",
        "filesystem ",
        " filesystem",
        "filesystem\\u0000",
        "file%73ystem",
        "file%2573ystem",
        "../filesystem",
        "postgres/../filesystem",
        "\\uff46ilesystem",
        "*",
        "",
        "nobody",
    ],
)
async def test_a_developer_cannot_name_a_forbidden_server_by_any_spelling(stack, server):
    code = PROBE + f"print(call('postgres', 'echo')[0]); print(call('{server}', 'list_allowed_directories'))"
    result = await stack.developer.python(code)
    allowed, denied = result["output"].splitlines()
    assert allowed == "200", result["stderr"]
    assert denied.startswith(("(403", "(422")), denied


async def test_a_denied_call_is_told_and_counted(stack):
    denied = ("code_executor_tool_calls_total", "denied", "filesystem", "list_allowed_directories")
    before = await samples(stack.api)
    result = await stack.developer.python(PROBE + "print(call('filesystem', 'list_allowed_directories')[0])")
    assert result["output"] == "403\n", result["stderr"]
    assert [call["outcome"] for call in result["toolCalls"]] == ["denied"]
    assert (await samples(stack.api))[denied] == before.get(denied, 0) + 1


@pytest.mark.parametrize("token", ["", "x", "a" * 900, "null"])
async def test_a_made_up_grant_is_worth_nothing(stack, token):
    code = PROBE + f"print(call('postgres', 'echo', token={token!r})[0], call('postgres', 'echo')[0])"
    result = await stack.developer.python(code)
    assert result["output"] == "401 200\n", result["stderr"]


async def test_a_neighbours_grant_is_worth_nothing(stack):
    sleeper = stack.api.stream("import os, time; print(os.environ['CODE_EXECUTOR_GRANT']); time.sleep(20)", "python")
    grant = ""
    async for name, fields in sleeper:
        if name == "stdout":
            grant = fields["text"].strip()
            break
    code = PROBE + f"print(call('filesystem', 'list_allowed_directories', token={grant!r})[0])"
    result = await stack.developer.python(code)
    await sleeper.aclose()
    assert (len(grant) > 20, result["output"]) == (True, "401\n")


async def test_a_grant_ends_with_its_execution(stack):
    ended = await stack.developer.python("import os; print(os.environ['CODE_EXECUTOR_GRANT'])")
    code = PROBE + f"print(call('postgres', 'echo', token={ended['output'].strip()!r})[0])"
    assert (await stack.developer.python(code))["output"] == "401\n"


async def test_the_gateway_is_no_relay_and_has_no_other_doors(stack):
    code = (
        PROBE
        + """
print(ask("http://example.com/", "", method="GET")[0], ask("/tools", "", method="GET")[0], ask("/execute", "{}")[0])
print(ask("/call", "not json")[0], ask("/call", "[" * 100000)[0], ask("/call", "[]")[0])
print(call("postgres", "echo", headers={"X-Forwarded-For": "127.0.0.1", "X-Role": "admin"})[0])
"""
    )
    assert (await stack.developer.python(code))["output"] == "404 404 404\n422 422 422\n200\n"


async def test_lists_search_and_info_show_a_role_what_it_may_call_and_no_more(stack):
    _, listed = await stack.developer.get("/tools")
    assert set(listed["tools"]) == {"postgres", "minio"}
    _, found = await stack.developer.get("/tools/search?q=read+file+graph&limit=50")
    assert {hit["server"] for hit in found["tools"]} <= {"postgres", "minio"}
    status, problem = await stack.developer.get("/tools/info/filesystem/read_file")
    assert (status, problem["code"]) == (403, "tool_denied")
    assert "developer" in problem["detail"]


async def test_every_listing_says_what_it_cost_and_saved(stack):
    for path in ("/tools", "/tools?detail=description", "/tools/search?q=graph", "/tools/info/memory/read_graph"):
        status, reply_ = await stack.api.get(path)
        metrics = reply_["metrics"]
        assert status == 200
        assert 0 < metrics["tokens"] < metrics["fullTokens"]
        assert 0 < metrics["savedPercent"] < 100


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 200),
        ("q=", 200),
        ("q=zzzzzz", 200),
        ("q=%00%ff", 200),
        ("q=.*(", 200),
        ("q=read&q=write", 200),
        ("q=read&server=unknown", 200),
        ("q=" + "x" * 5000, 422),
        ("q=read&detail=everything", 422),
        ("q=read&limit=0", 422),
        ("q=read&limit=-1", 422),
        ("q=read&limit=9999999", 422),
    ],
)
async def test_odd_searches_get_a_list_or_a_clear_refusal(stack, query, status):
    got, reply_ = await stack.api.get(f"/tools/search?{query}")
    assert got == status, reply_
    assert isinstance(reply_["tools"], list) if status == 200 else reply_["code"] == "invalid_request"


async def test_health_shows_each_upstream_with_its_problem(stack):
    _, health = await stack.api.get("/health")
    assert health["upstreams"]["memory"] == "connected"
    assert health["upstreams"]["nobody"].startswith("down: ")
    assert health["totalTools"] == sum(health["toolsByServer"].values())


async def test_the_programs_own_discovery_searches_and_describes(stack):
    code = """
    import { searchTools, toolInfo } from '/workspace/servers/discovery.js';
    console.log(JSON.stringify(await searchTools('knowledge graph')).includes('read_graph'));
    console.log(JSON.stringify(await toolInfo('memory', 'read_graph')).includes('entities'));
    """
    result = await stack.api.typescript(code)
    assert result["output"] == "true\ntrue\n", result["stderr"]
