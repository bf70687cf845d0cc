"""The MCP face of a real daemon: both eras of the protocol, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest
from aiohttp import web
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.commands import keys
from tests.support.api import Api, eventually
from tests.support.installation import PROJECT, Installation
from tests.support.mcp_clients import (
    INITIALIZE,
    LEGACY,
    MODERN,
    TRANSPORTS,
    BareClient,
    bridge_command,
    http_client,
    messages,
    python,
    stdio_client,
    text_of,
)
from tests.support.metrics import only_unused_sandboxes_are_left
from tests.support.upstream_server import ScriptedProxy, reply, serving, tool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(60)"
KILLED_WITHIN_SECONDS = 20.0  # far below the time that it would sleep; figures.md tells how soon it is

each_era = pytest.mark.parametrize("era", [LEGACY, MODERN])
each_transport = pytest.mark.parametrize("transport", list(TRANSPORTS))


@dataclass(frozen=True)
class Place:
    """A daemon with two servers, one of which the developer may not use."""

    api: Api
    installation: Installation

    @property
    def url(self) -> str:
        return self.api.url

    @property
    def admin(self) -> str:
        return self.installation.keys["admin"]

    @property
    def developer(self) -> str:
        return self.installation.keys["developer"]

    def client(self, era: str, transport: str = "http", role: str = "admin") -> Any:
        return TRANSPORTS[transport](self.url, self.installation.keys[role], era)

    async def newest(self) -> dict[str, Any]:
        _, listed = await self.api.get("/executions?limit=1")
        return (
            listed["executions"][0] if listed["executions"] else {"executionId": None, "state": None, "outcome": None}
        )

    async def running_after(self, earlier: str | None) -> str:
        """The execution that came after the earlier one, when its program has printed something."""

        async def is_up() -> bool:
            newest = await self.newest()
            if newest["executionId"] == earlier or newest["state"] != "running":
                return False
            _, detail = await self.api.get(f"/executions/{newest['executionId']}")
            return bool(detail["output"])

        await eventually(is_up, seconds=60)
        return str((await self.newest())["executionId"])

    async def assert_killed(self, execution_id: str) -> None:
        async def is_over() -> bool:
            _, record = await self.api.get(f"/executions/{execution_id}")
            return record["outcome"] == "cancelled"

        await eventually(is_over, seconds=KILLED_WITHIN_SECONDS)
        await eventually(lambda: only_unused_sandboxes_are_left(self.api, self.installation.owner))


@asynccontextmanager
async def structured_client(url: str, key: str, era: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp?structured=1", http_client=http), mode=era) as client,
    ):
        yield client


async def picture(_: web.Request, message: dict[str, Any]) -> web.Response:
    content = [{"type": "image", "mimeType": "image/png", "data": PIXEL}]
    return web.json_response(reply(message, {"content": content}))


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    directory = tmp_path_factory.mktemp("mcp")
    proxy = ScriptedProxy("postgres", "secret")
    proxy.tools["postgres"] += [tool("picture")]
    proxy.behaviours["picture"] = picture
    async with serving(proxy.app()) as upstream:
        servers = {name: {"url": f"{upstream}/{name}/mcp"} for name in proxy.tools}
        (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        installation = Installation.create(
            directory,
            servers_file=directory / "servers.json",
            mcp_progress_seconds=0.1,
            max_output_bytes=1024 * 1024,
        )
        async with installation.run() as api:
            await eventually(lambda: _has_tools(api), seconds=60)
            yield Place(api, installation)


async def _has_tools(api: Api) -> bool:
    _, health = await api.get("/health")
    return {"postgres", "secret"} <= {server for server, tools in health["toolsByServer"].items() if tools}


@each_era
@each_transport
async def test_a_program_runs_in_every_era_over_every_transport(place, era, transport):
    async with place.client(era, transport) as client:
        listed = await client.list_tools()
        result = await client.call_tool("execute_code", python("print(6 * 7)"))
    assert len(listed.tools) == 10
    assert not result.is_error
    assert text_of(result).startswith("completed in ")
    assert text_of(result).endswith("\n\nstdout:\n42")
    assert O200kTokenCounter().count(text_of(result)) <= 40
    assert [content.type for content in result.content] == ["text"]
    assert result.structured_content is None


@each_era
@each_transport
async def test_a_failed_program_is_a_result_with_its_cause(place, era, transport):
    async with place.client(era, transport) as client:
        result = await client.call_tool("execute_code", python("raise ValueError('too bad')"))
    assert result.is_error
    assert text_of(result).startswith("failed in ")
    assert "exited with code 1; see stderr" in text_of(result)
    assert text_of(result).endswith("ValueError: too bad")


@each_era
async def test_structure_comes_on_top_of_the_text_for_whoever_asks_for_it(place, era):
    async with structured_client(place.url, place.admin, era) as client:
        listed = (await client.list_tools()).tools
        results = {
            name: await client.call_tool(name, arguments)
            for name, arguments in {
                "execute_code": python("print(6 * 7)"),
                "get_execution": {},
                "search_tools": {"query": "echo"},
                "list_servers": {},
            }.items()
        }
    assert all(tool.output_schema for tool in listed)
    assert all(result.structured_content for result in results.values())
    told = results["execute_code"]
    assert text_of(told).endswith("\n\nstdout:\n42")
    assert told.structured_content["output"] == "42\n"
    assert list(told.structured_content)[:2] == ["outcome", "truncated"]


async def test_a_wish_for_structure_that_is_neither_yes_nor_no_is_refused(place):
    async with BareClient.connect(place.url, place.admin) as client:
        client.url += "?structured=maybe"
        async with client.post("initialize", INITIALIZE, 0) as response:
            assert response.status == 422
            assert "`structured` must be 0 or 1." in (await response.json(content_type=None))["detail"]


async def test_no_tool_declares_a_structure_that_nobody_asked_for(place):
    async with place.client(MODERN) as client:
        assert not [tool.name for tool in (await client.list_tools()).tools if tool.output_schema]


async def test_an_installation_can_send_structure_to_all_but_those_who_refuse_it(own_installation):
    settings = own_installation.settings.model_copy(update={"mcp_structured": True})
    async with replace(own_installation, settings=settings).run() as api:
        for query, has_structure in (("", True), ("?structured=0", False)):
            async with BareClient.connect(api.url, own_installation.keys["admin"]) as client:
                client.url += query
                (listed,) = await _read_all(client.post_without_session("tools/list", {}, 1))
            assert [("outputSchema" in tool) for tool in listed["result"]["tools"]] == [has_structure] * 10


@each_era
async def test_an_unknown_tool_is_a_protocol_error_and_wrong_arguments_are_not(place, era):
    async with place.client(era) as client:
        with pytest.raises(MCPError, match="Unknown tool: nope"):
            await client.call_tool("nope", {})
        result = await client.call_tool("execute_code", {"code": "1", "language": "cobol"})
    assert result.is_error
    assert "`language` must be one of typescript, python." in text_of(result)


@each_era
@each_transport
async def test_progress_comes_at_once_and_then_with_the_newest_line(place, era, transport):
    heard: list[tuple[float, str]] = []
    two_lines = asyncio.Event()

    async def note(progress: float, _: float | None, message: str | None) -> None:
        heard.append((progress, message or ""))
        if message == "second":
            two_lines.set()

    code = "import time\nprint('first', flush=True)\ntime.sleep(2)\nprint('second', flush=True)\ntime.sleep(2)"
    async with place.client(era, transport) as client:
        await client.call_tool("execute_code", python(code), progress_callback=note)
    assert two_lines.is_set()
    assert heard[0][0] == 0
    assert "execution " in heard[0][1]
    assert [progress for progress, _ in heard] == sorted({progress for progress, _ in heard})
    assert "first" in [message for _, message in heard]


@each_era
@each_transport
async def test_a_cancelled_request_kills_the_sandbox(place, era, transport):
    earlier = (await place.newest())["executionId"]
    async with place.client(era, transport) as client:
        call = asyncio.create_task(client.call_tool("execute_code", python(SLEEPER)))
        execution_id = await place.running_after(earlier)
        call.cancel()
        await place.assert_killed(execution_id)
        with pytest.raises(asyncio.CancelledError):
            await call
        # The connection is as good as before.
        assert not (await client.call_tool("list_servers", {})).is_error


@each_era
async def test_a_closed_stream_kills_the_sandbox(place, era):
    earlier = (await place.newest())["executionId"]
    params = {"name": "execute_code", "arguments": python(SLEEPER)}
    async with BareClient.connect(place.url, place.admin) as client:
        if era == LEGACY:
            await client.initialize()
        post = client.post if era == LEGACY else client.post_without_session
        call = asyncio.create_task(_read_all(post("tools/call", params, 1)))
        execution_id = await place.running_after(earlier)
        call.cancel()
        await place.assert_killed(execution_id)


async def _read_all(request: Any) -> list[dict[str, Any]]:
    async with request as response:
        return await messages(response)


@each_era
async def test_a_client_that_is_killed_in_the_middle_of_a_call_leaves_no_sandbox(place, era):
    """The client's end of the bridge: its process dies, and with it the pipes."""
    earlier = (await place.newest())["executionId"]
    bridge = await _bridge(place)
    call: dict[str, Any] = {"name": "execute_code", "arguments": python(SLEEPER)}
    if era == LEGACY:
        _say(bridge, {"id": 0, "method": "initialize", "params": INITIALIZE})
        await asyncio.wait_for(bridge.stdout.readline(), 60)
    else:
        call["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    _say(bridge, {"id": 1, "method": "tools/call", "params": call})
    execution_id = await place.running_after(earlier)
    bridge.send_signal(signal.SIGKILL)
    await bridge.wait()
    await place.assert_killed(execution_id)


async def test_a_client_that_closes_its_pipes_in_the_middle_of_a_call_leaves_no_sandbox(place):
    earlier = (await place.newest())["executionId"]
    bridge = await _bridge(place)
    _say(bridge, {"id": 0, "method": "initialize", "params": INITIALIZE})
    await asyncio.wait_for(bridge.stdout.readline(), 60)
    _say(bridge, {"id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": python(SLEEPER)}})
    execution_id = await place.running_after(earlier)
    bridge.stdin.close()
    await place.assert_killed(execution_id)
    assert await asyncio.wait_for(bridge.wait(), 60) == 0


async def _bridge(place: Place) -> Any:
    command = bridge_command(place.url, place.admin)
    return await asyncio.create_subprocess_exec(
        command.command,
        *command.args,
        env={**os.environ, **(command.env or {})},
        cwd=command.cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def _say(bridge: Any, message: dict[str, Any]) -> None:
    bridge.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@each_era
async def test_two_clients_with_equal_request_ids_get_their_own_answers(place, era):
    async def ask(name: str, key: str) -> str:
        code = f"import time\ntime.sleep(.3)\nprint('{name}')"
        params = {"name": "execute_code", "arguments": python(code)}
        async with BareClient.connect(place.url, key) as client:
            if era == LEGACY:
                await client.initialize()
            post = client.post if era == LEGACY else client.post_without_session
            replies = await _read_all(post("tools/call", params, 1))
        assert [reply["id"] for reply in replies if "id" in reply] == [1]
        return str(replies[-1]["result"]["content"][0]["text"].rsplit("\n", 1)[-1])

    asked = [("a", place.admin), ("b", place.developer), ("c", place.admin), ("d", place.developer)]
    answers = await asyncio.gather(*(ask(name, key) for name, key in asked))
    assert answers == ["a", "b", "c", "d"]


async def test_a_session_is_of_no_use_with_another_key(place):
    async with (
        BareClient.connect(place.url, place.admin) as owner,
        BareClient.connect(place.url, place.developer) as thief,
    ):
        await owner.initialize()
        thief.session_id = owner.session_id
        async with thief.post("tools/list", {}, 1) as response:
            assert response.status == 404
        async with owner.post("tools/list", {}, 1) as response:
            assert response.status == 200


@each_era
@each_transport
async def test_a_role_sees_its_own_servers_only(place, era, transport):
    async with place.client(era, transport, "developer") as client:
        described = {tool.name: tool.description for tool in (await client.list_tools()).tools}
        replies = {
            name: await client.call_tool(name, arguments)
            for name, arguments in {
                "list_servers": {},
                "list_tools": {},
                "search_tools": {"query": "echo", "limit": 50},
                "get_tool_info": {"server": "postgres", "tool": "echo"},
            }.items()
        }
        denied = await client.call_tool("get_tool_info", {"server": "secret", "tool": "echo"})
    assert "Servers you may use: postgres." in described["execute_code"]
    for name, answer in replies.items():
        assert not answer.is_error, name
        assert "secret" not in text_of(answer), name
        assert "postgres" in text_of(answer), name
    assert denied.is_error
    assert "servers of role developer do not include secret" in text_of(denied)


async def test_the_admin_sees_every_server(place):
    async with place.client(MODERN) as client:
        listed = await client.call_tool("list_servers", {})
        described = (await client.list_tools()).tools[0].description
    assert {line.split(":")[0] for line in text_of(listed).splitlines()} >= {"postgres", "secret"}
    assert "postgres, secret" in described


async def test_tools_are_searched_described_and_called(place):
    async with place.client(MODERN) as client:
        found = await client.call_tool("search_tools", {"query": "echo; picture", "server": "postgres"})
        asked = {"server": "postgres", "tool": "echo", "language": "python"}
        told = await client.call_tool("get_tool_info", asked)
        in_full = await client.call_tool("get_tool_info", {**asked, "includeSchema": True})
        import_line = text_of(found).rsplit("python: ", 1)[1].removesuffix(" (the others likewise)")
        result = await client.call_tool("execute_code", python(f"{import_line}\nprint(echo(text='hi'))"))
    assert text_of(found).startswith("postgres/echo: ")
    assert import_line in text_of(told).splitlines()
    assert "Promise" not in text_of(told)
    assert "schema" not in text_of(told)
    assert 'input schema: {"type":"object"' in text_of(in_full)
    assert text_of(result).endswith("stdout:\n{'text': 'hi'}")
    assert "\npostgres/echo, done, " in text_of(result)


async def test_40_parallel_calls_are_one_line(place):
    code = (
        "import { echo } from '/workspace/servers/postgres/echo.js';\n"
        "const rows = await Promise.all(Array.from({ length: 40 }, (_, n) => echo({ text: String(n) })));\n"
        "console.log(`${rows.length} rows`);"
    )
    async with place.client(MODERN) as client:
        result = await client.call_tool("execute_code", {"code": code})
    assert "\npostgres/echo ×40, all done, " in text_of(result)
    assert O200kTokenCounter().count(text_of(result)) <= 120


@each_era
async def test_null_stands_for_an_argument_that_is_not_given(place, era):
    async with place.client(era) as client:
        arguments = {"code": "console.log(6 * 7)", "language": None, "timeoutSeconds": None, "maxTokens": None}
        ran = await client.call_tool("execute_code", arguments)
        read = await client.call_tool("get_execution", {"executionId": None, "offset": None, "search": None})
    assert text_of(ran).endswith("stdout:\n42")
    assert text_of(read).endswith(": bytes 0 to 3 of 3\n\n42")


async def test_an_execution_of_another_caller_is_not_found(place):
    async with place.client(MODERN) as admin, place.client(MODERN, role="developer") as developer:
        await admin.call_tool("execute_code", python("print('mine')"))
        mine = (await place.newest())["executionId"]
        for name in ("get_execution", "cancel_execution"):
            answer = await developer.call_tool(name, {"executionId": mine})
            assert answer.is_error
            assert f"There is no execution {mine}." in text_of(answer)
        with pytest.raises(MCPError, match="There is no execution"):
            await developer.read_resource(f"execution://{mine}/stdout")
        uris = [str(resource.uri) for resource in (await developer.list_resources()).resources]
    assert f"execution://{mine}/stdout" not in uris


ROWS = "for n in range(16_000):\n    print(f'row {n:>6} of many')"  # 300 KB


@each_era
async def test_300_kb_of_output_are_previewed_within_the_budget_and_can_be_read_in_full(place, era):
    count = O200kTokenCounter().count
    whole = "".join(f"row {n:>6} of many\n" for n in range(16_000))
    async with place.client(era) as client:
        result = await client.call_tool("execute_code", python(ROWS))
        said, shown = text_of(result).split("\n\n", 1)
        where = json.loads(said[said.index("{") : said.index("}") + 1])
        pages, offset = [], 0
        while offset is not None:
            page = text_of(await client.call_tool("get_execution", {**where, "offset": offset, "maxTokens": 20_000}))
            assert count(page) <= 20_000
            headline, text = page.split("\n\n", 1)
            pages.append(f"{text}\n")
            offset = int(headline.rsplit(" ", 1)[1]) if '"offset": ' in headline else None
        uri = f"execution://{where['executionId']}/stdout"
        resource = await client.read_resource(uri)
        part = await client.read_resource(f"{uri}?offset=20&length=19")
        following = text_of(await client.call_tool("get_execution", where)).split("\n\n", 1)[1]
    assert not result.is_error
    assert len(whole) >= 300_000
    assert "output truncated" in said.splitlines()[0]
    assert count(text_of(result)) <= 6000
    before, after = shown.removeprefix("stdout:\n").split("[… ")
    assert whole.startswith(before)
    assert whole.removeprefix(before).startswith(following)
    assert after.endswith("row  15999 of many")
    assert "".join(pages) == whole
    assert len(pages) > 2
    assert resource.contents[0].text == whole
    assert part.contents[0].text == "ow      1 of many\nr"


@pytest.mark.parametrize("tokens", [500, 15_000])
async def test_a_model_can_ask_for_more_or_less_of_a_long_output(place, tokens):
    async with place.client(MODERN) as client:
        ran = await client.call_tool("execute_code", python(ROWS, maxTokens=tokens))
        read = await client.call_tool("get_execution", {"maxTokens": tokens})
    for result in (ran, read):
        assert tokens // 2 < O200kTokenCounter().count(text_of(result)) <= tokens


async def test_the_offsets_in_a_failed_reply_are_right_in_a_client_that_cuts_errors_at_10_000_characters(place):
    code = (
        f"import sys\n{ROWS}\nfor n in range(3000):\n    print(f'err {{n:>6}} of many', file=sys.stderr)\nsys.exit(3)"
    )
    async with place.client(MODERN) as client:
        result = await client.call_tool("execute_code", python(code, maxTokens=20_000))
        said = text_of(result).split("\n\n", 1)[0]
        where = json.loads(said[said.rindex("{") : said.rindex("}") + 1])
        following = text_of(await client.call_tool("get_execution", where)).split("\n\n", 1)[1]
    assert result.is_error
    assert len(text_of(result)) <= 10_000
    shown = text_of(result).rsplit("stderr:\n", 1)[1].split("[… ")[0]
    assert where["stream"] == "stderr"
    assert int(following.split()[1]) == int(shown.splitlines()[-1].split()[1]) + 1


async def test_an_earlier_output_is_searched_without_running_it_again(place):
    async with place.client(MODERN) as client:
        await client.call_tool("execute_code", python(ROWS))
        ran = await place.newest()
        found = await client.call_tool("get_execution", {"search": "ROW  12345"})
    headline, match = text_of(found).splitlines()
    assert headline == f"stdout of {ran['executionId']} (completed): 1 of 1 lines with 'ROW  12345'"
    assert match == f"line 12346, offset {12345 * 19}: row  12345 of many"
    assert (await place.newest())["executionId"] == ran["executionId"]


async def test_of_300_kb_100_are_kept_and_the_reply_says_so(api, installation):
    async with http_client(api.url, installation.keys["admin"], MODERN) as client:
        result = await client.call_tool("execute_code", python(ROWS))
    said = text_of(result).split("\n\n")[0]
    assert not result.is_error
    assert said.startswith("completed in ")
    assert "output truncated" in said
    assert "stdout: of more than 100 KiB only both ends are kept; " in said


@each_era
@pytest.mark.parametrize(
    "order",
    [
        python(f"import base64\nfrom servers.output import emit_image\nemit_image(base64.b64decode('{PIXEL}'))"),
        {
            "code": "import { emitImage } from '/workspace/servers/output.js';\n"
            f"await emitImage(Buffer.from('{PIXEL}', 'base64'));"
        },
        python("from servers.postgres import picture\npicture()"),
        python("from servers.postgres import picture\nfrom servers.output import emit_image\nemit_image(picture())"),
    ],
    ids=["emitted in Python", "emitted in TypeScript", "returned by a tool", "both, the same"],
)
async def test_pictures_come_back_as_image_content(place, era, order):
    async with place.client(era) as client:
        result = await client.call_tool("execute_code", order)
    assert not result.is_error, text_of(result)
    images = [content for content in result.content if content.type == "image"]
    assert [(image.mime_type, b64decode(image.data)) for image in images] == [("image/png", b64decode(PIXEL))]


async def test_too_many_pictures_are_refused_to_the_program(place):
    code = (
        "import base64\nfrom servers.output import emit_image\n"
        f"pixel = base64.b64decode('{PIXEL}')\nfor n in range(11):\n    emit_image(pixel + bytes([n]))"
    )
    async with place.client(MODERN) as client:
        result = await client.call_tool("execute_code", python(code))
    assert result.is_error
    assert "An execution may show at most 10 pictures" in text_of(result)
    assert [content.type for content in result.content] == ["text"] + ["image"] * 10


async def test_what_is_no_picture_is_refused_to_the_program(place):
    async with place.client(MODERN) as client:
        code = "from servers.output import emit_image\nemit_image(b'<svg/>')"
        result = await client.call_tool("execute_code", python(code))
    assert "`data` must be a PNG, JPEG, GIF or WebP picture." in text_of(result)


async def test_a_running_execution_is_read_and_cancelled_by_its_id(place):
    earlier = (await place.newest())["executionId"]
    async with place.client(MODERN) as client:
        call = asyncio.create_task(client.call_tool("execute_code", python(SLEEPER)))
        execution_id = await place.running_after(earlier)
        so_far = await client.call_tool("get_execution", {"executionId": execution_id})
        cancelled = await client.call_tool("cancel_execution", {"executionId": execution_id})
        ended = await asyncio.wait_for(call, 30)
        again = await client.call_tool("cancel_execution", {"executionId": execution_id})
    how = 'go on with "offset": 3, "waitSeconds": 30'
    assert text_of(so_far) == f"stdout of {execution_id} (running): bytes 0 to 3 of 3; {how}\n\nup"
    assert not cancelled.is_error
    assert text_of(cancelled).startswith("cancelled in ")
    assert ended.is_error
    assert not again.is_error
    assert text_of(again) == f"Execution {execution_id} had already ended: cancelled. get_execution reads its output."


@each_transport
async def test_chat_that_is_not_configured_is_not_listed_and_says_so_in_one_sentence(place, transport):
    async with place.client(LEGACY, transport) as client:
        assert not [tool.name for tool in (await client.list_tools()).tools if tool.name.startswith("chat_")]
        for name, arguments in {"chat_send": {"text": "hi"}, "chat_read": {}, "chat_who": {}}.items():
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert "Chat is not configured" in text_of(result)


@pytest.mark.parametrize("path", ["/mcp", "/tools"])
@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example.com"}, 421, "misdirected_request"),
        ({"Origin": "http://evil.example.com"}, 403, "foreign_origin"),
        ({"Origin": "null"}, 403, "foreign_origin"),
    ],
)
async def test_a_page_of_another_site_is_refused(place, path, headers, status, code):
    async with place.api.session.get(place.url + path, headers=headers) as response:
        assert response.status == status
        assert (await response.json(content_type=None))["code"] == code


async def test_the_daemons_own_page_is_let_in_and_one_on_another_port_is_not(place):
    host = f"localhost:{place.url.rsplit(':', 1)[1]}"
    for origin, status in ((f"http://{host}", 200), ("http://localhost:5173", 403)):
        headers = {"Origin": origin, "Host": host}
        async with place.api.session.get(place.url + "/tools", headers=headers) as response:
            assert response.status == status


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "carries no key"),
        ("wrong", "is not known"),
        ("${CODE_EXECUTOR_KEY}", "did not fill the variable in"),
    ],
)
async def test_without_a_valid_key_nothing_is_served(place, key, words):
    async with BareClient.connect(place.url, key) as client, client.post("initialize", INITIALIZE, 0) as response:
        assert response.status == 401
        assert response.content_type == "application/problem+json"
        assert words in (await response.json(content_type=None))["detail"]


async def test_over_stdio_a_wrong_key_is_a_protocol_error(place):
    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with stdio_client(place.url, "wrong", LEGACY):
            pass
    assert "The key is not known" in _messages_of(caught.value)


def _messages_of(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return " ".join(_messages_of(inner) for inner in error.exceptions)
    return str(error)


async def test_a_revoked_key_is_refused_also_in_an_open_session(own_installation):
    async with own_installation.run() as api:
        old = own_installation.keys["developer"]
        async with BareClient.connect(api.url, old) as client:
            await client.initialize()
            settings = own_installation.settings
            files = keys.key_files(settings.roles_file, settings.secrets_dir)
            (rotated,) = keys.rotate(files, "developer")

            async def is_refused() -> bool:
                async with client.post("tools/list", {}, 1) as response:
                    return bool(response.status == 401)

            await eventually(is_refused, seconds=20)
        async with http_client(api.url, rotated.read(), LEGACY) as renewed:
            assert len((await renewed.list_tools()).tools) == 10


async def test_every_byte_on_stdout_of_the_bridge_is_json_rpc(place):
    bridge = await _bridge(place)
    lines = [
        b"this is no JSON\n",
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}).encode() + b"\n",
    ]
    stdout, stderr = await asyncio.wait_for(bridge.communicate(b"".join(lines)), 60)
    heard = [json.loads(line) for line in stdout.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in heard)
    assert {message["id"] for message in heard} == {None, 0}
    assert stderr == b""


async def test_the_bridge_without_a_daemon_answers_with_an_error_and_one_sentence_on_stderr():
    bridge = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "orchestrator", "mcp"),
        env={**os.environ, "CODE_EXECUTOR_URL": "http://127.0.0.1:1", "CODE_EXECUTOR_KEY": "k"},
        cwd=PROJECT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    request = {"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": INITIALIZE}
    stdout, stderr = await asyncio.wait_for(bridge.communicate(json.dumps(request).encode() + b"\n"), 60)
    answer = json.loads(stdout)
    assert (answer["id"], answer["error"]["code"]) == (5, -32000)
    assert stderr.decode() == "code-executor: No daemon answers at http://127.0.0.1:1/mcp. Start it with 'make up'.\n"
    assert bridge.returncode == 0


async def test_older_clients_of_the_first_era_get_what_they_know(place):
    params = {"name": "execute_code", "arguments": python("print(1)")}
    async with BareClient.connect(place.url, place.admin) as client:
        async with client.post("initialize", {**INITIALIZE, "protocolVersion": "2024-11-05"}, 0) as response:
            (hello,) = await messages(response)
            client.session_id = response.headers["Mcp-Session-Id"]
        result = (await _read_all(client.post("tools/call", params, 1, **{"MCP-Protocol-Version": "2024-11-05"})))[-1]
    assert hello["result"]["protocolVersion"] == "2024-11-05"
    assert [content["type"] for content in result["result"]["content"]] == ["text"]
