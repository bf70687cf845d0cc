"""What becomes of a program's files on the daemon's side: nothing that a supervisor says of them is trusted."""

import asyncio
import json
import struct

import pytest

from orchestrator.domain.errors import SandboxFault
from orchestrator.domain.execution import Check, Outcome
from orchestrator.domain.files import FileLimits, Place, Why
from orchestrator.domain.sandbox import Program
from orchestrator.engines.runner import session as session_module
from orchestrator.engines.runner.frames import FrameKind, encode
from orchestrator.engines.runner.handover import PAUSE_ABOVE_BYTES
from orchestrator.engines.runner.session import SupervisorSession
from tests.support.api import until
from tests.support.file_sink import MemorySink, pieces_of
from tests.support.samples import limits
from tests.unit.engines.runner.test_session import CHECKED, DONE, MISTAKES, MemoryLeash, Recorded, refuse

FEW = FileLimits(max_files=3, max_file_bytes=100, max_total_bytes=150)
PLACES = {Place.OUT: FEW, Place.WORKSPACE: FEW}
REPORT = encode(FrameKind.DONE, DONE)


def file(name, size, letter=b"o", unchanged=False):
    return encode(FrameKind.FILE, struct.pack(">c?Q", letter, unchanged, size) + name)


def content(data):
    return encode(FrameKind.CONTENT, data)


def left_out(name, why=b"l", letter=b"o", size=7):
    return encode(FrameKind.LEFT_OUT, struct.pack(">ccQ", letter, why, size) + name)


def end(**counts):
    return encode(FrameKind.HANDED_OVER, json.dumps({"out": 0, "files": 0} | counts).encode())


class Ran:
    """A program that runs, with a leash whose other end the test holds."""

    def __init__(self, places=PLACES, sink=None, check=Check.OFF):
        self.leash, self.sink = MemoryLeash(), MemorySink() if sink is None else sink
        self.session = SupervisorSession(self.leash, "sandbox", refuse)
        self._program = Program("import servers", limits(), check=check, hands_over=places)
        self.ended = 0

    async def begin(self, *frames):
        running = asyncio.create_task(
            self.session.run(self._program, lambda *seen: None, sink=self.sink, ended=self._count_end)
        )
        await asyncio.sleep(0)
        self.say(*frames)
        return running

    async def end(self, *frames):
        return await asyncio.wait_for(await self.begin(*frames), 10)

    def _count_end(self):
        self.ended += 1

    def say(self, *frames):
        for frame in frames:
            self.leash.took_stdout(frame)


@pytest.fixture
async def ran():
    return Ran()


async def test_files_reach_the_sink_and_run_returns_when_it_has_all(ran):
    await ran.session.bring("files/kept", pieces_of(b"12", b"3"))
    running = await ran.begin(REPORT, file(b"a/b", 5), content(b"he"), content(b"llo"), file(b"empty", 0))
    assert not (await asyncio.wait((running,), timeout=0.05))[0]
    assert ran.session.handing_over
    ran.say(file(b"kept", 3, b"f", unchanged=True), left_out(b"big"), end(out=30))
    assert (await running).outcome is Outcome.FAILED
    assert not ran.session.handing_over
    assert (ran.sink.out, ran.sink.workspace) == ({"a/b": b"hello", "empty": b""}, {"kept": None})
    assert ran.sink.left_out == {(Place.OUT, b"big"): (Why.TOO_LARGE, 7)}
    assert ran.sink.left_out_count == {Place.OUT: 30, Place.WORKSPACE: 0}


async def test_the_end_of_the_program_is_told_before_its_files_come(ran):
    running = await ran.begin()
    assert ran.ended == 0
    ran.say(REPORT)
    assert (ran.ended, running.done()) == (1, False)
    ran.say(file(b"a", 1), content(b"1"), end())
    await running
    assert ran.ended == 1


async def test_connections_end_with_the_program_and_not_with_its_files(ran, monkeypatch):
    monkeypatch.setattr("orchestrator.engines.runner.relay.CONNECTIONS_BURST", 1)
    accepted = []
    session = SupervisorSession(ran.leash, "sandbox", lambda sandbox_id: accepted.append(Recorded()) or accepted[-1])
    program = Program("", limits(), hands_over=PLACES)
    running = asyncio.create_task(session.run(program, lambda *seen: None, sink=ran.sink))
    await asyncio.sleep(0)
    connections = [encode(FrameKind.OPENED, struct.pack(">I", number)) for number in (1, 2, 3)]
    ran.say(*connections[:2], REPORT)
    await until(lambda: accepted[0].lost)
    ran.say(encode(FrameKind.BYTES, struct.pack(">I", 1) + b"late"), file(b"a", 0))  # it was closed meanwhile
    assert not (await asyncio.wait((running,), timeout=0.1))[0]
    assert len(accepted) == 1  # the second still waited for its turn
    ran.say(connections[2])
    assert ran.leash.hung_up
    assert ((await running).outcome, ran.sink.out) == (Outcome.FAILED, {"a": b""})


async def test_a_file_that_is_lost_on_its_way_is_left_out(ran):
    await ran.end(REPORT, file(b"a", 5), content(b"he"), left_out(b"a", b"o", size=5), file(b"b", 0), end(out=1))
    assert ran.sink.out == {"b": b""}
    assert ran.sink.reasons == {"a": Why.LOST}


async def test_names_as_long_as_a_supervisor_has_them_and_a_place_that_is_left_out_itself_are_taken(ran):
    longest = b"/".join([b"a" * 255] * 32)
    await ran.end(REPORT, file(longest, 0), left_out(b".", b"x", b"f"), left_out(longest, b"d"), end(out=1, files=1))
    assert ran.sink.out == {longest.decode(): b""}
    assert ran.sink.left_out == {(Place.WORKSPACE, b"."): (Why.NOT_A_FILE, 7), (Place.OUT, longest): (Why.TOO_DEEP, 7)}


async def test_without_a_sink_nothing_is_asked_for():
    leash = MemoryLeash()
    session = SupervisorSession(leash, "sandbox", refuse)
    running = asyncio.create_task(session.run(Program("", limits(), hands_over=PLACES), lambda *seen: None))
    await asyncio.sleep(0)
    assert leash.sent[5 + struct.calcsize(">dQQ?")] == 0
    leash.took_stdout(REPORT)
    assert (await asyncio.wait_for(running, 5)).outcome is Outcome.FAILED


async def test_a_sink_for_no_place_is_closed_at_once():
    ran = Ran(places={})
    await ran.end(REPORT)
    assert ran.sink.left_out_count == {}


@pytest.mark.parametrize(
    "frames",
    [
        [file(b"a", 101)],
        [file(b"a", 2**63)],
        [file(b"a", 100), content(bytes(100)), file(b"b", 51)],
        [*(file(b"%d" % number, 0) for number in range(4))],
        [file(b"a", 0), file(b"a", 0)],
        [file(b"../a", 0)],
        [file(b"/a", 0)],
        [file(b"a//b", 0)],
        [file(b"a\0b", 0)],
        [file(b"a" * 256, 0)],
        [file(b"a/" * 32 + b"a", 0)],
        [file(b"a", 0, letter=b"?")],
        [file(b"a", 3, b"f", unchanged=True)],
        [file(b"a", 3, b"o", unchanged=True)],
        [content(b"of nothing")],
        [file(b"a", 0), content(b"of an empty one")],
        [file(b"a", 3), content(b"1234")],
        [file(b"a", 3), content(b"")],
        [file(b"a", 3), file(b"b", 3)],
        [file(b"a", 3), end()],
        [file(b"a", 3), left_out(b"b", b"o")],
        [file(b"a", 3), left_out(b"a", b"l")],
        [left_out(b"a", b"o")],
        [left_out(b"a", b"?")],
        [left_out(b"../a")],
        [left_out(b"a" * 256)],
        [left_out(b"a/" * 32 + b"a")],
        [left_out(b"%d" % number) for number in range(21)],
        [left_out(b"a"), end()],
        [end(out=-1)],
        [end(out=1.5)],
        [end(out="1")],
        [end(elsewhere=1)],
        [encode(FrameKind.HANDED_OVER, b"{}")],
        [encode(FrameKind.HANDED_OVER, b"[")],
        [encode(FrameKind.STDOUT, b"late")],
        [REPORT],
    ],
)
async def test_whoever_breaks_the_rules_of_files_is_let_go_and_the_ending_stands(ran, frames):
    ending = await ran.end(REPORT, *frames)
    assert (ending.outcome, ran.leash.hung_up, ran.sink.left_out_count) == (Outcome.FAILED, True, None)


@pytest.mark.parametrize("frame", [file(b"a", 0), left_out(b"a"), end(), content(b"x")])
async def test_files_before_the_ending_break_the_protocol(ran, frame):
    with pytest.raises(SandboxFault, match="broke the protocol"):
        await ran.end(frame)


async def test_files_that_nobody_asked_for_break_the_protocol():
    leash = MemoryLeash()
    session = SupervisorSession(leash, "sandbox", refuse)
    running = asyncio.create_task(session.run(Program("", limits()), lambda *seen: None))
    await asyncio.sleep(0)
    leash.took_stdout(REPORT)
    leash.took_stdout(file(b"a", 0))
    assert leash.hung_up
    assert (await running).outcome is Outcome.FAILED


async def test_a_leash_that_breaks_in_the_middle_loses_what_was_not_whole_and_not_the_ending(ran):
    running = await ran.begin(REPORT, file(b"a", 1), content(b"a"), file(b"b", 2), content(b"b"))
    ran.leash.ended()
    assert (await asyncio.wait_for(running, 5)).outcome is Outcome.FAILED
    assert (ran.sink.out, ran.sink.left_out_count) == ({"a": b"a"}, None)


async def test_a_runner_that_fails_in_the_middle_does_not_change_the_ending(ran):
    ending = await ran.end(REPORT, file(b"a", 1), encode(FrameKind.FAULT, b"broken"))
    assert (ending.outcome, ran.sink.left_out_count) == (Outcome.FAILED, None)


async def test_a_handover_that_does_not_end_is_given_up(ran, monkeypatch):
    monkeypatch.setattr(session_module, "HANDOVER_SECONDS", 0.05)
    ending = await ran.end(REPORT, file(b"a", 0))
    assert (ending.outcome, ran.sink.out, ran.sink.left_out_count) == (Outcome.FAILED, {"a": b""}, None)


class Failing(MemorySink):
    async def end(self):
        raise OSError("no space left on the store's disk")


async def test_a_sink_that_fails_does_not_change_the_ending():
    ran = Ran(sink=Failing())
    ending = await ran.end(REPORT, file(b"a", 0), file(b"b", 0), end())
    assert (ending.outcome, ran.sink.left_out_count) == (Outcome.FAILED, None)


class Slow(MemorySink):
    def __init__(self):
        super().__init__()
        self.may_go_on = asyncio.Event()

    async def write(self, data):
        await self.may_go_on.wait()
        await super().write(data)


async def test_nothing_is_read_from_a_sandbox_while_the_sink_has_enough_to_do():
    size = 2 * PAUSE_ABOVE_BYTES
    ran = Ran({Place.OUT: FileLimits(1, size, size)}, Slow())
    running = await ran.begin(REPORT, file(b"a", size))
    sent = 0
    while not ran.leash.paused:
        ran.say(content(bytes(32 * 1024)))
        sent += 32 * 1024
    assert sent <= PAUSE_ABOVE_BYTES
    ran.sink.may_go_on.set()
    await until(lambda: not ran.leash.paused)
    ran.say(*(content(bytes(32 * 1024)) for _ in range((size - sent) // (32 * 1024))))
    ran.say(encode(FrameKind.HANDED_OVER, b'{"out": 0}'))
    await asyncio.wait_for(running, 5)
    assert len(ran.sink.out["a"]) == size


async def test_stop_ends_a_program_once_it_runs_and_as_long_as_it_does(ran):
    stop = encode(FrameKind.STOP)
    ran.session.stop()
    assert stop not in ran.leash.sent
    running = await ran.begin()
    ran.session.stop()
    assert ran.leash.sent.endswith(stop)
    cancelled = json.dumps(json.loads(DONE) | {"ending": "cancelled"}).encode()
    ran.say(encode(FrameKind.DONE, cancelled), end())
    assert (await running).outcome is Outcome.CANCELLED
    sent = ran.leash.sent
    ran.session.stop()
    assert ran.leash.sent == sent


class TestRejection:
    async def test_a_program_that_is_rejected_is_stopped_for_its_files(self):
        ran = Ran(check=Check.STRICT)
        running = await ran.begin(encode(FrameKind.CHECKED, CHECKED))
        assert ran.leash.sent.endswith(encode(FrameKind.STOP))
        ran.say(REPORT, file(b"a", 0), end())
        ending = await asyncio.wait_for(running, 5)
        assert (ending.outcome, ending.mistakes, ran.sink.out) == (Outcome.REJECTED, MISTAKES, {"a": b""})

    async def test_one_that_does_not_end_is_rejected_all_the_same(self, monkeypatch):
        monkeypatch.setattr(session_module, "REJECTION_SECONDS", 0.05)
        ran = Ran(check=Check.STRICT)
        ending = await ran.end(encode(FrameKind.CHECKED, CHECKED))
        assert (ending.outcome, ran.sink.left_out_count) == (Outcome.REJECTED, None)

    async def test_one_whose_sandbox_ends_is_rejected_all_the_same(self):
        ran = Ran(check=Check.STRICT)
        running = await ran.begin(encode(FrameKind.CHECKED, CHECKED))
        ran.leash.ended()
        assert (await asyncio.wait_for(running, 5)).outcome is Outcome.REJECTED


class TestBringing:
    async def test_large_pieces_are_cut_and_an_empty_file_is_sent_too(self, ran):
        await ran.session.bring("in/a", pieces_of(bytes(300_000)))
        await ran.session.bring("in/b", pieces_of())
        kinds, rest = [], ran.leash.sent
        while rest:
            kind, length = struct.unpack_from(">cI", rest)
            kinds.append((kind, length - 8))
            rest = rest[5 + length :]
        assert kinds == [(b"A", 256 * 1024), (b"A", 300_000 - 256 * 1024), (b"A", 0)]

    async def test_a_sandbox_without_room_is_told_while_more_is_brought(self, ran):
        async def pieces():
            yield b"first"
            ran.say(encode(FrameKind.FAULT, b"'in/a' does not fit"))
            yield b"second"

        with pytest.raises(SandboxFault, match="'in/a' does not fit"):
            await ran.session.bring("in/a", pieces())

    async def test_a_sandbox_without_room_is_told_at_the_run_at_the_latest(self, ran):
        await ran.session.bring("in/a", pieces_of(b"first"))
        ran.say(encode(FrameKind.FAULT, b"'in/a' does not fit"))
        with pytest.raises(SandboxFault, match="'in/a' does not fit"):
            await ran.end()

    async def test_a_file_is_brought_once(self, ran):
        await ran.session.bring("in/a", pieces_of(b"first"))
        with pytest.raises(ValueError, match="brought before"):
            await ran.session.bring("in/a", pieces_of(b"again"))
