"""A server that lists what should stop the daemon, and a caller that would take a server from another."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support import hostile_listings
from tests.support.api import Api, eventually
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation
from tests.support.upstream_server import ScriptedProxy, error, reply, serving

# Of one request among thousands, on two busy cores. Before, it was twenty seconds.
LONGEST_STOP_SECONDS = 0.5
ECHO = "from servers.honest import echo\nprint(echo(text='still here'))"

Tools = list[dict[str, Any]]
LISTINGS: dict[str, tuple[Callable[[], Tools], int, str]] = {
    "many tools": (hostile_listings.many_tools, 1000, "9000 of its tools are left out: number 1001 and those after it"),
    "large tools": (hostile_listings.large_tools, 0, "60 of its tools are left out: number 1 has a description and"),
    "references": (hostile_listings.references, 10, ""),
}


@asynccontextmanager
async def two_servers(directory: Path) -> AsyncIterator[tuple[ScriptedProxy, Installation]]:
    proxy = ScriptedProxy("hostile", "honest")
    async with serving(proxy.app()) as url:
        servers = {name: {"url": f"{url}/{name}/mcp"} for name in proxy.tools}
        (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        yield proxy, Installation.create(directory, servers_file=directory / "servers.json", relist_seconds=1)


def lists(tools: Tools) -> Callable[[web.Request, dict], Awaitable[web.StreamResponse]]:
    """List these tools, written beforehand: the test's own event loop must not stand still either."""
    marker = '"to be replaced"'
    text = json.dumps(reply({"id": 0}, {"tools": "to be replaced"}))
    before, after = text.replace('"id": 0', '"id": ID').split(marker)
    whole = json.dumps(tools).encode()

    async def listing(_: web.Request, message: dict) -> web.StreamResponse:
        head = before.replace("ID", str(message["id"])).encode()
        return web.Response(body=head + whole + after.encode(), content_type="application/json")

    return listing


async def health(api: Api) -> dict[str, Any]:
    return (await api.get("/health"))[1]


async def answered(api: Api) -> bool:
    """Tell whether a program reaches the honest tool; that a sandbox does not start is another matter."""
    status, body = await api.post("/execute", {"code": ECHO, "language": "python"})
    assert status in (200, 503), body
    return status == 200 and "still here" in body["output"]


def assert_quick(took: list[float]) -> None:
    """The attack goes on all the time; what is slow only once or twice is the machine that stood still."""
    assert sorted(took)[-3] < LONGEST_STOP_SECONDS


@pytest.mark.parametrize("kind", LISTINGS)
async def test_no_listing_stops_the_daemon_or_takes_an_honest_servers_tools_away(kind, tmp_path):
    make, kept, problem = LISTINGS[kind]
    async with two_servers(tmp_path) as (proxy, place), DaemonProcess.running(place) as daemon:
        api = daemon.api
        await eventually(lambda: counts(api, hostile=2, honest=2), seconds=30)
        ordinary = proxy._answer
        hostile = lists(await asyncio.to_thread(make))

        async def answer(request, name, message):
            is_listing = name == "hostile" and message["method"] == "tools/list"
            return await (hostile(request, message) if is_listing else ordinary(request, name, message))

        proxy._answer = answer
        took: list[float] = []
        began = time.monotonic()
        while len(took) <= 100 or time.monotonic() - began < 5 or not await counts(api, hostile=kept, honest=2):
            asked = time.perf_counter()
            await health(api)
            took.append(time.perf_counter() - asked)
            assert time.monotonic() - began < 60
        assert_quick(took)
        assert problem in (await health(api))["upstreams"]["hostile"]
        await eventually(lambda: answered(api), seconds=60)
        assert daemon.peak_bytes() < 400 * 1024 * 1024


async def lists_nothing_without_end(request: web.Request, _: dict) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    with suppress(ConnectionError):
        while True:
            await response.write(b"\n" * 65536)
    return response


async def test_no_stream_of_nothing_stops_the_daemon(tmp_path):
    async with two_servers(tmp_path) as (proxy, place), DaemonProcess.running(place) as daemon:
        api = daemon.api
        await eventually(lambda: counts(api, hostile=2, honest=2), seconds=30)
        ordinary, floods = proxy._answer, asyncio.Event()

        async def answer(request, name, message):
            if name == "hostile" and message["method"] == "tools/list":
                floods.set()
                return await lists_nothing_without_end(request, message)
            return await ordinary(request, name, message)

        proxy._answer = answer
        async with asyncio.timeout(30):
            await floods.wait()
        took: list[float] = []
        began = time.monotonic()
        while len(took) <= 100 or time.monotonic() - began < 5:
            asked = time.perf_counter()
            await health(api)
            took.append(time.perf_counter() - asked)
            assert time.monotonic() - began < 60
        assert_quick(took)
        await eventually(lambda: answered(api), seconds=60)


async def counts(api: Api, **expected: int) -> bool:
    return (await health(api))["toolsByServer"] == expected


async def test_a_heartbeat_notices_a_daemon_that_stands_still(tmp_path):
    """The control: the same measurement of a daemon whose process is stopped for a second."""
    async with two_servers(tmp_path) as (_, place), DaemonProcess.running(place) as daemon:
        await health(daemon.api)
        daemon.process.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(1, daemon.process.send_signal, signal.SIGCONT)
        asked = time.perf_counter()
        await health(daemon.api)
        assert time.perf_counter() - asked > LONGEST_STOP_SECONDS


async def test_a_caller_cannot_take_a_server_from_another_by_what_it_makes_the_server_say(tmp_path):
    proxy = ScriptedProxy("postgres")

    async def quote(_: web.Request, message: dict) -> web.StreamResponse:
        return web.json_response(error(message, -32603, message["params"]["arguments"]["text"]))

    proxy.behaviours["fail"] = quote
    provoke = """
from servers.postgres import fail
for words in ('invalid input syntax for type integer: "transport closed"', "transport error: transport closed"):
    for _ in range(3):
        try:
            fail(text=words)
        except Exception as error:
            print(type(error).__name__)
"""
    async with serving(proxy.app()) as url:
        servers = {"postgres": {"url": f"{url}/postgres/mcp"}}
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        place = Installation.create(tmp_path, servers_file=tmp_path / "servers.json")
        async with place.run() as admin, admin.as_caller(place.keys["developer"]) as developer:
            await eventually(lambda: counts(admin, postgres=2), seconds=30)
            provoked = await developer.python(provoke)
            assert provoked["output"].split() == ["ToolError"] * 3 + ["ToolUnavailable"] * 3, provoked["stderr"]
            assert (await health(admin))["upstreams"]["postgres"] == "connected"
            result = await admin.python("from servers.postgres import echo\nprint(echo(text='mine'))")
            assert "mine" in result["output"], result["stderr"]
    assert proxy.count("initialize") == 1
