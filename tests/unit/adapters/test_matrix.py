from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest
from aiohttp import web

from orchestrator.adapters import matrix
from orchestrator.adapters.matrix import MatrixHomeserver
from orchestrator.domain.errors import (
    ChatRateLimited,
    ChatRefused,
    ChatUnavailable,
    ChatUnconfirmed,
    InvalidArguments,
    RoomNotFound,
)
from orchestrator.service.chat_bodies import MessageBody
from tests.unit.adapters.homeserver import QUICK, ScriptedHomeserver, greets, hangs_up, refuses, says

SENT = says({"event_id": "$1"})
LIMITED = refuses(429, "M_LIMIT_EXCEEDED", retry_after_ms=10_500)


def event(number: int, **content: object) -> dict:
    body = {"msgtype": "m.text", "body": f"message {number}", **content}
    return {
        "event_id": f"${number}",
        "sender": "@ann:x",
        "type": "m.room.message",
        "content": body,
        "origin_server_ts": number * 1000,
    }


async def test_a_message_is_put_once_with_its_transaction_and_our_token():
    script = ScriptedHomeserver(SENT)
    async with script.running() as homeserver:
        assert await homeserver.send("!a/b:x", "hello", "t 1") == "$1"
    assert script.requests == ["PUT /_matrix/client/v3/rooms/%21a%2Fb%3Ax/send/m.room.message/t%201"]
    assert script.tokens == ["Bearer token"]


async def test_a_refused_connection_means_not_sent():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        homeserver = MatrixHomeserver(f"http://127.0.0.1:{closed.getsockname()[1]}", "token", QUICK)
        try:
            with pytest.raises(ChatUnavailable, match="no connection"):
                await homeserver.send("!a:x", "hello", "t")
        finally:
            await homeserver.close()


async def test_a_connection_that_breaks_is_tried_again_with_the_same_transaction():
    script = ScriptedHomeserver(hangs_up, SENT)
    async with script.running() as homeserver:
        assert await homeserver.send("!a:x", "hello", "t") == "$1"
    assert len(script.requests) == 2
    assert len(set(script.requests)) == 1


@pytest.mark.parametrize("answer", [hangs_up, refuses(500, "M_UNKNOWN"), says("Bad gateway", 502)])
async def test_no_usable_answer_means_that_it_may_have_been_sent(answer):
    script = ScriptedHomeserver(answer)
    async with script.running() as homeserver:
        with pytest.raises(ChatUnconfirmed):
            await homeserver.send("!a:x", "hello", "t")
    assert len(script.requests) == QUICK.attempts


async def test_an_answer_that_takes_too_long_means_that_it_may_have_been_sent():
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with ScriptedHomeserver(never).running(replace(QUICK, reply_seconds=0.1)) as homeserver:
        with pytest.raises(ChatUnconfirmed, match="took too long"):
            await homeserver.send("!a:x", "hello", "t")


@pytest.mark.parametrize("later", [LIMITED, refuses(403, "M_FORBIDDEN")])
async def test_what_fails_later_does_not_lift_the_doubt(later):
    async with ScriptedHomeserver(hangs_up, later).running() as homeserver:
        with pytest.raises(ChatUnconfirmed):
            await homeserver.send("!a:x", "hello", "t")


async def test_a_short_rate_limit_is_waited_for():
    script = ScriptedHomeserver(refuses(429, "M_LIMIT_EXCEEDED", retry_after_ms=20), SENT)
    async with script.running() as homeserver:
        assert await homeserver.send("!a:x", "hello", "t") == "$1"
    assert len(script.requests) == 2


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (LIMITED, 11),
        (says({"errcode": "M_LIMIT_EXCEEDED"}, 429, **{"Retry-After": "30"}), 30),
        (says("slow down", 429, **{"Retry-After": "30"}), 30),
    ],
)
async def test_a_long_rate_limit_is_told_at_once_with_its_time(answer, seconds):
    script = ScriptedHomeserver(answer)
    async with script.running() as homeserver:
        with pytest.raises(ChatRateLimited, match=f"Wait {seconds} s") as limited:
            await homeserver.send("!a:x", "hello", "t")
    assert limited.value.retry_after_seconds == seconds
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (refuses(403, "M_FORBIDDEN", "You may \x1b[1mnot."), ChatRefused, "You may ␛\\[1mnot.$"),
        (refuses(401, "M_UNKNOWN_TOKEN"), ChatRefused, "CODE_EXECUTOR_MATRIX_TOKEN"),
        (refuses(404, "M_NOT_FOUND"), RoomNotFound, "!a:x"),
        (refuses(413, "M_TOO_LARGE"), InvalidArguments, "Split"),
        (greets, ChatRefused, "does not speak Matrix"),
    ],
)
async def test_a_refusal_is_final_and_says_why(answer, kind, words):
    script = ScriptedHomeserver(answer)
    async with script.running() as homeserver:
        with pytest.raises(kind, match=words):
            await homeserver.send("!a:x", "hello", "t")
    assert len(script.requests) == 1


async def test_our_token_follows_no_redirect():
    elsewhere = ScriptedHomeserver(SENT)
    async with elsewhere.running() as other:
        moved = says({}, 302, Location=other._base)
        async with ScriptedHomeserver(moved).running() as homeserver:
            with pytest.raises(ChatRefused):
                await homeserver.send("!a:x", "hello", "t")
    assert elsewhere.requests == []


async def test_an_alias_is_asked_for_once():
    script = ScriptedHomeserver(says({"room_id": "!a:x"}))
    async with script.running() as homeserver:
        assert [await homeserver.room_id("#team:x") for _ in range(2)] == ["!a:x", "!a:x"]
        assert await homeserver.room_id("!b:x") == "!b:x"
    assert script.requests == ["GET /_matrix/client/v3/directory/room/%23team%3Ax"]


async def test_reading_is_tried_again_and_then_unavailable():
    script = ScriptedHomeserver(hangs_up)
    async with script.running() as homeserver:
        with pytest.raises(ChatUnavailable):
            await homeserver.members("!a:x")
    assert len(script.requests) == QUICK.attempts


def synced(*events: dict, limited: bool = False) -> dict:
    timeline = {"events": list(events), "limited": limited, "prev_batch": "p|1"}
    return {"next_batch": "n1", "rooms": {"join": {"!a:x": {"timeline": timeline}}}}


async def test_a_short_page_is_filled_until_the_homeserver_has_no_more():
    script = ScriptedHomeserver(
        says(synced(event(3), limited=True)),
        says({"chunk": [], "end": "e1"}),
        says({"chunk": [event(2)], "end": "e2"}),
        says({"chunk": []}),
    )
    async with script.running() as homeserver:
        page = await homeserver.newest("!a:x", 10, None)
    assert [message.id for message in page.messages] == ["$2", "$3"]
    assert (page.before, page.since) == (None, "n1")
    assert [query.get("from") for query in script.queries] == [None, "p|1", "e1", "e2"]


async def test_reading_back_from_since_carries_its_lower_bound_along():
    script = ScriptedHomeserver(says(synced(event(9), limited=True)), says({"chunk": [event(8)], "end": "e1"}))
    async with script.running() as homeserver:
        page = await homeserver.newest("!a:x", 1, "s|0")
        assert page.before is not None
        await homeserver.older("!a:x", 1, page.before)
    assert (script.queries[1]["from"], script.queries[1]["to"]) == ("p|1", "s|0")


async def test_only_text_that_can_be_shown_is_shown():
    redacted = {**event(1), "content": {}}
    nonsense = event(2, body=["not", "text"])
    emote = event(3, msgtype="m.emote", body="waves\x1b[0m")
    async with ScriptedHomeserver(says(synced(redacted, nonsense, emote))).running() as homeserver:
        page = await homeserver.newest("!a:x", 10, None)
    assert [(message.kind, message.text, message.sent_at) for message in page.messages] == [("emote", "waves␛[0m", 3.0)]


@pytest.mark.parametrize(("joined", "found"), [(["!a:x"], True), (["!b:x"], False)])
async def test_no_news_and_no_membership_are_told_apart(joined, found):
    script = ScriptedHomeserver(says({"next_batch": "n2"}), says({"joined_rooms": joined}))
    async with script.running() as homeserver:
        if found:
            assert (await homeserver.newest("!a:x", 10, "n1")).since == "n2"
        else:
            with pytest.raises(RoomNotFound, match="not a member"):
                await homeserver.newest("!a:x", 10, "n1")


async def test_each_sync_is_a_new_one_for_the_homeservers_cache():
    script = ScriptedHomeserver(says(synced()))
    async with script.running() as homeserver:
        for _ in range(2):
            await homeserver.newest("!a:x", 10, None)
    first, second = (query["filter"] for query in script.queries)
    assert first != second
    assert json.loads(first)["room"]["rooms"] == ["!a:x"]


async def test_members_have_names_that_are_safe_to_print():
    joined = {"@b:x": {"display_name": "B\x1b[31m"}, "@a:x": {"display_name": None}}
    async with ScriptedHomeserver(says({"joined": joined})).running() as homeserver:
        members = await homeserver.members("!a:x")
    assert [(member.id, member.name) for member in members] == [("@a:x", "@a:x"), ("@b:x", "B␛[31m")]


@pytest.mark.parametrize("when", [2**53 - 1, -5, "soon", None, True, 10**40])
async def test_a_message_from_a_strange_time_makes_no_room_unreadable(when):
    strange = {**event(1), "origin_server_ts": when}
    [message] = matrix._messages([strange])
    assert MessageBody.of(message).sent_at.startswith(("1970-01-01", "9999-12-31"))


async def test_no_part_of_a_message_carries_terminal_escapes_or_lines_of_its_own():
    odd = {**event(1, msgtype="m.\x1b[31mtext\nfake: line"), "sender": "@a\nb:x", "event_id": "$\x1b1"}
    [message] = matrix._messages([odd])
    assert (message.kind, message.sender, message.id) == ("␛[31mtext fake: line", "@a b:x", "$␛1")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b'{"retry_after_ms": Infinity}'),
        ({}, b'{"retry_after_ms": NaN}'),
        ({}, b'{"retry_after_ms": ' + b"9" * 400 + b"}"),
        ({"Retry-After": "9" * 5000}, b"{}"),
        ({"Retry-After": "soon"}, b'{"retry_after_ms": "soon"}'),
    ],
)
def test_a_rate_limit_without_a_usable_time_is_one_second(headers, body):
    with pytest.raises(ChatRateLimited) as limited:
        matrix._accepted(SimpleNamespace(status=429, headers=headers), body)
    assert limited.value.retry_after_seconds == 1
