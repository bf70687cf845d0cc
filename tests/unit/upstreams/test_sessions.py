"""Streamable HTTP with sessions and event streams, and the transport that came before it."""

import asyncio
import itertools
import json
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import mcp_types as types
import pytest
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventStore

from orchestrator.domain.errors import LimitExceeded, ToolUnavailable
from orchestrator.domain.upstream import UpstreamState
from orchestrator.upstreams import upstream as upstream_module
from orchestrator.upstreams.entries import HttpKind, HttpServer
from orchestrator.upstreams.servers_file import read_servers
from tests.support.api import until
from tests.support.upstream_server import LegacySseServer, SessionServer, SseProxy, serving, tool
from tests.support.upstreams import (
    http,
    problem,
    running,
    status,
    text_of,
    tool_names,
    until_connected,
    until_down,
)


@pytest.fixture
async def server():
    return SessionServer()


@pytest.fixture
async def upstreams(server):
    async with serving(server.app()) as url, running(http("s", f"{url}/mcp")) as upstreams:
        await until_connected(upstreams, "s")
        yield upstreams


async def test_a_session_is_begun_once_and_told_the_agreed_version(server, upstreams):
    for _ in range(3):
        assert text_of(await upstreams.call("s", "echo", {}, 5)) == "echo"
    assert server.begun == 1
    assert set(server.versions) == {"2025-06-18"}


async def test_answers_as_event_streams_do_not_cost_a_connection_each(server, upstreams):
    opened = len(server.connections)
    for _ in range(50):
        await upstreams.call("s", "echo", {}, 5)
    assert len(server.connections) - opened < 40  # a stream may end late, but not every time


async def test_the_session_is_ended_when_we_leave(server):
    async with serving(server.app()) as url:
        async with running(http("s", f"{url}/mcp")) as upstreams:
            await until_connected(upstreams, "s")
            assert len(server.sessions) == 1
        assert server.sessions == set()


@pytest.mark.parametrize("status_code", [404, 400])
async def test_a_lost_session_is_begun_anew_once_for_all_calls_that_notice(server, upstreams, status_code):
    server.status_of_lost_session = status_code
    server.sessions.clear()
    results = await asyncio.gather(*(upstreams.call("s", "echo", {}, 5) for _ in range(10)))
    assert [text_of(result) for result in results] == ["echo"] * 10
    assert server.begun == 2
    assert status(upstreams, "s").state is UpstreamState.CONNECTED


async def test_tools_are_listed_anew_after_the_session_was_lost(server, upstreams):
    server.tools.append(tool("later"))
    server.sessions.clear()
    await upstreams.call("s", "echo", {}, 5)
    await until(lambda: tool_names(upstreams, "s") == ["echo", "later"])


async def test_a_server_that_loses_every_session_at_once_is_unavailable_and_not_asked_without_end(server, upstreams):
    begun = server.begun
    server._begin = forgetful(server)
    server.sessions.clear()
    with pytest.raises(ToolUnavailable, match="lost our session"):
        await upstreams.call("s", "echo", {}, 5)
    assert server.begun == begun + 1


def forgetful(server):
    begin = server._begin

    async def begin_and_forget(request, message):
        response = await begin(request, message)
        server.sessions.clear()
        return response

    return begin_and_forget


async def test_a_change_announced_on_the_notification_stream_is_taken_up(server, upstreams):
    await until(lambda: server.listeners)
    server.tools.append(tool("new"))
    await server.announce_change()
    await until(lambda: tool_names(upstreams, "s") == ["echo", "new"])


async def test_a_change_announced_within_a_reply_is_taken_up(server, upstreams):
    server.tools.append(tool("new"))
    assert text_of(await upstreams.call("s", "changes", {}, 5)) == "changes"
    await until(lambda: tool_names(upstreams, "s") == ["echo", "new"])


async def test_a_server_that_asks_us_something_is_answered(server, upstreams):
    await upstreams.call("s", "asks", {}, 5)
    async with asyncio.timeout(5):
        answers = {answer["id"]: answer for answer in [await server.answers.get(), await server.answers.get()]}
    assert answers["a"]["result"] == {}
    assert answers["b"]["error"]["code"] == -32601


async def test_a_call_that_is_given_up_is_cancelled_at_the_server(server, upstreams):
    with pytest.raises(ToolUnavailable, match="did not answer"):
        await upstreams.call("s", "slow", {}, 0.1)
    async with asyncio.timeout(5):
        await server.cancelled.wait()


async def test_all_pages_of_a_listing_are_read_and_duplicates_are_dropped(server):
    server.tools = [tool(f"t{number}") for number in range(25)] + [tool("t3")]
    server.page_size = 4
    async with serving(server.app()) as url, running(http("s", f"{url}/mcp")) as upstreams:
        await until_connected(upstreams, "s")
        assert tool_names(upstreams, "s") == [f"t{number}" for number in range(25)]


async def test_a_listing_that_never_ends_is_cut(server):
    server._page = lambda message: {
        "tools": [tool("same")],
        "nextCursor": str(int(message["params"].get("cursor", "0")) + 1),
    }
    async with serving(server.app()) as url, running(http("s", f"{url}/mcp")) as upstreams:
        await until_connected(upstreams, "s")
        assert tool_names(upstreams, "s") == ["same"]


@pytest.fixture
async def legacy():
    return LegacySseServer()


@pytest.fixture
async def legacy_upstreams(legacy):
    async with serving(legacy.app()) as url, running(HttpServer("old", f"{url}/sse", HttpKind.SSE)) as upstreams:
        await until_connected(upstreams, "old")
        yield upstreams


async def test_the_old_transport_lists_and_calls_concurrently(legacy_upstreams):
    results = await asyncio.gather(*(legacy_upstreams.call("old", "echo", {"n": n}, 5) for n in range(20)))
    assert [text_of(result) for result in results] == [f'{{"n": {n}}}' for n in range(20)]


async def test_a_change_announced_on_the_old_stream_is_taken_up(legacy, legacy_upstreams):
    legacy.tools.append(tool("new"))
    await legacy.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await until(lambda: tool_names(legacy_upstreams, "old") == ["echo", "new"])


async def test_a_huge_result_on_the_old_stream_is_refused_and_the_stream_goes_on(legacy, legacy_upstreams):
    legacy.huge_bytes = 2_000_000
    with pytest.raises(LimitExceeded):
        await legacy_upstreams.call("old", "echo", {}, 10)
    legacy.huge_bytes = 0
    assert text_of(await legacy_upstreams.call("old", "echo", {}, 5)) == "{}"
    assert len(legacy.streams) == 1


async def test_the_end_of_the_old_stream_is_noticed_and_it_is_opened_again(legacy, legacy_upstreams):
    legacy.drop.set()
    await until(lambda: len(legacy.streams) > 1)
    legacy.drop = asyncio.Event()
    await until_connected(legacy_upstreams, "old")
    assert text_of(await legacy_upstreams.call("old", "echo", {}, 5)) == "{}"


async def test_messages_are_not_sent_to_another_host_than_that_of_the_stream(legacy):
    legacy.endpoint = "http://127.0.0.2:9/messages"
    async with serving(legacy.app()) as url, running(HttpServer("old", f"{url}/sse", HttpKind.SSE)) as upstreams:
        await until_down(upstreams, "old")
        assert "another host" in problem(upstreams, "old")


async def test_an_address_without_an_event_stream_is_named_as_such(server):
    async with serving(server.app()) as url, running(HttpServer("old", f"{url}/nothing", HttpKind.SSE)) as upstreams:
        await until_down(upstreams, "old")
        assert "HTTP 404" in problem(upstreams, "old")


@pytest.mark.parametrize("ahead", [b"id: 7\ndata: \n\n", b"event: ping\ndata: 2026-11-16\n\n", b"retry: 5000\n\n"])
async def test_events_that_are_no_messages_are_passed_over(server, ahead):
    server.ahead = ahead
    async with serving(server.app()) as url, running(http("s", f"{url}/mcp")) as upstreams:
        await until_connected(upstreams, "s")
        assert text_of(await upstreams.call("s", "echo", {}, 5)) == "echo"


async def test_events_of_other_kinds_on_the_old_stream_are_passed_over(legacy, legacy_upstreams):
    await legacy.streams[-1].write(b"event: ping\ndata: 2026-11-16\n\n")
    assert text_of(await legacy_upstreams.call("old", "echo", {}, 5)) == "{}"
    assert status(legacy_upstreams, "old").state is UpstreamState.CONNECTED


class Store(EventStore):
    """Gives every event an id and keeps none."""

    def __init__(self):
        self._ids = itertools.count()

    async def store_event(self, stream_id, message):
        return str(next(self._ids))

    async def replay_events_after(self, last_event_id, send_callback):
        return None


async def _one_tool(_, __):
    return types.ListToolsResult(tools=[types.Tool(name="one", input_schema={"type": "object"})])


@asynccontextmanager
async def served_by_uvicorn(app):
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await serving


async def test_a_server_with_a_store_of_events_is_connected_to():
    """The real one: since it can resume a stream, it begins each with an event that has an id only."""
    app = Server("s", on_list_tools=_one_tool).streamable_http_app(event_store=Store())
    async with served_by_uvicorn(app) as url, running(http("s", f"{url}/mcp")) as upstreams:
        await until_connected(upstreams, "s")
        assert tool_names(upstreams, "s") == ["one"]


async def test_a_refusal_that_answers_our_request_is_passed_on_and_not_sent_again(server, upstreams):
    result = await upstreams.call("s", "browser", {}, 5)
    assert (text_of(result), server.calls, server.begun) == ("the browser session is closed", 1, 1)


async def test_a_server_that_pesters_us_is_answered_a_few_times(server, upstreams):
    assert text_of(await upstreams.call("s", "pesters", {}, 5)) == "pesters"
    await until(lambda: server.answers.qsize() >= 16)
    await asyncio.sleep(0.1)
    assert server.answers.qsize() < 100


async def test_a_server_that_changes_all_the_time_is_heard_less_and_less(server, monkeypatch):
    monkeypatch.setattr(upstream_module, "_RESTLESS_SECONDS", 1.0)
    changes: list[None] = []

    def note():
        changes.append(None)

    async with serving(server.app()) as url, running(http("s", f"{url}/mcp"), on_change=note) as upstreams:
        await until_connected(upstreams, "s")
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            server.tools = [tool("echo", description=f"It is {time.monotonic()}.")]
            await server.announce_change()
            await asyncio.sleep(0.005)
    assert 2 <= len(changes) <= 10  # of a hundred that the pace would allow


async def test_the_short_form_for_a_proxy_works_with_one_that_speaks_the_old_transport(tmp_path):
    proxy = SseProxy("jira", "wiki", token="hush")
    async with serving(proxy.app()) as url:
        file = tmp_path / "servers.json"
        short = {"url": url, "servers": ["jira", "wiki", "gone"], "type": "sse", "token": "${PROXY_TOKEN}"}
        file.write_text(json.dumps({"proxy": short}))
        async with running(*read_servers(file, {"PROXY_TOKEN": "hush"})) as upstreams:
            await until_connected(upstreams, "jira", "wiki")
            assert tool_names(upstreams, "wiki") == ["echo", "count"]
            results = await asyncio.gather(*(upstreams.call("jira", "echo", {"n": n}, 5) for n in range(10)))
            assert [text_of(result) for result in results] == [f'{{"n": {n}}}' for n in range(10)]
            await until_down(upstreams, "gone")
            assert "HTTP 404" in problem(upstreams, "gone")
        await until(lambda: not proxy.sessions)


async def test_a_proxy_of_the_old_transport_that_rejects_our_token_is_named_as_such(tmp_path):
    async with serving(SseProxy("jira", token="hush").app()) as url:
        file = tmp_path / "servers.json"
        file.write_text(json.dumps({"proxy": {"url": url, "servers": ["jira"], "type": "sse", "token": "wrong"}}))
        async with running(*read_servers(file, {})) as upstreams:
            await until_down(upstreams, "jira")
            assert "HTTP 401" in problem(upstreams, "jira")


async def test_a_tool_that_is_withheld_from_now_on_is_gone_at_once(server, upstreams):
    before = upstreams._upstreams["s"].entry
    await upstreams.reconfigure([replace(before, withheld=("ec*",))])
    assert tool_names(upstreams, "s") == []
    await until_connected(upstreams, "s")
    assert tool_names(upstreams, "s") == []
