import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orchestrator.domain.errors import LimitExceeded, ToolUnavailable
from orchestrator.domain.json_text import JsonObject
from orchestrator.domain.upstream import UpstreamState
from orchestrator.upstreams.entries import StdioServer
from orchestrator.upstreams.stdio import StdioTransport
from orchestrator.upstreams.transport import Alerts
from tests.support import upstream_stdio
from tests.support.api import eventually, until
from tests.support.upstreams import (
    problem,
    running,
    status,
    text_of,
    tool_names,
    until_connected,
    until_down,
)

MIB = 1024 * 1024
PROGRAM = str(Path(upstream_stdio.__file__))


def program(*args, **env):
    return StdioServer("own", sys.executable, (PROGRAM, *args), {"PATH": os.environ["PATH"], **env})


@pytest.fixture
async def upstreams():
    async with running(program()) as upstreams:
        await until_connected(upstreams, "own")
        yield upstreams


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_tools_are_listed_and_called_concurrently(upstreams):
    assert tool_names(upstreams, "own") == upstream_stdio.TOOLS
    results = await asyncio.gather(*(upstreams.call("own", "echo", {"n": n}, 5) for n in range(50)))
    assert [text_of(result) for result in results] == [f'{{"n": {n}}}' for n in range(50)]


async def test_the_program_sees_its_own_environment_only(monkeypatch):
    monkeypatch.setenv("CODE_EXECUTOR_KEY", "secret")
    async with running(program(WANTED="1")) as upstreams:
        await until_connected(upstreams, "own")
        seen = json.loads(text_of(await upstreams.call("own", "environment", {}, 5)))
    assert seen["WANTED"] == "1"
    assert "CODE_EXECUTOR_KEY" not in seen


async def test_noise_on_stdout_is_skipped_and_logged_once_without_its_words():
    entry = StdioServer("own", sys.executable, (PROGRAM, "noisy"), {}, secrets=frozenset({"hunter2-hunter2"}))
    with capture_logs() as logs:
        async with running(entry) as upstreams:
            await until_connected(upstreams, "own")
            assert text_of(await upstreams.call("own", "echo", {}, 5)) == "{}"
            await until(lambda: any(line["event"] == "upstream.stderr" for line in logs))
    assert [line["event"] for line in logs].count("upstream.noise_on_stdout") == 1
    assert "starting up" not in str(logs)
    assert "a secret on stderr: ***" in str(logs)
    assert "hunter2" not in str(logs)


# Like Python's SDK, which takes CR for the end of a line too.
READS_ANY_LINES = f"import io, sys; sys.stdin = io.TextIOWrapper(sys.stdin.buffer); exec(open({PROGRAM!r}).read())"


@pytest.mark.parametrize("ending", [b"\r", b"\n", b"\r\n"])
async def test_no_ending_of_a_line_in_arguments_begins_a_message_of_its_own(ending):
    injected = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"injected"}}'
    arguments = JsonObject(b'{"a":' + ending + injected + ending + b"}")
    async with running(StdioServer("own", sys.executable, ("-c", READS_ANY_LINES), {})) as upstreams:
        await until_connected(upstreams, "own")
        result = await upstreams.call("own", "echo", arguments, 5)
        assert json.loads(text_of(result)) == {"a": json.loads(injected)}
        assert text_of(await upstreams.call("own", "cancelled", {}, 5)) == "[]"


READS_ONE_LINE = "import sys, signal; sys.stdin.readline(); print('{}', flush=True); signal.pause()"


async def test_messages_to_a_process_that_does_not_read_do_not_pile_up():
    entry = StdioServer("own", sys.executable, ("-c", READS_ONE_LINE), {})
    transport = StdioTransport(entry, Alerts(relist=lambda: None, lost=lambda _: None), 1_000_000)
    await transport.open()
    try:
        await transport.tell({"jsonrpc": "2.0", "method": "first"})
        buffer = transport._process.stdin.transport
        for _ in range(8):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await transport.request("tools/call", {"arguments": {"text": "x" * MIB}})
        for _ in range(8):  # those of the calls that were given up wait in vain as well
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await transport.tell({"jsonrpc": "2.0", "method": "small"})
        assert MIB // 2 < buffer.get_write_buffer_size() < MIB + 200
    finally:
        await transport.close()


async def test_a_huge_result_is_refused_and_the_next_call_answers(upstreams):
    with pytest.raises(LimitExceeded, match="own/huge is larger than"):
        await upstreams.call("own", "huge", {"bytes": 50 * 1024 * 1024}, 30)
    assert text_of(await upstreams.call("own", "echo", {}, 5)) == "{}"


async def test_a_malformed_answer_fails_its_call_at_once(upstreams):
    with pytest.raises(ToolUnavailable, match="not JSON-RPC"):
        await upstreams.call("own", "malformed", {}, 30)
    assert text_of(await upstreams.call("own", "batch", {}, 5)) == "batched"


async def test_a_call_that_is_given_up_is_cancelled_at_the_server(upstreams):
    with pytest.raises(ToolUnavailable, match="did not answer within"):
        await upstreams.call("own", "wait", {}, 0.1)

    async def cancelled():
        return json.loads(text_of(await upstreams.call("own", "cancelled", {}, 5)))

    await eventually(cancelled)


async def test_a_process_that_dies_in_a_call_fails_it_at_once_and_is_started_again(upstreams):
    waiting = asyncio.create_task(upstreams.call("own", "wait", {}, 60))
    with pytest.raises(ToolUnavailable, match="ended by SIGKILL"):
        await upstreams.call("own", "die", {}, 60)
    with pytest.raises(ToolUnavailable, match="ended by SIGKILL"):
        await waiting
    assert tool_names(upstreams, "own") == upstream_stdio.TOOLS
    await until_connected(upstreams, "own")
    assert text_of(await upstreams.call("own", "echo", {}, 5)) == "{}"


async def test_the_process_and_what_it_started_are_gone_when_we_close():
    async with running(program()) as upstreams:
        await until_connected(upstreams, "own")
        pids = json.loads(text_of(await upstreams.call("own", "child", {}, 5)))
        assert all(alive(pid) for pid in pids.values())
    assert not alive(pids["pid"])
    await until(lambda: not alive(pids["child"]))


async def test_what_a_process_left_behind_is_gone_when_it_is_started_again(upstreams):
    pids = json.loads(text_of(await upstreams.call("own", "child", {}, 5)))
    with pytest.raises(ToolUnavailable):
        await upstreams.call("own", "die", {}, 5)
    await until(lambda: not alive(pids["child"]))


async def test_a_command_that_is_not_there_is_named_as_the_problem():
    async with running(StdioServer("own", "no-such-command", (), {})) as upstreams:
        await until_down(upstreams, "own")
        assert "was not found" in problem(upstreams, "own")


async def test_a_program_that_ends_at_once_is_down_with_its_status():
    async with running(StdioServer("own", sys.executable, ("-c", "raise SystemExit(7)"), {})) as upstreams:
        await until_down(upstreams, "own")
        assert "ended with status 7" in problem(upstreams, "own")


async def test_a_program_that_ignores_every_request_to_end_is_killed():
    stubborn = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"sys.argv = ['x']; exec(open({PROGRAM!r}).read()); signal.pause()"
    )
    async with running(StdioServer("own", sys.executable, ("-c", stubborn), {"PATH": "/usr/bin:/bin"})) as upstreams:
        await until_connected(upstreams, "own")
        pid = json.loads(text_of(await upstreams.call("own", "child", {}, 5)))["pid"]
    assert not alive(pid)


async def test_a_server_that_was_removed_takes_its_process_with_it(upstreams):
    pids = json.loads(text_of(await upstreams.call("own", "child", {}, 5)))
    await upstreams.reconfigure([])
    assert not alive(pids["pid"])
    assert upstreams.tools() == {}


async def test_a_process_is_still_there_after_many_calls(upstreams):
    for n in range(100):
        await upstreams.call("own", "echo", {"n": n}, 5)
    assert status(upstreams, "own").state is UpstreamState.CONNECTED
