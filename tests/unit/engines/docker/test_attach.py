import asyncio
import socket
import struct

import pytest
import uvloop

from orchestrator.domain.errors import SandboxFault
from orchestrator.engines.docker.attach import AttachedLeash
from orchestrator.engines.runner.frames import PROTOCOL, FrameKind, encode
from orchestrator.engines.runner.session import SupervisorSession

STDOUT = 1
PIECE_BYTES = 256 * 1024


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_runner_that_was_ready_before_we_listened_is_heard(new_loop):
    """uvloop reads at once what has arrived, before whoever asked for the connection goes on."""

    async def until_ready():
        ours, engines = socket.socketpair()
        with engines:
            frame = encode(FrameKind.READY, PROTOCOL)
            engines.sendall(struct.pack(">BxxxI", STDOUT, len(frame)) + frame)
            leash = AttachedLeash()
            session = SupervisorSession(leash, "sandbox", lambda sandbox_id: asyncio.Protocol())
            await leash.adopt(ours)
            await asyncio.wait_for(session.until_ready(), 5)
            session.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(until_ready())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_is_brought_waits_for_a_sandbox_that_takes_nothing(new_loop):
    async def bring():
        ours, engines = socket.socketpair()
        engines.setblocking(False)
        asked = []

        async def pieces():
            for number in range(64):
                asked.append(number)
                yield bytes(PIECE_BYTES)

        leash = AttachedLeash()
        session = SupervisorSession(leash, "sandbox", lambda sandbox_id: asyncio.Protocol())
        await leash.adopt(ours)
        bringing = asyncio.create_task(session.bring("in/large", pieces()))
        before = -1
        while before != len(asked):  # as long as there is progress
            before = len(asked)
            await asyncio.wait((bringing,), timeout=0.2)
        assert len(asked) * PIECE_BYTES < 3 * 1024 * 1024, "with what the sockets themselves hold"
        loop, received = asyncio.get_running_loop(), 0
        while not bringing.done():
            received += len(await loop.sock_recv(engines, 1024 * 1024))
        await bringing
        assert len(asked) == 64
        session.close()
        engines.close()
        with pytest.raises(SandboxFault):
            await asyncio.wait_for(session.bring("in/later", pieces()), 5)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(bring())
