"""One connection, on a wire that a test holds: what it takes in, and how it ends."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from orchestrator.faces.http.connection import Connection
from orchestrator.faces.http.connections import Connections
from tests.support.api import until
from tests.unit.faces.http.test_connections import connections

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


class FakeWire(asyncio.Transport):
    """The socket's end, which keeps what it is given until a test reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = bytearray()
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unsent += data

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """What is unsent is still to be sent, so that nothing ends yet."""

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Scene:
    def __init__(self, room: Connections) -> None:
        self.room = room
        self.wire = FakeWire()
        self.connection = Connection(room, web.Server(self._answer))
        self.connection.connection_made(self.wire)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        return web.Response(body=await request.read())

    async def answered(self) -> None:
        await until(lambda: b"HTTP/1.1 200 OK" in self.wire.unsent and self.connection._answered)

    async def keep_waiting(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def scene():
    scene = Scene(connections(stall_seconds=0.05, header_seconds=60, unidentified_bytes=10_000, header_bytes=1_000))
    yield scene
    scene.connection.cut()


async def test_one_that_aiohttp_has_closed_can_still_be_cut(scene):
    scene.wire.write(b"unread")
    scene.connection.force_close()
    assert scene.connection.unread_bytes == 6
    scene.connection.cut()
    assert (scene.wire.is_aborted, len(scene.room)) == (True, 0)


async def test_one_that_aiohttp_has_closed_does_not_stay_open_for_a_reader_who_never_reads(scene):
    scene.wire.write(b"unread")
    scene.connection.force_close()
    await until(lambda: scene.wire.is_aborted)


async def test_one_that_aiohttp_has_closed_is_left_alone_while_its_reader_reads():
    scene = Scene(connections(stall_seconds=0.4, header_seconds=60, unidentified_bytes=10_000, header_bytes=1_000))
    scene.wire.write(b"unread" * 100)
    scene.connection.force_close()
    for _ in range(12):
        await asyncio.sleep(0.05)  # as slow as a reader may be, not to wait for something
        del scene.wire.unsent[:6]
    assert not scene.wire.is_aborted
    scene.connection.cut()


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD + b"Content-Length: 2\r\n\r\n", b"{}"],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n", b"0\r\n\r\n"],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"],
    ],
)
async def test_a_request_that_is_answered_leaves_no_deadline(scene, pieces):
    for piece in pieces:
        scene.connection.data_received(piece)
        await scene.keep_waiting()
    await scene.answered()
    await scene.keep_waiting()
    assert scene.connection._deadline is None


async def test_headers_that_are_begun_after_an_answer_have_a_deadline(scene):
    scene.connection.data_received(HEAD + b"Content-Length: 0\r\n\r\n")
    await scene.answered()
    scene.connection.data_received(b"GET / HT")
    assert scene.connection._deadline is not None
