"""Behind a proxy that behaves as TBXark/mcp-proxy does."""

import asyncio

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from orchestrator.domain.errors import InvalidArguments, LimitExceeded, ToolNotFound, ToolUnavailable
from orchestrator.domain.upstream import UpstreamState
from orchestrator.upstreams.entries import UnusableServer
from orchestrator.upstreams.upstream import Pacing
from tests.support.api import until
from tests.support.upstream_server import (
    Huge,
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

MIB = 1024 * 1024


@pytest.fixture
async def proxy():
    return ScriptedProxy("db", "files", token="right")


@pytest.fixture
async def url(proxy):
    async with serving(proxy.app()) as url:
        yield url


def behind(url, name="db", token="right"):
    return http(name, f"{url}/{name}/mcp", Authorization=f"Bearer {token}")


@pytest.fixture
async def upstreams(url):
    async with running(behind(url), behind(url, "files")) as upstreams:
        await until_connected(upstreams, "db", "files")
        yield upstreams


async def test_tools_are_listed_and_called(upstreams):
    assert tool_names(upstreams, "db") == ["echo", "fail"]
    assert upstreams.tools()["db"][0].annotations == {}
    result = await upstreams.call("db", "echo", {"text": "é\ud83d\ude00"}, 5)
    assert "isError" not in result
    assert text_of(result) == r'{"text": "\u00e9\ud83d\ude00"}'


@pytest.mark.parametrize("knows_initialize", [True, False])
async def test_a_stateless_server_works_whether_it_knows_initialize_or_not(proxy, url, knows_initialize):
    proxy.knows_initialize = knows_initialize
    async with running(behind(url)) as upstreams:
        await until_connected(upstreams, "db")
        assert text_of(await upstreams.call("db", "echo", {}, 5)) == "{}"


async def test_a_server_that_wants_the_stateless_revision_gets_its_envelope_and_headers():
    seen = []

    async def modern_only(request, message):
        meta = message["params"].get("_meta", {})
        if meta.get("io.modelcontextprotocol/protocolVersion") != request.headers.get("MCP-Protocol-Version", "none"):
            return error_response(message)
        seen.append((request.headers["Mcp-Method"], request.headers.get("Mcp-Name")))
        result = {"tools": [tool("echo")]} if message["method"] == "tools/list" else {"content": []}
        return web.json_response(reply(message, {**result, "resultType": "complete"}))

    proxy = ScriptedProxy("db", knows_initialize=False)
    proxy.on_list = proxy.behaviours["echo"] = modern_only
    async with serving(proxy.app()) as url, running(http("db", f"{url}/db/mcp")) as upstreams:
        await until_connected(upstreams, "db")
        await upstreams.call("db", "echo", {}, 5)
        assert seen[-1] == ("tools/call", "echo")
        proxy.tools["db"].append(tool("naïve"))
        proxy.behaviours["naïve"] = modern_only
        await upstreams.call("db", "naïve", {}, 5)
    assert seen[-1] == ("tools/call", "=?base64?bmHDr3Zl?=")


def error_response(message):
    return web.json_response(error(message, -32022, "Unsupported protocol version"))


@pytest.mark.parametrize("path", ["/db/", "/db/mcp", "/db/anything/else"])
async def test_the_whole_prefix_of_a_server_answers(url, path):
    async with running(http("db", url + path, Authorization="Bearer right")) as upstreams:
        await until_connected(upstreams, "db")


async def test_a_post_is_still_a_post_after_a_redirect_and_the_new_address_is_remembered(proxy, url):
    async with running(http("db", f"{url}/db", Authorization="Bearer right")) as upstreams:
        await until_connected(upstreams, "db")
        assert text_of(await upstreams.call("db", "echo", {"a": 1}, 5)) == '{"a": 1}'


async def test_credentials_do_not_follow_a_redirect_to_another_host(url):
    other = ScriptedProxy("db")

    async def elsewhere(request):
        return web.Response(status=307, headers={"Location": f"{other_url}/db/mcp"})

    other._redirect = elsewhere
    async with (
        serving(ScriptedProxy("db").app()) as other_url,
        serving(other.app()) as first_url,
        running(http("db", f"{first_url}/db", Authorization="Bearer right")) as upstreams,
    ):
        await until_down(upstreams, "db")
        assert "redirects to another host" in problem(upstreams, "db")


async def test_many_calls_run_at_once_and_reuse_their_connections(proxy, upstreams):
    results = await asyncio.gather(*(upstreams.call("db", "echo", {"n": n}, 5) for n in range(50)))
    assert [text_of(result) for result in results] == [f'{{"n": {n}}}' for n in range(50)]
    opened = len(proxy.connections)
    for n in range(20):
        await upstreams.call("db", "echo", {"n": n}, 5)
    assert len(proxy.connections) == opened


async def test_an_unknown_tool_is_the_server_s_error_and_makes_us_list_again(proxy, upstreams):
    proxy.tools["db"] = [tool("renamed")]
    result = await upstreams.call("db", "echo", {}, 5)
    assert result["isError"] is True
    assert "tool not found" in text_of(result)
    await until(lambda: tool_names(upstreams, "db") == ["renamed"])


async def test_an_error_reply_is_a_result_with_the_server_s_words(upstreams):
    result = await upstreams.call("db", "fail", {}, 5)
    assert result == {"content": [{"type": "text", "text": 'relation "nope" does not exist'}], "isError": True}
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


async def test_an_unknown_server_is_not_found(upstreams):
    with pytest.raises(ToolNotFound, match="There is no server DB"):
        await upstreams.call("DB", "echo", {}, 5)


async def test_arguments_without_a_form_in_json_do_not_hurt_the_server(upstreams):
    with pytest.raises(InvalidArguments):
        await upstreams.call("db", "echo", {"a": float("inf")}, 5)
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


@pytest.mark.parametrize(
    ("name", "token", "words"), [("db", "wrong", "rejects our credentials (HTTP 401)"), ("gone", "right", "HTTP 404")]
)
async def test_a_plain_text_refusal_is_shown_as_a_sentence_without_the_secret(url, name, token, words):
    with capture_logs() as logs:
        async with running(behind(url, name, token), behind(url, "files")) as upstreams:
            await until_connected(upstreams, "files")
            await until_down(upstreams, name)
            assert words in problem(upstreams, name)
            with pytest.raises(ToolUnavailable) as refused:
                await upstreams.call(name, "echo", {}, 5)
    assert words in refused.value.message
    assert token not in str(logs) + refused.value.message


async def test_a_server_that_the_proxy_could_not_start_recovers_when_it_can(proxy, url):
    proxy.failed.add("db")
    async with running(behind(url)) as upstreams:
        await until_down(upstreams, "db")
        proxy.failed.clear()
        await until_connected(upstreams, "db")
        assert tool_names(upstreams, "db") == ["echo", "fail"]


async def test_a_dead_backend_whose_proxy_still_lists_its_tools_is_told_of_by_every_call(proxy, upstreams):
    proxy.dead.add("db")
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(ToolUnavailable, match=r"The server db is unavailable: the server behind .* is gone"):
                await upstreams.call("db", "echo", {}, 5)
    assert "upstream.backend_gone" in [line["event"] for line in logs]
    assert tool_names(upstreams, "db") == ["echo", "fail"]
    assert text_of(await upstreams.call("files", "echo", {}, 5)) == "{}"


async def test_a_dead_backend_that_came_back_answers_the_next_call(proxy, upstreams):
    proxy.dead.add("db")
    with pytest.raises(ToolUnavailable):
        await upstreams.call("db", "echo", {}, 5)
    proxy.dead.clear()
    assert text_of(await upstreams.call("db", "echo", {}, 5)) == "{}"
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


@pytest.mark.parametrize("words", ["", "Connection closed"])
async def test_an_error_without_words_is_a_dead_backend_when_the_listing_fails_too(proxy, upstreams, words):
    proxy.behaviours["echo"] = says(lambda message: reply(message, {**text_result(words), "isError": True}))
    proxy.on_list = says(lambda message: error(message, 0, ""))
    with pytest.raises(ToolUnavailable, match="behind its proxy is gone"):
        await upstreams.call("db", "echo", {}, 5)
    await until_down(upstreams, "db")
    proxy.on_list = None
    await until_connected(upstreams, "db")


async def test_an_error_without_words_of_a_living_server_is_passed_on(proxy, upstreams):
    proxy.behaviours["echo"] = says(lambda message: reply(message, {**text_result(""), "isError": True}))
    assert (await upstreams.call("db", "echo", {}, 5))["isError"] is True
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


def says(answer):
    async def behaviour(_, message):
        return web.json_response(answer(message))

    return behaviour


async def test_a_call_that_takes_too_long_is_given_up(proxy, upstreams):
    slow = proxy.behaviours["echo"] = Slow()
    with pytest.raises(ToolUnavailable, match=r"did not answer within 0\.1 s"):
        await upstreams.call("db", "echo", {}, 0.1)
    async with asyncio.timeout(5):
        await slow.given_up.wait()
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


async def test_no_call_may_take_longer_than_the_configured_time(proxy, url):
    proxy.behaviours["echo"] = Slow()
    async with running(behind(url), call_timeout_seconds=0.1) as upstreams:
        await until_connected(upstreams, "db")
        with pytest.raises(ToolUnavailable, match=r"within 0\.1 s"):
            await upstreams.call("db", "echo", {}, 60)


async def test_a_cancelled_call_hangs_up(proxy, upstreams):
    slow = proxy.behaviours["echo"] = Slow()
    call = asyncio.create_task(upstreams.call("db", "echo", {}, 60))
    async with asyncio.timeout(5):
        await slow.started.wait()
        call.cancel()
        await slow.given_up.wait()
    assert call.cancelled() or call.cancelling()


async def test_a_slow_call_delays_neither_the_others_nor_their_server(proxy, upstreams):
    slow = proxy.behaviours["fail"] = Slow()
    waiting = asyncio.create_task(upstreams.call("db", "fail", {}, 60))
    async with asyncio.timeout(5):
        await slow.started.wait()
        assert text_of(await upstreams.call("db", "echo", {}, 5)) == "{}"
        slow.go.set()
        assert text_of(await waiting) == "at last"


@pytest.mark.parametrize("behaviour", [malformed, nonsense, resets])
async def test_a_broken_answer_fails_its_call_alone(proxy, upstreams, behaviour):
    proxy.behaviours["fail"] = behaviour
    with pytest.raises(ToolUnavailable):
        await upstreams.call("db", "fail", {}, 5)
    assert text_of(await upstreams.call("db", "echo", {}, 5)) == "{}"


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_result_of_50_mb_is_refused_without_being_read(proxy, upstreams, declared, streamed):
    huge = proxy.behaviours["echo"] = Huge(50 * MIB, declared and not streamed, streamed)
    with pytest.raises(LimitExceeded, match="db/echo is larger than 1000000 bytes"):
        await upstreams.call("db", "echo", {}, 30)
    assert huge.sent < 20 * MIB  # what the sockets' buffers took
    assert text_of(await upstreams.call("db", "fail", {}, 5)) != ""
    assert status(upstreams, "db").state is UpstreamState.CONNECTED


async def test_a_large_result_within_the_limit_arrives_whole(proxy, url):
    proxy.behaviours["echo"] = Huge(8 * MIB)
    async with running(behind(url), max_result_bytes=10 * MIB) as upstreams:
        await until_connected(upstreams, "db")
        assert len(text_of(await upstreams.call("db", "echo", {}, 30))) == 8 * MIB


async def test_a_proxy_that_goes_away_is_noticed_by_the_periodic_listing_and_its_tools_stay_listed(proxy):
    async with serving(proxy.app()) as url:
        port = int(url.rsplit(":", 1)[1])
        upstreams_running = running(behind(url), relist_seconds=0.05)
        upstreams = await upstreams_running.__aenter__()
        await until_connected(upstreams, "db")
    try:
        await until_down(upstreams, "db")
        # The listing under way may have been cut off first; the next attempt finds nobody there.
        await until(lambda: "cannot connect to it" in problem(upstreams, "db"))
        assert tool_names(upstreams, "db") == ["echo", "fail"]
        async with serving(proxy.app(), port):
            await until_connected(upstreams, "db")
            assert text_of(await upstreams.call("db", "echo", {}, 5)) == "{}"
    finally:
        await upstreams_running.__aexit__(None, None, None)


async def test_new_tools_are_found_by_the_periodic_listing_and_told_once(proxy, url):
    changes = []
    async with running(behind(url), relist_seconds=0.02, on_change=lambda: changes.append(1)) as upstreams:
        await until_connected(upstreams, "db")
        assert changes == [1]
        proxy.tools["db"].append(tool("new"))
        await until(lambda: "new" in tool_names(upstreams, "db"))
        listings = proxy.count("tools/list")
        await until(lambda: proxy.count("tools/list") > listings + 3)
        assert changes == [1, 1]


async def test_a_malformed_tool_is_left_out_and_shown(proxy, url):
    proxy.tools["db"] = [tool("echo"), {"name": "bad"}, "nonsense"]
    async with running(behind(url)) as upstreams:
        await until_connected(upstreams, "db")
        assert tool_names(upstreams, "db") == ["echo"]
        assert problem(upstreams, "db") == "2 of its tools are left out: number 2 (bad) has no inputSchema"


async def test_an_upstream_that_never_answers_delays_neither_start_up_nor_the_others(proxy, url):
    silent = ScriptedProxy("silent")
    silent.on_list = Slow()
    impatient = Pacing(connect_seconds=0.3, first_retry_seconds=0.02)
    async with (
        serving(silent.app()) as silent_url,
        running(http("silent", f"{silent_url}/silent/mcp"), behind(url), pacing=impatient) as upstreams,
    ):
        await until_connected(upstreams, "db")
        assert status(upstreams, "silent").state is UpstreamState.CONNECTING
        with pytest.raises(ToolUnavailable, match="still connecting"):
            await upstreams.call("silent", "echo", {}, 5)
        await until_down(upstreams, "silent")
        assert "does not answer" in problem(upstreams, "silent")


@pytest.mark.parametrize("listing", [malformed, nonsense, resets])
async def test_an_upstream_that_lists_nonsense_is_down_and_recovers(proxy, url, listing):
    proxy.on_list = listing
    async with running(behind(url)) as upstreams:
        await until_down(upstreams, "db")
        proxy.on_list = None
        await until_connected(upstreams, "db")


async def test_a_fault_of_ours_in_one_upstream_is_logged_and_retried_and_spares_the_others(url, monkeypatch):
    faults = iter([ZeroDivisionError()])

    def break_once(entry, alerts):
        if entry.name == "db" and (fault := next(faults, None)):
            raise fault
        return make(entry, alerts)

    with capture_logs() as logs:
        async with running(UnusableServer("none", "no")) as upstreams:
            make = upstreams._make_transport
            monkeypatch.setattr(upstreams, "_make_transport", break_once)
            await upstreams.reconfigure([behind(url), behind(url, "files")])
            await until_connected(upstreams, "db", "files")
    assert [line["server"] for line in logs if line["event"] == "upstream.crashed"] == ["db"]


async def test_a_host_that_does_not_exist_is_named_as_the_problem():
    async with running(http("db", "http://no-such-host.invalid/mcp"), pacing=QUICK) as upstreams:
        await until_down(upstreams, "db")
        assert problem(upstreams, "db") in (
            "its host name cannot be resolved",
            "we cannot connect to it (connection refused)",
        )


async def test_an_unusable_entry_is_down_with_its_problem():
    async with running(UnusableServer("db", "servers.json, line 3: the variable X is not set")) as upstreams:
        await until_down(upstreams, "db")
        assert "variable X" in problem(upstreams, "db")
        with pytest.raises(ToolUnavailable, match="variable X"):
            await upstreams.call("db", "echo", {}, 5)


async def test_reconfiguring_keeps_what_is_unchanged_and_starts_and_stops_the_rest(proxy, url):
    proxy.tools["new"] = [tool("fresh")]
    changes = []
    async with running(behind(url), behind(url, "files"), on_change=lambda: changes.append(1)) as upstreams:
        await until_connected(upstreams, "db", "files")
        slow = proxy.behaviours["fail"] = Slow()
        waiting = asyncio.create_task(upstreams.call("db", "fail", {}, 60))
        await slow.started.wait()
        since = status(upstreams, "db").since
        changes.clear()
        await upstreams.reconfigure([behind(url), behind(url, "new")])
        assert changes
        assert list(upstreams.tools()) == ["db", "new"]
        await until_connected(upstreams, "new")
        slow.go.set()
        assert text_of(await waiting) == "at last"
        assert status(upstreams, "db").since == since
        with pytest.raises(ToolNotFound):
            await upstreams.call("files", "echo", {}, 5)


async def test_a_changed_entry_is_connected_to_anew_while_its_tools_stay_listed(proxy, url):
    async with running(behind(url)) as upstreams:
        await until_connected(upstreams, "db")
        await upstreams.reconfigure([behind(url, token="wrong")])
        assert tool_names(upstreams, "db") == ["echo", "fail"]
        await until_down(upstreams, "db")
        await upstreams.reconfigure([behind(url)])
        await until_connected(upstreams, "db")


@pytest.mark.parametrize("refused", [400, 413, 422])
async def test_a_request_that_is_refused_for_itself_takes_the_server_from_nobody(proxy, upstreams, refused):
    async def refuse(_, __):
        return web.Response(status=refused, text="too large")

    proxy.behaviours["fail"] = refuse
    for _ in range(5):
        with pytest.raises(ToolUnavailable, match=str(refused)):
            await upstreams.call("db", "fail", {}, 5)
        await upstreams.call("db", "echo", {}, 5)
    for _ in range(5):
        with pytest.raises(ToolUnavailable, match=str(refused)):
            await upstreams.call("db", "fail", {}, 5)
    assert status(upstreams, "db").state is UpstreamState.CONNECTED
    assert proxy.count("initialize") == 2  # one for each server


async def test_arguments_are_sent_as_text_and_not_as_escapes(proxy, upstreams):
    seen = []

    async def note(request, message):
        seen.append(await request.read())
        return web.json_response(reply(message, text_result("noted")))

    proxy.behaviours["echo"] = note
    await upstreams.call("db", "echo", {"text": "привет"}, 5)
    await upstreams.call("db", "echo", {"text": "\ud800"}, 5)
    assert "привет".encode() in seen[0]
    assert b"\\ud800" in seen[1]


async def test_a_listing_of_nonsense_is_told_in_one_line(proxy, url):
    proxy.tools["db"] = [tool("good"), *range(3000)]
    with capture_logs() as logs:
        async with running(behind(url)) as upstreams:
            await until_connected(upstreams, "db")
            assert problem(upstreams, "db").startswith("3000 of its tools are left out: number 2 is not an object")
    (skipped,) = [entry for entry in logs if entry["event"] == "upstream.tools_skipped"]
    assert (skipped["number"], len(skipped["first"])) == (3000, 5)
