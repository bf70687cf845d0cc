import asyncio
import socket
import struct

import pytest
import uvloop

from orchestrator.engines.docker.attach import AttachedLeash
from orchestrator.engines.runner.frames import PROTOCOL, FrameKind, encode
from orchestrator.engines.runner.session import SupervisorSession

STDOUT = 1


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
