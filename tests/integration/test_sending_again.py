"""A request with an Idempotency-Key is sent again after its connection dropped, or after its daemon died."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from tests.support.api import eventually
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation
from tests.support.programs import FOREVER
from tests.support.upstream_server import ScriptedProxy, serving, tool

KEY = {"Idempotency-Key": "the same"}
CALLS_THEN_WAITS = "from servers.postgres import ping\nping()\n" + FOREVER


@pytest.fixture
async def place(tmp_path):
    proxy = ScriptedProxy("postgres")
    proxy.tools["postgres"] = [tool("ping")]
    async with serving(proxy.app()) as url:
        servers = tmp_path / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"postgres": {"url": f"{url}/postgres/mcp"}}}))
        yield Installation.create(tmp_path, servers_file=servers)


def body(code, timeout_seconds=60):
    return {"code": code, "language": "python", "timeoutSeconds": timeout_seconds}


async def has_tools(api):
    return "postgres" in (await api.get("/tools"))[1]["tools"]


@asynccontextmanager
async def asking(api, code):
    """A request with the key whose program has printed its line; the connection drops at the end."""
    async with aiohttp.ClientSession(headers=api.session.headers) as session:
        request = asyncio.create_task(send(session, api.url, code))
        await eventually(lambda: runs(api), seconds=20)
        yield
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)


async def send(session, url, code):
    with suppress(aiohttp.ClientError):
        async with session.post(f"{url}/execute", json=body(code), headers=KEY) as response:
            await response.read()


async def newest(api):
    _, listed = await api.get("/executions", params={"limit": "1", "kind": "program"})
    return listed["executions"][0] if listed["executions"] else None


async def runs(api):
    found = await newest(api)
    if found is None or found["state"] != "running":
        return False
    return (await api.get(f"/executions/{found['executionId']}"))[1]["output"] == "running\n"


async def is_cancelled(api):
    return (await newest(api))["outcome"] == "cancelled"


async def test_after_a_dropped_connection_a_program_that_called_no_tool_runs_again(place):
    async with place.run() as api:
        async with asking(api, FOREVER):
            first = (await newest(api))["executionId"]
        await eventually(lambda: is_cancelled(api))
        assert (await newest(api))["cancelledBy"] == "disconnect"
        async with asking(api, FOREVER):
            second = (await newest(api))["executionId"]
            assert second != first
            await api.delete(f"/executions/{second}")
        status, reply = await api.post("/execute", body(FOREVER), headers=KEY)
        assert (status, reply["outcome"], reply["cancelledBy"]) == (200, "cancelled", "request")
        assert reply["executionId"] == second


async def test_after_a_dropped_connection_a_program_that_called_tools_is_not_run_again(place):
    async with place.run() as api:
        await eventually(lambda: has_tools(api))
        async with asking(api, CALLS_THEN_WAITS):
            first = (await newest(api))["executionId"]
        await eventually(lambda: is_cancelled(api))
        for _ in range(2):
            await assert_not_run_again(api, first, "its client went away")
        status, reply = await api.post("/execute", body("print(1)"), headers={"Idempotency-Key": "another"})
        assert (status, reply["output"]) == (200, "1\n")  # the control: with another key it runs


async def assert_not_run_again(api, execution_id, reason):
    status, problem = await api.post("/execute", body(CALLS_THEN_WAITS), headers=KEY)
    assert (status, problem["code"]) == (409, "already_interrupted")
    assert problem["executionId"] == execution_id
    assert all(part in problem["detail"] for part in (execution_id, reason, "postgres/ping done"))
    assert "new Idempotency-Key" in problem["hint"]


@pytest.mark.parametrize("calls_tools", [False, True])
async def test_after_a_killed_daemon_a_program_runs_again_unless_it_had_called_tools(place, calls_tools):
    code = CALLS_THEN_WAITS if calls_tools else FOREVER
    async with DaemonProcess.running(place) as daemon:
        await eventually(lambda: has_tools(daemon.api))
        async with asking(daemon.api, code):
            first = (await newest(daemon.api))["executionId"]
            daemon.kill()
    async with place.run() as api:
        assert (await newest(api))["state"] == "interrupted"
        if calls_tools:
            await assert_not_run_again(api, first, "the daemon stopped")
        else:
            async with asking(api, code):
                assert (await newest(api))["executionId"] != first


@pytest.mark.parametrize("key", ["", "x" * 256, "a\udcffb"])
async def test_a_key_must_be_text_of_some_length(place, key):
    async with place.run() as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
        sent = json.dumps(body("print(1)")).encode()
        head = f"POST /execute HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\n"
        head += f"Authorization: {api.session.headers['Authorization']}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(sent)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode("utf-8", "surrogateescape") + sent)
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 422 "), answer
