"""What decides whether a server is up: what we find ourselves, never what one caller's call came to."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from aiohttp import web

from orchestrator.domain.errors import ToolUnavailable
from orchestrator.domain.upstream import UpstreamState
from orchestrator.upstreams import proxies
from orchestrator.upstreams.entries import HttpKind, HttpServer
from orchestrator.upstreams.faults import TransportFailed
from orchestrator.upstreams.proxies import without_addresses
from orchestrator.upstreams.upstream import Pacing, Upstream
from tests.support.api import eventually, until
from tests.support.upstream_server import (
    LegacySseServer,
    ScriptedProxy,
    Slow,
    error,
    malformed,
    nonsense,
    reply,
    resets,
    serving,
    text_result,
    tool,
)
from tests.support.upstreams import (
    QUICK,
    http,
    problem,
    running,
    status,
    text_of,
    tool_names,
    until_connected,
    until_down,
)

POST_FAILED = (
    'transport error: failed to send request: failed to send request: Post "http://172.18.0.5:8080/mcp": '
    "dial tcp 172.18.0.5:8080: connect: connection refused"
)


def says(answer):
    async def behaviour(_, message):
        return web.json_response(answer(message))

    return behaviour


def fails_with(code, words):
    return says(lambda message: error(message, code, words))


def result_with(words):
    return says(lambda message: reply(message, {**text_result(words), "isError": True}))


def answers_status(number):
    async def behaviour(_, __):
        return web.Response(status=number, text="transport closed")

    return behaviour


async def hangs(_, __):
    await asyncio.Event().wait()
    return web.Response()


PROVOCATIONS = {
    "SQL that is quoted": fails_with(-32603, 'invalid input syntax for type integer: "transport closed"'),
    "an exception in SQL": fails_with(-32603, "transport error: transport closed"),
    "the words of another SDK": fails_with(-32000, "Connection closed"),
    "a failed request that is quoted": fails_with(-32603, POST_FAILED),
    "an error without words": result_with(""),
    "an error that is two words": result_with("Connection closed"),
    "an error in a result": result_with("transport error: transport closed"),
    "a broken connection": resets,
    "half a message": malformed,
    "a web page": nonsense,
    "no answer": hangs,
    "an internal error": answers_status(500),
    "a proxy's error": answers_status(502),
    "a refusal": answers_status(401),
}


@asynccontextmanager
async def one_server(pacing=QUICK, **settings):
    proxy = ScriptedProxy("db")
    async with (
        serving(proxy.app()) as url,
        running(http("db", f"{url}/db/mcp"), pacing=pacing, **settings) as upstreams,
    ):
        await until_connected(upstreams, "db")
        yield proxy, upstreams


async def attempted(upstreams, tool="echo", seconds=5):
    """Return the text of what came of it, or the refusal."""
    try:
        return text_of(await upstreams.call("db", tool, {}, seconds))
    except ToolUnavailable as refusal:
        return refusal.message


async def answers(upstreams):
    return await attempted(upstreams) == "{}"


@pytest.mark.parametrize("provocation", PROVOCATIONS)
async def test_nothing_that_one_callers_calls_come_to_takes_the_server_from_the_others(provocation):
    async with one_server() as (proxy, upstreams):
        proxy.behaviours["fail"] = PROVOCATIONS[provocation]
        since, seen = status(upstreams, "db").since, set()
        for _ in range(5):
            await attempted(upstreams, "fail", 0.1)
            seen.add(status(upstreams, "db").state)
            assert await attempted(upstreams) == "{}"
        await asyncio.gather(*(attempted(upstreams, "fail", 0.1) for _ in range(5)))
        assert await attempted(upstreams) == "{}"
        assert (seen, status(upstreams, "db").since) == ({UpstreamState.CONNECTED}, since)
        assert proxy.count("initialize") == 1


@pytest.mark.parametrize("provocation", PROVOCATIONS)
async def test_the_same_in_answer_to_our_own_listing_takes_it_away_until_that_is_over(provocation):
    """The control: what proves nothing in a call does prove something in a listing."""
    brief = Pacing(
        list_seconds=0.05, between_listings_seconds=0.01, first_retry_seconds=0.02, longest_cheap_retry_seconds=0.1
    )
    async with one_server(brief, call_timeout_seconds=0.1, relist_seconds=0.02) as (proxy, upstreams):
        proxy.on_list = PROVOCATIONS[provocation]
        await until_down(upstreams, "db")
        proxy.on_list = None
        await until_connected(upstreams, "db")


async def test_sql_that_is_quoted_comes_back_as_the_error_that_it_is():
    async with one_server() as (proxy, upstreams):
        proxy.behaviours["fail"] = PROVOCATIONS["SQL that is quoted"]
        result = await upstreams.call("db", "fail", {}, 5)
        assert result["isError"] is True
        assert text_of(result) == 'invalid input syntax for type integer: "transport closed"'


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (POST_FAILED, "its proxy cannot reach it (connection refused)."),
        (
            'failed to send request: Post "http://mcp-files:8080/mcp": dial tcp: lookup mcp-files on 127.0.0.11:53: '
            "no such host",
            "its proxy cannot reach it (no such host).",
        ),
        ("transport error: failed to write request: write |1: broken pipe", "its proxy cannot reach it (broken pipe)."),
        ('transport error: Post "http://10.1.2.3/mcp": something new', "its proxy cannot reach it."),
        ("Transport error:  transport closed.", "the server behind its proxy is gone. Restart the proxy."),
    ],
)
async def test_a_backend_that_a_proxy_cannot_reach_is_named_but_not_its_address(words, told):
    async with one_server() as (proxy, upstreams):
        proxy.behaviours["fail"] = fails_with(-32603, words)
        assert await attempted(upstreams, "fail") == f"The server db is unavailable: {told}"
        assert status(upstreams, "db").state is UpstreamState.CONNECTED


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("connect ECONNREFUSED 172.18.0.3:5432", "connect ECONNREFUSED [address]"),
        ("getaddrinfo ENOTFOUND mcp-db", "getaddrinfo ENOTFOUND [address]"),
        ('internal error: Post "http://mcp-files:8080/mcp": EOF', 'internal error: Post "[address]": EOF'),
        ("read tcp 10.0.0.2:5->[fd00::1]:80: reset", "read tcp [address]->[address]: reset"),
        ("ask {own}/db/mcp or {host}:{port}", "ask [address] or [address]"),
        ("getaddrinfo ENOTFOUND api.github.com", "getaddrinfo ENOTFOUND api.github.com"),
        ("https://example.com/a says 404", "https://example.com/a says 404"),
        ('lookup failed at line:12 of "a:1" in 10.0.0.1', 'lookup failed at line:12 of "a:1" in 10.0.0.1'),
    ],
)
async def test_internal_addresses_are_withheld_from_errors_and_nothing_else(words, told):
    proxy = ScriptedProxy("db")
    async with serving(proxy.app()) as url, running(http("db", f"{url}/db/mcp")) as upstreams:
        await until_connected(upstreams, "db")
        host, _, port = url.removeprefix("http://").partition(":")
        proxy.behaviours["fail"] = fails_with(-32603, words.format(own=url, host=host, port=port))
        assert await attempted(upstreams, "fail") == told


@pytest.mark.parametrize("word", ["10.0.0.1:5", "http://mcp-db/", "dial tcp mcp-db"])
def test_an_error_full_of_addresses_is_cut_after_some_of_them(monkeypatch, word):
    """To look at each would hold up the event loop for as long as the text is."""
    looked_at = []

    def watched(host):
        looked_at.append(host)
        return True

    monkeypatch.setattr(proxies, "_is_internal", watched)
    text = without_addresses(f"{word} " * 5000, http("db", "http://127.0.0.1:9090/db/mcp"))
    assert "10.0.0.1" not in text
    assert "mcp-db" not in text
    assert text.count("[address]") == 50
    assert text.endswith(" …")
    assert len(looked_at) <= 200


def test_a_long_error_with_few_addresses_is_kept():
    text = "no " * 4_000 + "at 10.0.0.1:5"
    assert without_addresses(text, http("db", "http://127.0.0.1/mcp")) == "no " * 4_000 + "at [address]"


async def test_addresses_in_results_are_left_alone():
    text = 'Post "http://172.18.0.5:8080/mcp": dial tcp 172.18.0.5:8080: connect: connection refused'
    async with one_server() as (proxy, upstreams):
        proxy.behaviours["echo"] = says(lambda message: reply(message, text_result(text)))
        assert await attempted(upstreams) == text
        proxy.behaviours["fail"] = result_with(text)
        assert await attempted(upstreams, "fail") == text


async def test_a_server_that_was_away_is_back_within_seconds_however_long_it_was_away():
    assert Pacing().longest_cheap_retry_seconds < 5
    far_on_in_the_backoff = Pacing(first_retry_seconds=50, longest_cheap_retry_seconds=0.3)
    proxy = ScriptedProxy("db")
    async with serving(proxy.app()) as url:
        port = int(url.rsplit(":", 1)[1])
        upstreams_running = running(http("db", f"{url}/db/mcp"), pacing=far_on_in_the_backoff, relist_seconds=0.05)
        upstreams = await upstreams_running.__aenter__()
        await until_connected(upstreams, "db")
    try:
        await until_down(upstreams, "db")
        async with serving(proxy.app(), port):
            await until_connected(upstreams, "db", seconds=10)
    finally:
        await upstreams_running.__aexit__(None, None, None)


async def test_a_call_hastens_the_next_try_and_waits_for_it():
    """Also where tries are dear: a listing that is no JSON may be as large as any answer."""
    async with one_server(
        Pacing(first_retry_seconds=50, between_tries_seconds=0.05, between_listings_seconds=0.01)
    ) as (proxy, upstreams):
        proxy.on_list = nonsense
        upstreams._upstreams["db"]._relist_soon()
        await until_down(upstreams, "db")
        assert "its answer is not JSON-RPC" in await attempted(upstreams)
        proxy.on_list = None
        await eventually(lambda: answers(upstreams), seconds=20)


async def test_calls_cannot_make_us_try_without_end_and_fail_at_once_in_between():
    async with one_server(Pacing(first_retry_seconds=50, between_tries_seconds=0.2, between_listings_seconds=0.01)) as (
        proxy,
        upstreams,
    ):
        proxy.on_list = nonsense
        upstreams._upstreams["db"]._relist_soon()
        await until_down(upstreams, "db")
        tries, began = proxy.count("initialize"), time.monotonic()
        calls = 0
        while proxy.count("initialize") == tries or calls <= 10 or time.monotonic() - began < 0.5:
            assert "its answer is not JSON-RPC" in await attempted(upstreams)
            calls += 1
            await asyncio.sleep(0.001)
        assert proxy.count("initialize") - tries <= 2 + (time.monotonic() - began) / 0.2


async def test_a_listing_that_takes_long_while_a_call_does_is_no_reason_to_give_up():
    """A server that does one thing at a time; the call that it is busy with must not end the others' connection."""
    brief = Pacing(list_seconds=0.05, between_listings_seconds=0.01)
    async with one_server(brief, call_timeout_seconds=30, relist_seconds=0.02) as (proxy, upstreams):
        busy = proxy.behaviours["fail"] = Slow()
        proxy.on_list = hangs
        call = asyncio.create_task(attempted(upstreams, "fail", 30))
        listings = proxy.count("tools/list")
        async with asyncio.timeout(10):
            while proxy.count("tools/list") < listings + 5:
                assert status(upstreams, "db").state is UpstreamState.CONNECTED
                await asyncio.sleep(0.01)
        proxy.on_list = None
        busy.go.set()
        assert await call == "at last"
        assert problem(upstreams, "db") == ""


async def test_calls_that_all_doubt_the_server_share_one_listing():
    async with one_server() as (proxy, upstreams):
        proxy.behaviours["fail"] = PROVOCATIONS["an error without words"]
        listings = proxy.count("tools/list")
        await asyncio.gather(*(attempted(upstreams, "fail") for _ in range(50)))
        assert proxy.count("tools/list") - listings <= 3


class NeverOpens:
    async def open(self):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.Event().wait()
        raise TransportFailed("it is away")

    async def close(self):
        pass


async def test_a_try_that_took_long_to_fail_was_no_connection_that_lasted():
    tries, paused = [], asyncio.Event()

    def make(*_):
        tries.append(None)
        return NeverOpens()

    upstream = Upstream(
        http("db", "http://127.0.0.1:9/mcp"),
        make,
        Pacing(settled_seconds=0.05),
        lambda: None,
        relist_seconds=3600,
        longest_call_seconds=1,
    )

    async def pause(_):
        paused.set()
        await asyncio.Event().wait()

    upstream._pause = pause
    living = asyncio.create_task(upstream.run())
    try:
        async with asyncio.timeout(5):
            await paused.wait()
        assert len(tries) == 1
    finally:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)


async def test_a_listing_that_took_too_long_is_not_asked_for_again_at_once():
    began = []

    async def hangs_and_tells(request, message):
        began.append(time.monotonic())
        return await hangs(request, message)

    brief = Pacing(list_seconds=0.1, between_listings_seconds=0.01)
    async with one_server(brief, call_timeout_seconds=30) as (proxy, upstreams):
        proxy.on_list = hangs_and_tells
        upstreams._upstreams["db"]._relist_soon()
        await until(lambda: len(began) == 3)
        assert min(later - earlier for earlier, later in pairwise(began)) > 0.4  # five times as long as it took
        proxy.on_list = None


class Restless(LegacySseServer):
    """Lists another tool each time, and then hangs up."""

    calm = False

    async def send(self, message):
        is_listing = "tools" in message.get("result", {})
        if is_listing and not self.calm:
            self.tools = [tool(f"tool_{len(self.streams)}")]
            message["result"]["tools"] = self.tools
        await super().send(message)
        if is_listing and not self.calm:
            drop, self.drop = self.drop, asyncio.Event()
            drop.set()


async def test_a_server_that_changes_with_each_connection_is_heard_less_and_less_too():
    server, changes = Restless(), []
    quick = replace(QUICK, between_listings_seconds=0.2)
    async with (
        serving(server.app()) as url,
        running(
            HttpServer("old", f"{url}/sse", HttpKind.SSE), pacing=quick, on_change=lambda: changes.append(None)
        ) as upstreams,
    ):
        await until(lambda: len(server.streams) >= 20, seconds=30)
        assert 1 <= len(changes) < 10
        server.calm = True
        await until(lambda: tool_names(upstreams, "old") == [server.tools[0]["name"]], seconds=30)
        server.drop.set()
