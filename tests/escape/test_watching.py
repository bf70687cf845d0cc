"""Callers that watch, count and sign in as no page of ours would."""

import asyncio
import json
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.daemon_process import DaemonProcess
from tests.support.wire import Wire, request

WATCHERS = 200  # more than a caller may have
MIB = 1024 * 1024


async def test_a_watcher_that_reads_is_told_of_an_execution(api):
    """The control of every test here."""
    async with api.session.get(f"{api.url}/events") as response:
        reply = await api.python("print('watched')")
        heard = b""
        async with asyncio.timeout(20):
            while reply["executionId"].encode() not in heard:
                heard += await response.content.readany()


@pytest.mark.timeout(300)
async def test_watchers_that_never_read_cost_nobody_anything(own_installation):
    async with DaemonProcess.running(own_installation) as daemon:
        await daemon.api.python("print('warm')")
        at_rest = await daemon.resting_bytes()
        async with AsyncExitStack() as watchers, daemon.api.as_caller(own_installation.keys["developer"]) as developer:
            for _ in range(WATCHERS):
                wire = await watchers.enter_async_context(Wire.to(daemon.api))
                await wire.send(request(daemon.api, "GET /events HTTP/1.1"))
            for number in range(40):
                await daemon.api.python(f"print({number})", check="off")
            assert (await developer.python("print('honest')"))["output"] == "honest\n"
            grown = daemon.peak_bytes() - at_rest
        assert grown < 150 * MIB, f"{grown / MIB:.0f} MiB"


async def test_questions_about_everything_keep_nobody_from_running(api, developer):
    a_year_ago = datetime.now(UTC) - timedelta(days=365)
    questions = [
        asyncio.create_task(api.get("/stats", params={"since": a_year_ago.isoformat()})) for _ in range(50)
    ] + [
        asyncio.create_task(api.get("/executions", params={"text": "nowhere at all", "limit": "500"}))
        for _ in range(50)
    ]
    replies = [await developer.python(f"print({number})") for number in range(5)]
    assert [reply["output"] for reply in replies] == [f"{number}\n" for number in range(5)]
    assert {status for status, _ in await asyncio.gather(*questions)} == {200}


async def test_guessing_codes_opens_nothing_and_keeps_nobody_out(api, installation):
    async with api.as_caller(None) as stranger:
        guesses = [stranger.post("/console/sessions", {"code": f"guess-{number}"}) for number in range(40)]
        answers = asyncio.gather(*guesses)
        _, made = await api.post("/console/codes", None)
        status, opened = await stranger.post("/console/sessions", {"code": made["code"]})
        assert (status, opened["role"]) == (201, "admin")
        assert {status for status, _ in await answers} == {401}


async def test_a_session_is_no_way_to_more_than_its_key(api, installation):
    async with api.as_caller(installation.keys["developer"]) as developer:
        _, opened = await developer.post("/console/sessions", {})
    async with api.as_caller(opened["token"]) as session:
        assert (await session.get("/config"))[0] == 403
        assert (await session.post("/console/codes", None))[0] == 403
        assert (await session.post("/console/sessions", {}))[0] == 403
        reply = await api.python("print('not yours')")
        assert (await session.get(f"/executions/{reply['executionId']}"))[0] == 404
        assert reply["executionId"] not in json.dumps((await session.get("/executions?limit=500"))[1])


async def test_what_is_almost_a_token_is_worth_nothing(api, installation):
    _, opened = await api.post("/console/sessions", {})
    token = opened["token"]
    for almost in (
        token[:-1],
        token + "x",
        token.upper(),
        token.removeprefix("console-"),
        "console-",
        f" {token[:-2]}",
    ):
        async with api.as_caller(almost) as stranger:
            assert (await stranger.get("/whoami"))[0] == 401, almost
    async with api.as_caller(token) as session:
        assert (await session.get("/whoami"))[0] == 200
