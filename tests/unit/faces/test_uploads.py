"""How many files are taken in at once, how large, and how slowly."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol

from orchestrator.domain.errors import BodyTooSlow, FileTooLarge, IntakeFull, InvalidRequest
from orchestrator.faces.uploads import AT_ONCE, AT_ONCE_PER_CALLER, Uploads


class Request:
    """What is asked of a request."""

    def __init__(self, content_length: int | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.content_length = content_length
        protocol = BaseProtocol(loop)
        protocol.connection_made(asyncio.Transport())
        self.content = StreamReader(protocol, 2**16, loop=loop)


def uploads(**changed: Any) -> Uploads:
    return Uploads(**{"max_bytes": 100, "piece_seconds": 5} | changed)


async def test_the_pieces_come_as_they_were_sent():
    request, room = Request(), uploads()
    request.content.feed_data(b"one")
    with room.one(request, "caller") as pieces:
        assert await anext(pieces) == b"one"
        assert room.under_way == 1
        request.content.feed_data(b"two")
        request.content.feed_eof()
        assert [piece async for piece in pieces] == [b"two"]
    assert room.under_way == 0


async def test_what_says_that_it_is_too_large_is_not_read():
    with pytest.raises(FileTooLarge, match="at most 100 bytes; this has 101"), uploads().one(Request(101), "caller"):
        pass
    with uploads().one(Request(100), "caller"):
        pass


async def test_a_caller_who_sends_many_leaves_places_to_the_others():
    room = uploads()
    with ExitStack() as sending:
        for _ in range(AT_ONCE_PER_CALLER):
            sending.enter_context(room.one(Request(), "greedy"))
        with pytest.raises(IntakeFull, match="already") as refused, room.one(Request(), "greedy"):
            pass
        assert refused.value.retry_after_seconds
        with room.one(Request(), "other"):
            pass
    with room.one(Request(), "greedy"):
        pass


async def test_there_are_so_many_places_in_all():
    room = uploads()
    with ExitStack() as sending:
        for number in range(AT_ONCE):
            sending.enter_context(room.one(Request(), f"caller {number}"))
        with pytest.raises(IntakeFull, match="Too many files"), room.one(Request(), "late"):
            pass


async def test_who_stops_sending_is_sent_away_and_leaves_its_place():
    request, room = Request(), uploads(piece_seconds=0.02)
    request.content.feed_data(b"x" * 90)
    with pytest.raises(BodyTooSlow, match="90 bytes arrived"), room.one(request, "caller") as pieces:
        async for _ in pieces:
            pass
    assert room.under_way == 0


async def test_who_sends_a_little_again_and_again_is_sent_away_too():
    request, room = Request(), uploads(piece_seconds=0.1)

    async def trickle() -> None:
        while True:
            request.content.feed_data(b"x")
            await asyncio.sleep(0.01)  # as slow as the sender is, not to wait for something

    sender = asyncio.create_task(trickle())
    async with asyncio.timeout(10):
        with pytest.raises(BodyTooSlow), room.one(request, "caller") as pieces:
            async for _ in pieces:
                pass
    sender.cancel()


async def test_a_body_that_is_framed_wrongly_is_told():
    request = Request()
    request.content.set_exception(web.RequestPayloadError("broken"))
    with pytest.raises(InvalidRequest, match="framed"), uploads().one(request, "caller") as pieces:
        await anext(pieces)
