"""The supervisor's door and the daemon's relay, joined by two pipes as they are by the engine."""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import socket
import struct
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from orchestrator.engines.runner.frames import FrameKind, RunnerFrameDecoder
from orchestrator.engines.runner.relay import Relay
from tests.unit.runner.supervised import RUNNER

sys.path.insert(0, str(RUNNER))

from supervision import frames
from supervision.door import MAX_CONNECTIONS, Door
from supervision.outbox import Outbox


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(data)


def keep(door: Door, outbox: Outbox, leash: int) -> None:
    """What a supervisor does with a door: waits, serves, obeys; until the leash ends."""
    decoder = frames.FrameDecoder()
    while True:
        watches = {fd: (events, act) for fd, events, act in door.watches()}
        poll = select.poll()
        for fd, (events, _) in watches.items():
            poll.register(fd, events)
        poll.register(leash, select.POLLIN)
        if not outbox.empty:
            poll.register(outbox.fd, select.POLLOUT)
        for fd, _ in poll.poll(1000):
            if fd in watches:
                watches[fd][1]()
            elif fd == leash:
                if not (received := os.read(leash, 65536)):
                    return
                for kind, payload in decoder.feed(received):
                    door.take(kind, payload)
        outbox.flush()


@asynccontextmanager
async def relayed(seen: list[FrameKind]) -> AsyncIterator[str]:
    """The door's name; what goes through ends in an Echo. Notes the frames that pass, both ways."""
    to_door, from_daemon = os.pipe()
    to_daemon, from_door = os.pipe()
    name = f"door-{secrets.token_hex(8)}"
    outbox = Outbox(from_door)
    door = Door(f"@{name}", outbox)
    loop = asyncio.get_running_loop()

    def send(data: bytes) -> None:
        seen.extend(frame.kind for frame in RunnerFrameDecoder().feed(data))
        os.write(from_daemon, data)

    relay, decoder = Relay(send, "sandbox", lambda sandbox_id: Echo()), RunnerFrameDecoder()

    def receive() -> None:
        for frame in decoder.feed(os.read(to_daemon, 65536)):
            seen.append(frame.kind)
            relay.take(frame)

    keeper = threading.Thread(target=keep, args=(door, outbox, to_door))
    keeper.start()
    loop.add_reader(to_daemon, receive)
    try:
        yield f"\0{name}"
    finally:
        loop.remove_reader(to_daemon)
        os.close(from_daemon)
        await asyncio.to_thread(keeper.join, 5)
        for fd in (to_door, to_daemon, from_door):
            os.close(fd)
        door._listener.close()
    assert not keeper.is_alive()


async def hang_up(writer: asyncio.StreamWriter, seen: list[FrameKind]) -> None:
    writer.close()
    async with asyncio.timeout(10):
        while FrameKind.FINISHED not in seen:
            await asyncio.sleep(0.01)


async def test_much_data_passes_both_ways_at_once():
    data, seen = os.urandom(1024 * 1024), list[FrameKind]()
    async with relayed(seen) as door:
        reader, writer = await asyncio.open_unix_connection(door)
        writer.write(data)
        assert await asyncio.wait_for(reader.readexactly(len(data)), 10) == data
        await hang_up(writer, seen)


async def test_a_small_exchange_costs_one_frame_each_way():
    seen: list[FrameKind] = []
    async with relayed(seen) as door:
        reader, writer = await asyncio.open_unix_connection(door)
        for _ in range(3):
            writer.write(b"question")
            assert await asyncio.wait_for(reader.readexactly(8), 10) == b"question"
        await hang_up(writer, seen)
    assert seen[0] == FrameKind.OPENED
    assert seen[1:7] == [FrameKind.BYTES] * 6


@pytest.fixture
def door():
    with open(os.devnull, "wb") as leash:
        name = f"door-{secrets.token_hex(8)}"
        door = Door(f"@{name}", Outbox(leash.fileno()))
        yield door, f"\0{name}"
        door._listener.close()


def numbered(number: int, data: bytes = b"") -> bytes:
    return struct.pack(">I", number) + data


def test_a_connection_that_was_closed_in_the_same_turn_is_let_be(door):
    """One look may find the leash and the connection ready; what the leash brings may close the connection."""
    door, name = door
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.connect(name)
        door._accept()
        theirs.sendall(b"unread")
        ((_, _, act),) = [watch for watch in door.watches() if watch[0] != door._listener.fileno()]
        door.take(frames.BYTES, numbered(1, b"all of it"))
        door.take(frames.FINISHED, numbered(1))
        assert door._connections == {}
        act()
        assert theirs.recv(100) == b"all of it"


def test_what_a_program_does_not_take_yet_waits_and_arrives_whole(door):
    door, name = door
    sent = os.urandom(1024 * 1024)
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.connect(name)
        door._accept()
        for start in range(0, len(sent), frames.MAX_DATA_BYTES):
            door.take(frames.BYTES, numbered(1, sent[start : start + frames.MAX_DATA_BYTES]))
        received = b""
        while door._connections[1].unwritten:
            received += theirs.recv(len(sent))
            ((events, act),) = [(events, act) for fd, events, act in door.watches() if fd == door._connections[1].fd]
            assert events == select.POLLIN | select.POLLOUT
            act()
        while len(received) < len(sent):
            received += theirs.recv(len(sent))
    assert received == sent


def test_a_full_leash_keeps_the_program_from_sending_more(door):
    door, name = door
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.connect(name)
        door._accept()
        theirs.sendall(b"more")
        assert len(list(door.watches())) == 2
        door._outbox._pending += bytes(1024 * 1024)
        assert list(door.watches()) == []


def test_more_connections_than_the_limit_wait_at_the_door(door):
    door, name = door
    theirs = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS)]
    for each in theirs:
        each.connect(name)
        door._accept()
    assert door._listener.fileno() not in [fd for fd, _, _ in door.watches()]
    theirs[0].close()
    next(act for fd, _, act in door.watches() if fd == door._connections[1].fd)()
    assert door._listener.fileno() in [fd for fd, _, _ in door.watches()]
    for each in theirs:
        each.close()
