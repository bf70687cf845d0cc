"""The slot's end of the relay and the daemon's, joined by two pipes as they are by the engine."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from orchestrator.engines.runner.frames import FrameKind, RunnerFrameDecoder
from orchestrator.engines.runner.relay import Relay
from tests.unit.runner.supervised import RUNNER

sys.path.insert(0, str(RUNNER))

from slotkeeping import wire
from slotkeeping.relay import Connection, LeashEnded
from slotkeeping.relay import Relay as SlotRelay


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(data)


@asynccontextmanager
async def relayed(seen: list[FrameKind]) -> AsyncIterator[int]:
    """The port on which the slot takes connections; they end in an Echo. Notes the frames that pass, both ways."""
    to_slot, from_daemon = os.pipe()
    to_daemon, from_slot = os.pipe()
    listener = socket.create_server(("127.0.0.1", 0))
    loop = asyncio.get_running_loop()

    def keep_slot() -> None:
        with suppress(LeashEnded):
            SlotRelay(listener, to_slot, from_slot).run()

    def send(data: bytes) -> None:
        seen.extend(frame.kind for frame in RunnerFrameDecoder().feed(data))
        os.write(from_daemon, data)

    relay, frames = Relay(send), RunnerFrameDecoder()
    relay.serve("sandbox", lambda sandbox_id: Echo())

    def receive() -> None:
        for frame in frames.feed(os.read(to_daemon, 65536)):
            seen.append(frame.kind)
            if frame.kind is not FrameKind.READY:
                relay.take(frame)

    keeper = threading.Thread(target=keep_slot)
    keeper.start()
    loop.add_reader(to_daemon, receive)
    try:
        yield listener.getsockname()[1]
    finally:
        loop.remove_reader(to_daemon)
        os.close(from_daemon)
        await asyncio.to_thread(keeper.join, 5)
        for fd in (to_slot, to_daemon, from_slot):
            os.close(fd)
        listener.close()
    assert not keeper.is_alive()


async def hang_up(writer: asyncio.StreamWriter, seen: list[FrameKind]) -> None:
    writer.close()
    async with asyncio.timeout(10):
        while FrameKind.FINISHED not in seen:
            await asyncio.sleep(0.01)


async def test_much_data_passes_both_ways_at_once():
    data, seen = os.urandom(1024 * 1024), list[FrameKind]()
    async with relayed(seen) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        assert await asyncio.wait_for(reader.readexactly(len(data)), 10) == data
        await hang_up(writer, seen)


async def test_a_small_exchange_costs_one_frame_each_way():
    seen: list[FrameKind] = []
    async with relayed(seen) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(b"question")
            assert await asyncio.wait_for(reader.readexactly(8), 10) == b"question"
        await hang_up(writer, seen)
    assert seen[:2] == [FrameKind.READY, FrameKind.OPENED]
    assert seen[2:8] == [FrameKind.BYTES] * 6


def test_a_connection_that_was_closed_in_the_same_round_is_let_be():
    """One look may find the leash and the connection ready; what the leash brings may close the connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as theirs,
        open(os.devnull, "rb") as leash_in,
        open(os.devnull, "wb") as leash_out,
    ):
        relay = SlotRelay(listener, leash_in.fileno(), leash_out.fileno())
        connection = relay._connections[1] = Connection(1, listener.accept()[0])
        connection.unwritten += b"rest"
        act = relay._serve(connection)
        relay._take(connection, wire.BYTES, b"of it")
        relay._take(connection, wire.FINISHED, b"")
        assert relay._connections == {}
        act(selectors.EVENT_READ | selectors.EVENT_WRITE)
        assert theirs.recv(100) == b"restof it"
