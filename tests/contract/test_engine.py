"""One suite for the engine in memory, which the unit tests rely on, and the real one."""

import asyncio
import secrets
from dataclasses import replace

import pytest

from bench.testbed.engine import engine_is_there
from orchestrator.daemon import build_engine
from orchestrator.domain.errors import SandboxFault
from orchestrator.domain.execution import Check, Language, Outcome, Recipe, Stream
from orchestrator.domain.files import FileLimits, Place, Why
from orchestrator.domain.sandbox import Program, SandboxSpec, Verdict
from tests.support.api import until
from tests.support.fake_engine import (
    CALL_THE_GATEWAY,
    CHANGE_THE_WORKSPACE,
    COPY_THE_INPUTS,
    EXIT_3,
    FLOOD,
    FOREVER,
    HELLO,
    IMPORT_NO_TOOL,
    LEAVE_50_FILES,
    LEAVE_A_FILE,
    LEAVE_A_FILE_THEN_EAT_MEMORY,
    LEAVE_A_FILE_THEN_FAIL,
    LEAVE_A_FILE_THEN_FLOOD,
    LEAVE_A_FILE_THEN_GO_ON,
    LEAVE_A_FILE_THEN_IMPORT_NO_TOOL,
    LEAVE_MORE_THAN_FITS,
    ONE_SERVER,
    PRINT_TOO_MUCH_THEN_EXIT_3,
    READ_WHAT_IS_GIVEN,
    FakeEngine,
)
from tests.support.file_sink import MemorySink, pieces_of
from tests.support.installation import Installation
from tests.support.samples import limits


@pytest.fixture(params=["memory", "docker"], scope="module")
async def engine(request, tmp_path_factory):
    if request.param == "memory":
        yield FakeEngine()
        return
    if not engine_is_there():
        pytest.fail("No container engine answers: 'make test' starts one, or start yours first.")
    settings = Installation.create(tmp_path_factory.mktemp("contract")).settings
    real = build_engine(settings, owner=f"contract-{secrets.token_hex(4)}")
    await real.prepare()
    yield real
    for left in await real.list_owned():
        await real.remove(left.id)
    await real.close()


@pytest.fixture
async def sandbox(engine):
    sandbox = await engine.create_sandbox(spec(), refuse)
    yield sandbox
    await sandbox.destroy()


def refuse(sandbox_id: str) -> asyncio.Protocol:
    return asyncio.Protocol()


def spec() -> SandboxSpec:
    return SandboxSpec(Recipe(Language.PYTHON), limits(), "contract", lifetime_seconds=90)


def collector():
    seen = {Stream.STDOUT: b"", Stream.STDERR: b""}

    def receive(stream, data):
        seen[stream] += data

    return seen, receive


async def owned_ids(engine):
    return {container.id for container in await engine.list_owned()}


async def test_a_program_completes_with_its_output(sandbox):
    seen, receive = collector()
    ending = await sandbox.run(Program(HELLO, limits()), receive)
    assert (ending.outcome, ending.exit_code, seen[Stream.STDOUT]) == (Outcome.COMPLETED, 0, b"hello\n")


async def test_a_failing_program_ends_with_its_exit_code_and_both_streams(sandbox):
    seen, receive = collector()
    ending = await sandbox.run(Program(EXIT_3, limits()), receive)
    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, 3)
    assert seen == {Stream.STDOUT: b"out\n", Stream.STDERR: b"err\n"}


async def test_an_endless_program_ends_at_its_timeout_with_what_it_printed(sandbox):
    seen, receive = collector()
    ending = await sandbox.run(Program(FOREVER, limits(timeout_seconds=5)), receive)
    assert (ending.outcome, seen[Stream.STDOUT]) == (Outcome.TIMED_OUT, b"begun\n")


async def test_a_program_finds_the_files_of_its_sandbox_and_its_environment(engine):
    sandbox = await engine.create_sandbox(replace(spec(), files={"given/file.txt": "file é"}), refuse)
    seen, receive = collector()
    ending = await sandbox.run(Program(READ_WHAT_IS_GIVEN, limits(), {"GIVEN": "a=b"}), receive)
    await sandbox.destroy()
    assert (ending.outcome, seen[Stream.STDOUT].decode()) == (Outcome.COMPLETED, "file é a=b\n")


async def test_what_a_program_prints_beyond_the_limit_is_counted_and_dropped_and_the_program_goes_on(sandbox):
    seen, receive = collector()
    ending = await sandbox.run(Program(PRINT_TOO_MUCH_THEN_EXIT_3, limits()), receive)
    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, 3)
    kept = len(seen[Stream.STDOUT])
    assert (kept <= 102_400, kept + ending.stdout_dropped_bytes >= 200_000) == (True, True)


@pytest.mark.parametrize(
    ("check", "outcome", "told"),
    [
        (Check.STRICT, Outcome.REJECTED, ["There is no server `nowhere`. Did you mean `somewhere`?"]),
        (Check.WARN, Outcome.FAILED, ["There is no server `nowhere`. Did you mean `somewhere`?"]),
        (Check.OFF, Outcome.FAILED, []),
    ],
)
async def test_a_program_that_surely_fails_is_rejected_explained_or_left_alone(engine, check, outcome, told):
    sandbox = await engine.create_sandbox(replace(spec(), files=ONE_SERVER), refuse)
    passed: list[bool] = []
    program = Program(IMPORT_NO_TOOL, limits(), check=check)
    ending = await sandbox.run(program, collector()[1], lambda: passed.append(True))
    await sandbox.destroy()
    assert (ending.outcome, [mistake.message for mistake in ending.mistakes]) == (outcome, told)
    assert not (passed and outcome is Outcome.REJECTED)


async def test_a_program_that_floods_a_stream_is_ended(sandbox):
    seen, receive = collector()
    ending = await sandbox.run(Program(FLOOD, limits()), receive)
    assert ending.outcome is Outcome.OUTPUT_LIMIT
    assert limits().max_output_bytes - 500 < len(seen[Stream.STDOUT]) <= limits().max_output_bytes


async def test_a_sandbox_that_has_preloaded_runs_its_program(sandbox):
    await sandbox.preload()
    seen, receive = collector()
    await sandbox.run(Program(HELLO, limits()), receive)
    assert seen[Stream.STDOUT] == b"hello\n"


async def test_what_runs_is_listed_as_owned_until_it_is_destroyed(engine):
    sandbox = await engine.create_sandbox(spec(), refuse)
    assert sandbox.alive
    assert sandbox.id in await owned_ids(engine)
    await sandbox.destroy()
    assert not sandbox.alive
    assert sandbox.id not in await owned_ids(engine)


async def test_sandboxes_at_the_same_time_and_after_each_other_are_different_ones(engine):
    together = [await engine.create_sandbox(spec(), refuse) for _ in range(2)]
    for sandbox in together:
        await sandbox.destroy()
    later = await engine.create_sandbox(spec(), refuse)
    await later.destroy()
    assert len({sandbox.id for sandbox in (*together, later)}) == 3


async def test_destroying_in_the_middle_of_a_program_ends_it(engine):
    sandbox = await engine.create_sandbox(spec(), refuse)
    seen, receive = collector()
    running = asyncio.ensure_future(sandbox.run(Program(FOREVER, limits(timeout_seconds=60)), receive))
    await until(lambda: seen[Stream.STDOUT])
    running.cancel()
    await sandbox.destroy()
    assert sandbox.id not in await owned_ids(engine)


async def test_destroying_twice_and_removing_the_unknown_do_no_harm(engine):
    sandbox = await engine.create_sandbox(spec(), refuse)
    await sandbox.destroy()
    await sandbox.destroy()
    await engine.remove("0" * 64)


async def test_what_was_removed_from_outside_is_no_longer_alive(engine):
    sandbox = await engine.create_sandbox(spec(), refuse)
    await engine.remove(sandbox.id)
    await until(lambda: not sandbox.alive)
    await sandbox.destroy()


async def test_a_connection_to_the_gateways_port_is_accepted_as_this_sandboxs(engine):
    accepted: list[str] = []

    def accept(sandbox_id: str) -> asyncio.Protocol:
        accepted.append(sandbox_id)
        return Greeter()

    first, second = [await engine.create_sandbox(spec(), accept) for _ in range(2)]
    for sandbox in (second, first):
        seen, receive = collector()
        ending = await sandbox.run(Program(CALL_THE_GATEWAY, limits()), receive)
        assert (ending.outcome, seen[Stream.STDOUT]) == (Outcome.COMPLETED, b"greeted\n")
        await sandbox.destroy()
    assert accepted == [second.id, first.id]


async def test_it_describes_itself_and_finds_nothing_wrong(engine):
    findings = await engine.describe()
    assert findings
    assert [finding for finding in findings if finding.verdict is Verdict.FAILED] == []
    # What a host may lack without being wrong.
    lacking = {finding.check for finding in findings if finding.verdict is Verdict.WARNING}
    assert lacking <= {"users", "mandatory access control"}


PLENTY = FileLimits(max_files=100, max_file_bytes=16 * 1024**2, max_total_bytes=64 * 1024**2)
FILES = {Place.OUT: PLENTY, Place.WORKSPACE: PLENTY}


async def run_with_files(sandbox, code, places=FILES, timeout_seconds=30, check=Check.OFF):
    """Return the ending, what was printed, and the sink with what was left."""
    sink, (seen, receive) = MemorySink(), collector()
    program = Program(code, limits(timeout_seconds), check=check, hands_over=places)
    ending = await sandbox.run(program, receive, sink=sink)
    return ending, seen[Stream.STDOUT].decode(), sink


async def test_a_program_that_leaves_nothing_hands_over_nothing(sandbox):
    ending, _, sink = await run_with_files(sandbox, HELLO)
    assert (ending.outcome, sink.files, sink.left_out) == (Outcome.COMPLETED, {}, {})
    assert sink.left_out_count == {Place.OUT: 0, Place.WORKSPACE: 0}


async def test_what_is_brought_is_found_and_what_is_left_is_handed_over_byte_by_byte(sandbox):
    brought = {"a.bin": bytes(range(256)) * 4096, "empty": b"", "größe/Ω/€.txt": b"text"}
    for name, content in brought.items():
        await sandbox.bring(f"in/{name}", pieces_of(content[:1000], content[1000:]))
    ending, _, sink = await run_with_files(sandbox, COPY_THE_INPUTS)
    assert (ending.outcome, sink.out, sink.workspace) == (Outcome.COMPLETED, brought, {})


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (LEAVE_A_FILE, Outcome.COMPLETED),
        (LEAVE_A_FILE_THEN_FAIL, Outcome.FAILED),
        (LEAVE_A_FILE_THEN_GO_ON, Outcome.TIMED_OUT),
        (LEAVE_A_FILE_THEN_FLOOD, Outcome.OUTPUT_LIMIT),
        (LEAVE_A_FILE_THEN_EAT_MEMORY, Outcome.OUT_OF_MEMORY),
    ],
    ids=lambda value: value if isinstance(value, Outcome) else "",
)
async def test_files_are_handed_over_at_every_ending(sandbox, code, outcome):
    timeout_seconds = 5 if outcome is Outcome.TIMED_OUT else 30
    ending, _, sink = await run_with_files(sandbox, code, timeout_seconds=timeout_seconds)
    assert (ending.outcome, sink.out) == (outcome, {"left.txt": b"left"})
    assert sink.left_out_count == {Place.OUT: 0, Place.WORKSPACE: 0}


async def test_files_of_a_program_that_is_rejected_are_handed_over(engine):
    sandbox = await engine.create_sandbox(replace(spec(), files=ONE_SERVER), refuse)
    ending, _, sink = await run_with_files(sandbox, LEAVE_A_FILE_THEN_IMPORT_NO_TOOL, check=Check.STRICT)
    await sandbox.destroy()
    assert (ending.outcome, [mistake.line for mistake in ending.mistakes]) == (Outcome.REJECTED, [2])
    assert sink.out == {"left.txt": b"left"}


async def test_the_end_of_a_program_is_told_once_before_the_first_of_its_files(sandbox):
    sink = MemorySink()
    told: list[bool] = []
    program = Program(LEAVE_A_FILE, limits(), hands_over=FILES)
    await sandbox.run(program, collector()[1], sink=sink, ended=lambda: told.append(not sink.out))
    assert (told, sink.out) == ([True], {"left.txt": b"left"})


async def test_a_program_that_is_stopped_ends_as_cancelled_with_its_output_and_its_files(sandbox):
    sink, (seen, receive) = MemorySink(), collector()
    program = Program(LEAVE_A_FILE_THEN_GO_ON, limits(timeout_seconds=60), hands_over=FILES)
    sandbox.stop()  # without a program this does nothing
    running = asyncio.ensure_future(sandbox.run(program, receive, sink=sink))
    await until(lambda: seen[Stream.STDOUT])
    assert not sandbox.handing_over
    sandbox.stop()
    ending = await asyncio.wait_for(running, 30)
    assert (ending.outcome, seen[Stream.STDOUT], sink.out) == (Outcome.CANCELLED, b"begun\n", {"left.txt": b"left"})


async def test_a_workspace_comes_back_with_what_changed_and_says_what_did_not(sandbox):
    for name, content in {"count": b"1", "old": b"x", "deep/same": bytes(100_000)}.items():
        await sandbox.bring(f"files/{name}", pieces_of(content))
    ending, printed, sink = await run_with_files(sandbox, CHANGE_THE_WORKSPACE)
    assert (ending.outcome, printed) == (Outcome.COMPLETED, "2\n")
    assert (sink.workspace, sink.out) == ({"count": b"2", "deep/same": None}, {})


async def test_the_folder_of_a_workspace_is_there_when_nothing_was_in_it(sandbox):
    _, printed, sink = await run_with_files(sandbox, CHANGE_THE_WORKSPACE)
    assert (printed, sink.workspace) == ("1\n", {"count": b"1"})


async def test_what_is_over_a_limit_is_named_with_the_reason(sandbox):
    places = {Place.OUT: FileLimits(max_files=10, max_file_bytes=100, max_total_bytes=100)}
    _, _, sink = await run_with_files(sandbox, LEAVE_MORE_THAN_FITS, places)
    assert sink.out == {"a": b"x" * 10, "d": b"x" * 20}
    assert sink.reasons == {"b": Why.TOO_LARGE, "c": Why.NO_ROOM, "link": Why.NOT_A_FILE}
    assert sink.left_out_count == {Place.OUT: 3}


async def test_of_too_many_files_the_first_are_handed_over_and_the_others_counted(sandbox):
    places = {Place.OUT: FileLimits(max_files=5, max_file_bytes=100, max_total_bytes=100)}
    _, _, sink = await run_with_files(sandbox, LEAVE_50_FILES, places)
    assert list(sink.out) == ["00", "01", "02", "03", "04"]
    assert sink.reasons == {f"{number:02}": Why.TOO_MANY for number in range(5, 25)}
    assert sink.left_out_count == {Place.OUT: 45}


async def test_more_than_the_sandbox_has_room_for_is_a_fault_that_says_so(engine):
    bounds = replace(limits(), workspace_bytes=4 * 1024**2)
    sandbox = await engine.create_sandbox(replace(spec(), limits=bounds), refuse)
    with pytest.raises(SandboxFault, match="'in/large' does not fit into the room that the workspace has"):  # noqa: PT012
        await sandbox.bring("in/large", pieces_of(*[bytes(1024**2)] * 5))
        await sandbox.run(Program(HELLO, limits()), collector()[1])
    await sandbox.destroy()


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(b"greeted\n")
        transport.close()
