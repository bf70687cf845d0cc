"""What every engine relies on: a leash that carries frames, and the relay of one sandbox's connections."""

import asyncio
import json
import struct

import pytest

from orchestrator.domain.errors import SandboxFault
from orchestrator.domain.execution import Check, Mistake, Outcome
from orchestrator.domain.sandbox import Program
from orchestrator.engines.runner.frames import PROTOCOL, Frame, FrameKind, FramingBroken, encode
from orchestrator.engines.runner.leash import Leash
from orchestrator.engines.runner.relay import MAX_CONNECTIONS, WINDOW_BYTES, Relay
from orchestrator.engines.runner.session import SupervisorSession
from tests.support.api import until
from tests.support.samples import limits


class MemoryLeash(Leash):
    def __init__(self):
        super().__init__()
        self.sent = b""
        self.hung_up = False
        self.paused = False
        self.may_send = asyncio.Event()
        self.may_send.set()

    def send(self, data):
        self.sent += data

    async def drain(self):
        await self.may_send.wait()

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def hang_up(self):
        self.hung_up = True


def refuse(sandbox_id):
    raise AssertionError("nothing connects here")


@pytest.fixture
async def leash():
    return MemoryLeash()


async def test_a_runner_that_says_the_right_version_is_ready(leash):
    session = SupervisorSession(leash, "sandbox", refuse)
    leash.took_stdout(encode(FrameKind.READY, PROTOCOL))
    await session.until_ready()


async def test_a_runner_of_another_version_is_told_how_to_be_replaced(leash):
    session = SupervisorSession(leash, "sandbox", refuse)
    leash.took_stdout(encode(FrameKind.READY, b"0"))
    with pytest.raises(SandboxFault, match="make image"):
        await session.until_ready()


async def test_a_runner_that_breaks_the_protocol_is_let_go(leash):
    session = SupervisorSession(leash, "sandbox", refuse)
    leash.took_stdout(b"?" * 64)
    assert leash.hung_up
    assert not session.alive
    with pytest.raises(SandboxFault, match="broke the protocol"):
        await session.until_ready()


async def test_a_runner_that_ends_says_its_last_complaint(leash):
    session = SupervisorSession(leash, "sandbox", refuse)
    leash.took_stderr(b"first\nthe last line\n")
    leash.ended()
    with pytest.raises(SandboxFault, match="without a result: the last line"):
        await session.until_ready()


CHECKED = b'{"mistakes": [{"line": 2, "column": 5, "message": "no \\u001b[31m"}]}'
DONE = (
    b'{"ending": "exited", "exit_code": 1, "signal": null, "cpu_seconds": 0, "max_rss_bytes": 0, '
    b'"stdout_dropped_bytes": 0, "stderr_dropped_bytes": 0}'
)
MISTAKES = (Mistake(2, 5, "no ␛[31m"),)


async def checked(leash, check, *frames, code="import servers"):
    """Run a program whose runner answers with the frames; return its ending and whether it passed the check."""
    session, passed = SupervisorSession(leash, "sandbox", refuse), []
    running = asyncio.ensure_future(
        session.run(Program(code, limits(), check=check), lambda stream, data: None, lambda: passed.append(True))
    )
    await asyncio.sleep(0)
    for frame in frames:
        leash.took_stdout(frame)
    return await running, bool(passed)


async def test_a_program_with_mistakes_is_rejected_before_it_has_ended(leash):
    ending, passed = await checked(leash, Check.STRICT, encode(FrameKind.CHECKED, CHECKED))
    assert (ending.outcome, ending.mistakes, passed) == (Outcome.REJECTED, MISTAKES, False)


async def test_a_program_with_mistakes_goes_on_if_it_was_only_to_be_warned(leash):
    frames = encode(FrameKind.CHECKED, CHECKED), encode(FrameKind.DONE, DONE)
    ending, passed = await checked(leash, Check.WARN, *frames)
    assert (ending.outcome, ending.mistakes, passed) == (Outcome.FAILED, MISTAKES, True)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"Traceback",
        b"{}",
        b'{"mistakes": 5}',
        b'{"mistakes": [5]}',
        b'{"mistakes": [{"line": -1, "column": 1, "message": "x"}]}',
        b'{"mistakes": [{"line": 1, "column": 1, "message": {}}]}',
        b"[" * 60_000,
    ],
)
async def test_a_check_that_cannot_be_understood_rejects_nothing(leash, said):
    frames = encode(FrameKind.CHECKED, said), encode(FrameKind.DONE, DONE)
    ending, passed = await checked(leash, Check.STRICT, *frames)
    assert (ending.outcome, ending.mistakes, passed) == (Outcome.FAILED, (), True)


async def test_what_a_check_says_is_bounded(leash):
    many = [{"line": 1, "column": 1, "message": "x" * 2000}] * 25
    ending, _ = await checked(leash, Check.STRICT, encode(FrameKind.CHECKED, json.dumps({"mistakes": many}).encode()))
    assert [len(mistake.message) for mistake in ending.mistakes] == [700] * 8


@pytest.mark.parametrize(("check", "code"), [(Check.OFF, "import servers"), (Check.STRICT, "print(1)")])
async def test_a_verdict_that_nobody_asked_for_breaks_the_protocol(leash, check, code):
    with pytest.raises(SandboxFault, match="broke the protocol"):
        await checked(leash, check, encode(FrameKind.CHECKED, CHECKED), code=code)


async def test_a_second_verdict_breaks_the_protocol(leash):
    twice = encode(FrameKind.CHECKED, b"{}"), encode(FrameKind.CHECKED, CHECKED)
    with pytest.raises(SandboxFault, match="broke the protocol"):
        await checked(leash, Check.STRICT, *twice)


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


async def test_a_connection_is_known_to_be_of_the_sandbox_whose_leash_it_came_over(leash):
    accepted = {}

    def accept(sandbox_id):
        return accepted.setdefault(sandbox_id, Recorded())

    first, second = MemoryLeash(), MemoryLeash()
    sessions = [SupervisorSession(first, "first", accept), SupervisorSession(second, "second", accept)]
    for each in (first, second):
        each.took_stdout(encode(FrameKind.OPENED, struct.pack(">I", 1)))
    assert {name: of.transport.get_extra_info("sandbox_id") for name, of in accepted.items()} == {
        "first": "first",
        "second": "second",
    }
    sessions[0].close()
    await asyncio.sleep(0)
    assert {name: of.lost for name, of in accepted.items()} == {"first": True, "second": False}


async def test_a_supervisor_may_not_open_the_same_connection_twice_nor_too_many():
    relay = Relay(lambda data: None, "sandbox", lambda sandbox_id: Recorded())
    relay.take(opened(1))
    with pytest.raises(FramingBroken):
        relay.take(opened(1))
    for number in range(2, MAX_CONNECTIONS + 1):
        relay.take(opened(number))
    with pytest.raises(FramingBroken):
        relay.take(opened(MAX_CONNECTIONS + 1))


async def test_connections_without_end_are_taken_up_at_their_pace_and_those_given_up_before_never(monkeypatch):
    monkeypatch.setattr("orchestrator.engines.runner.relay.CONNECTIONS_BURST", 3)
    monkeypatch.setattr("orchestrator.engines.runner.relay.CONNECTIONS_PAUSE_SECONDS", 0.05)
    accepted = []

    def accept(sandbox_id):
        accepted.append(Recorded())
        return accepted[-1]

    relay = Relay(lambda data: None, "sandbox", accept)
    for number in range(1, 201):
        relay.take(opened(number))
        if number != 100:
            relay.take(Frame(FrameKind.FINISHED, struct.pack(">I", number)))
    assert len(accepted) == 3
    await until(lambda: len(accepted) == 4)  # the one that was not given up, and at the next turn
    await asyncio.sleep(0.2)
    assert len(accepted) == 4
    relay.lose_all()
    assert relay._connections == relay._waiting == {}


async def test_what_a_connection_sends_before_its_turn_waits_for_it(monkeypatch):
    monkeypatch.setattr("orchestrator.engines.runner.relay.CONNECTIONS_BURST", 1)
    monkeypatch.setattr("orchestrator.engines.runner.relay.CONNECTIONS_PAUSE_SECONDS", 0.05)
    got = []

    class Reading(Recorded):
        def data_received(self, data):
            got.append(data)

    relay = Relay(lambda data: None, "sandbox", lambda sandbox_id: Reading())
    for number in (1, 2):
        relay.take(opened(number))
        relay.take(Frame(FrameKind.BYTES, struct.pack(">I", number) + b"%d" % number))
    assert got == [b"1"]
    await until(lambda: got == [b"1", b"2"])
    relay.take(opened(3))
    relay.take(Frame(FrameKind.BYTES, struct.pack(">I", 3) + bytes(WINDOW_BYTES)))
    with pytest.raises(FramingBroken):  # and no more than its window
        relay.take(Frame(FrameKind.BYTES, struct.pack(">I", 3) + b"x"))
