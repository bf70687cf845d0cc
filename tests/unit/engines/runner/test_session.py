"""What every engine relies on: a leash that carries frames, and the relay of one sandbox's connections."""

import asyncio
import struct

import pytest

from orchestrator.domain.errors import SandboxFault
from orchestrator.engines.runner.frames import PROTOCOL, Frame, FrameKind, encode
from orchestrator.engines.runner.leash import Leash
from orchestrator.engines.runner.relay import Relay
from orchestrator.engines.runner.session import SupervisorSession


class MemoryLeash(Leash):
    def __init__(self):
        super().__init__()
        self.sent = b""
        self.hung_up = False

    def send(self, data):
        self.sent += data

    def hang_up(self):
        self.hung_up = True


@pytest.fixture
async def leash():
    return MemoryLeash()


async def test_a_runner_that_says_the_right_version_is_ready(leash):
    session = SupervisorSession(leash)
    leash.took_stdout(encode(FrameKind.READY, PROTOCOL))
    await session.until_ready()


async def test_a_runner_of_another_version_is_told_how_to_be_replaced(leash):
    session = SupervisorSession(leash)
    leash.took_stdout(encode(FrameKind.READY, b"0"))
    with pytest.raises(SandboxFault, match="make image"):
        await session.until_ready()


async def test_a_runner_that_breaks_the_protocol_is_let_go(leash):
    session = SupervisorSession(leash)
    leash.took_stdout(b"?" * 64)
    assert leash.hung_up
    assert not session.alive
    with pytest.raises(SandboxFault, match="broke the protocol"):
        await session.until_ready()


async def test_a_runner_that_ends_says_its_last_complaint(leash):
    session = SupervisorSession(leash)
    leash.took_stderr(b"first\nthe last line\n")
    leash.ended()
    with pytest.raises(SandboxFault, match="without a result: the last line"):
        await session.until_ready()


class Recorded(asyncio.Protocol):
    def __init__(self):
        self.transport = None
        self.lost = False

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.lost = True


def opened(number):
    return Frame(FrameKind.OPENED, struct.pack(">I", number))


async def test_a_connection_is_known_to_be_of_the_sandbox_that_is_served():
    relay, accepted = Relay(lambda data: None), []

    def accept(sandbox_id):
        accepted.append(Recorded())
        return accepted[-1]

    relay.serve("first", accept)
    relay.take(opened(1))
    relay.stop_serving()
    await asyncio.sleep(0)
    relay.serve("second", accept)
    relay.take(opened(2))
    assert [protocol.transport.get_extra_info("sandbox_id") for protocol in accepted] == ["first", "second"]
    assert [protocol.lost for protocol in accepted] == [True, False]


async def test_between_two_sandboxes_nothing_is_accepted():
    sent = []
    relay = Relay(sent.append)
    relay.serve("first", lambda sandbox_id: Recorded())
    relay.stop_serving()
    relay.take(opened(7))
    assert sent == [encode(FrameKind.FINISHED, struct.pack(">I", 7))]
