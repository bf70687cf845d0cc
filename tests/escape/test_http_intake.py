"""Callers and strangers who want the daemon to hold more than it should: connections, headers, bodies, replies."""

import asyncio
import io
import json
import re
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import pytest

from orchestrator.faces.http import connection
from tests.support.api import eventually, until
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation
from tests.support.mcp_clients import META, MODERN
from tests.support.wire import Wire, answers, length, request

MIB = 1024 * 1024
LARGE = 6_000_000
BODIES = ("/execute", "/mcp", "/chat/send")
HELLO = json.dumps({"code": "print('hello')", "language": "python"}).encode()
ELSEWHERE = "evil.example.com"
COLD = {"warm_floor": 0, "warm_ceiling": 0}
STRANGER = b"%s HTTP/1.1\r\nHost: localhost\r\n"
MANY_HEADERS = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 8000) for number in range(125))


@asynccontextmanager
async def wires(api, count):
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(Wire.to(api)) for _ in range(count)]


@asynccontextmanager
async def daemon_process(directory, **settings):
    async with DaemonProcess.running(Installation.create(directory, **COLD, **settings)) as daemon:
        yield daemon


async def answers_strangers(api):
    """New connections each time: it is strangers who are kept out if anybody is."""
    for path in ("/health", "/livez", "/readyz"):
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15)) as session:
            assert (await session.get(api.url + path)).status == 200


async def until_quiet(daemon):
    """Wait until the daemon has taken in whatever it takes of what was sent."""
    async with asyncio.timeout(30):
        seen = []
        while len(seen) < 10 or max(seen[-10:]) - min(seen[-10:]) > MIB:
            seen.append(daemon.resident_bytes())
            await asyncio.sleep(0.05)


# --- memory: what is sent and never finished ---

UNFINISHED = {
    "headers": STRANGER % b"GET /health" + MANY_HEADERS,
    "headers after a request": STRANGER % b"GET /health" + b"\r\n" + STRANGER % b"GET /health" + MANY_HEADERS,
    "a body without a key": STRANGER % b"POST /execute" + b"Content-Length: %d\r\n\r\n" % LARGE + b" " * MIB,
    "trailers": STRANGER % b"POST /execute" + b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\n" + MANY_HEADERS,
}


async def answered_within_seconds(api, seconds, key, host="localhost"):
    """How many of a hundred requests, sent at once on one connection, are answered in time."""
    port = int(api.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    own = f"Authorization: Bearer {key}\r\n" if key else ""
    writer.write(f"GET /livez HTTP/1.1\r\nHost: {host}\r\n{own}\r\n".encode() * 100)
    received = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while received.count(b"HTTP/1.1 ") < 100:
                received += await reader.read(65536)
    writer.close()
    return received.count(b"HTTP/1.1 421" if host == ELSEWHERE else b"HTTP/1.1 200")


async def test_a_strangers_requests_wait_and_a_callers_do_not(api, installation):
    assert await answered_within_seconds(api, 20, installation.keys["admin"]) == 100
    assert 20 <= await answered_within_seconds(api, 3, None) < 40


async def test_requests_for_another_host_wait_too_with_a_key_or_without(api, installation):
    for key in (None, installation.keys["admin"]):
        assert 20 <= await answered_within_seconds(api, 3, key, ELSEWHERE) < 40


@pytest.mark.parametrize("name", UNFINISHED)
async def test_200_strangers_who_send_a_megabyte_each_fill_no_memory_and_hold_up_nobody(tmp_path, name):
    async with daemon_process(tmp_path) as daemon:
        async with wires(daemon.api, 20) as strangers:  # what the first connections need is none of the attack's
            await asyncio.gather(*(stranger.press(STRANGER % b"GET /health") for stranger in strangers))
            await answers_strangers(daemon.api)
        before = await daemon.resting_bytes()
        async with wires(daemon.api, 200) as strangers:
            for stranger in strangers:
                stranger.writer.transport.pause_reading()
            await asyncio.gather(*(stranger.press(UNFINISHED[name]) for stranger in strangers))
            await answers_strangers(daemon.api)
            assert (await daemon.api.get("/whoami"))[0] == 200
            await until_quiet(daemon)
            assert daemon.peak_bytes() - before < 64 * MIB
        await answers_strangers(daemon.api)
        await until(lambda: daemon.resident_bytes() - before < 16 * MIB, seconds=30)


def large_body(api, path, size=LARGE):
    headers = [b"Content-Length: %d" % size, b"Accept: application/json, text/event-stream"]
    return request(api, f"POST {path} HTTP/1.1", *headers)


@pytest.mark.parametrize("path", BODIES)
async def test_60_unfinished_bodies_of_6_megabytes_fill_no_memory_and_hold_up_no_other_caller(tmp_path, path):
    place = Installation.create(tmp_path, **COLD)
    async with DaemonProcess.running(place) as daemon, daemon.api.as_caller(place.keys["developer"]) as other:
        assert await is_served(daemon.api, path)
        before = await daemon.resting_bytes()
        data = large_body(daemon.api, path) + b" " * (LARGE - 1)
        async with wires(daemon.api, 60) as senders:
            await asyncio.gather(*(sender.press(data) for sender in senders))
            await answers_strangers(daemon.api)
            assert await status_of(other, path, b" " * 500_000) == 400
            assert await status_of(daemon.api, path, b" ") == 400  # small ones need not wait
            assert daemon.peak_bytes() - before < 100 * MIB
        await eventually(lambda: is_served(daemon.api, path), seconds=30)  # all of them are gone
        await until(lambda: daemon.resident_bytes() - before < 24 * MIB, seconds=30)


async def is_served(api, path):
    """A whole body of the same size gets its answer: the control."""
    assert await status_of(api, path, b" " * LARGE) == 400
    return True


async def status_of(api, path, body):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with api.session.post(api.url + path, data=io.BytesIO(body), headers=headers) as response:
        return response.status


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("junk", [b"{}", b"[]", b'""', b"0"], ids=["objects", "arrays", "strings", "numbers"])
async def test_json_of_a_million_values_is_refused_before_it_is_parsed(values_daemon, path, junk):
    body = b'{"jsonrpc": "2.0", "id": 1, "code": [' + b",".join([junk] * 1_500_000) + b"]}"
    values_daemon.forget_peak()
    before = values_daemon.peak_bytes()
    for _ in range(2):
        assert await status_of(values_daemon.api, path, body) == 400
    assert values_daemon.peak_bytes() - before < 40 * MIB


@pytest.fixture(scope="module")
async def values_daemon(tmp_path_factory):
    async with daemon_process(tmp_path_factory.mktemp("values")) as daemon:
        yield daemon


async def test_code_that_looks_like_a_million_values_is_run(values_daemon):
    """The control of the test above."""
    code = f"# {'[1, 2, {}], ' * 60_000}\nprint('run')"
    assert (await values_daemon.api.python(code))["output"] == "run\n"


def message_of_mcp(api):
    """A program that waits, with text beside it that the SDK holds as 6 MB of bytes and 24 MB of wide characters."""
    arguments = {"code": "import signal; signal.pause()", "language": "python"}
    params = {"name": "execute_code", "arguments": arguments, "_meta": META | {"junk": "x" * 5_900_000 + "😀"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(message, ensure_ascii=False).encode()
    names = [b"MCP-Protocol-Version: " + MODERN.encode(), b"Mcp-Method: tools/call", b"Mcp-Name: execute_code"]
    return request(api, "POST /mcp HTTP/1.1", *names, length(body), b"Accept: */*", body=body)


async def test_large_messages_of_mcp_are_counted_until_they_are_answered(tmp_path):
    async with daemon_process(tmp_path) as daemon:
        before, message = daemon.resident_bytes(), message_of_mcp(daemon.api)
        async with wires(daemon.api, 40) as senders:
            await asyncio.gather(*(sender.press(message) for sender in senders))
            await eventually(lambda: something_runs(daemon.api), seconds=30)
            await answers_strangers(daemon.api)
            assert daemon.peak_bytes() - before < 250 * MIB


async def something_runs(api):
    _, listing = await api.get("/executions?state=running")
    return listing["executions"]


# --- time: what is sent slowly ---


async def test_headers_that_do_not_end_are_cut_off(tmp_path):
    place = Installation.create(tmp_path, **COLD, header_seconds=1)
    async with place.run() as api, wires(api, 3) as (silent, slow, second):
        await slow.send(STRANGER % b"GET /livez")
        await second.send(STRANGER % b"GET /livez" + b"\r\n")
        assert await second.status() == 200
        await second.send(b"G")
        assert await slow.status() == 408
        assert b"HTTP/1.1 408" in await second.rest()
        assert await is_answered(silent)  # the control: it took its time before the first byte


async def test_a_key_does_not_help_headers_that_do_not_end(tmp_path):
    async with Installation.create(tmp_path, **COLD, header_seconds=1).run() as api, Wire.to(api) as slow:
        await slow.send(request(api, "GET /whoami HTTP/1.1").removesuffix(b"\r\n"))
        assert await slow.status() == 408


async def test_a_stream_outlives_the_deadline_of_headers(tmp_path):
    """The control of the two tests above: a connection that serves a caller is left alone, whatever else is on it."""
    body = json.dumps({"code": "import time; time.sleep(2.5); print('late')", "language": "python"}).encode()
    async with Installation.create(tmp_path, **COLD, header_seconds=0.5).run() as api, Wire.to(api) as wire:
        await wire.send(request(api, "POST /execute HTTP/1.1", length(body), body=body) + b"GET /half HTTP/1.1\r\n")
        assert await wire.status(30) == 200


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_that_does_not_end_is_cut_off_and_gives_its_place_back(tmp_path, path):
    one_at_a_time = {"max_intake_bytes": MIB, "max_intake_bytes_per_caller": MIB}
    place = Installation.create(tmp_path, **COLD, body_seconds=5, **one_at_a_time)
    async with place.run() as api, Wire.to(api) as slow:
        await slow.send(large_body(api, path) + b" ")
        assert await slow.status() == 408
        assert await is_served(api, path)
        assert b'"code": "body_too_slow"' in await slow.rest()


# --- turns ---


async def test_one_who_waits_for_a_place_gets_it_when_another_body_is_complete(tmp_path):
    code = json.dumps({"code": "#" + "x" * 900_000 + "\nprint('my turn')", "language": "python"}).encode()
    place = Installation.create(tmp_path, **COLD, max_intake_bytes=MIB, max_intake_bytes_per_caller=MIB)
    async with place.run() as api, api.as_caller(place.keys["developer"]) as other:
        async with Wire.to(api) as first, Wire.to(other) as second:
            await first.send(large_body(api, "/execute"))
            await eventually(lambda: takes(api, LARGE))
            await second.send(request(other, "POST /execute HTTP/1.1", length(code)))
            answered = asyncio.create_task(second.status(60))
            pushed = asyncio.create_task(second.send(code))
            assert (await other.python("print('small')"))["output"] == "small\n"  # the control: no place is needed
            assert not answered.done()
            await first.send(b" " * LARGE)
            assert await first.status() == 400
            assert await answered == 200
            await pushed
        await eventually(lambda: takes(api, 0))


async def takes(api, expected):
    async with api.session.get(f"{api.url}/metrics") as response:
        found = re.search(r"^code_executor_intake_bytes (\S+)", await response.text(), re.MULTILINE)
    return float(found[1]) == expected


async def test_one_who_waits_too_long_for_a_place_is_told_when_to_come_back(tmp_path):
    one_at_a_time = {"max_intake_bytes": MIB, "max_intake_bytes_per_caller": MIB}
    place = Installation.create(tmp_path, **COLD, **one_at_a_time, body_seconds=4)
    async with place.run() as api, api.as_caller(place.keys["developer"]) as other:
        async with Wire.to(api) as holder:
            await holder.send(message_of_mcp(api))
            await eventually(lambda: something_runs(api), seconds=30)
            for path in BODIES:
                async with Wire.to(other) as waiting:
                    await waiting.send(large_body(other, path))
                    received = await waiting.rest(30)
                assert b"HTTP/1.1 429" in received
                assert b'"code": "intake_full"' in received
                assert b"Retry-After: 5" in received
        await eventually(lambda: takes(api, 0))
        assert await is_served(other, "/execute")  # the control


async def test_a_callers_waiting_bodies_are_few(tmp_path):
    one_at_a_time = {"max_intake_bytes": MIB, "max_intake_bytes_per_caller": MIB}
    async with Installation.create(tmp_path, **COLD, **one_at_a_time).run() as api, wires(api, 70) as senders:
        for sender in senders:
            await sender.send(large_body(api, "/execute"))
        assert 429 in [await sender.status() for sender in senders[-3:]]


# --- connections ---

FEW = {"max_connections": 16, "max_connections_per_address": 16}
FEW_OF_ONE_ADDRESS = {"max_connections": 64, "max_connections_per_address": 16}


each_limit = pytest.mark.parametrize("limits", [FEW, FEW_OF_ONE_ADDRESS], ids=["in all", "of one address"])


async def is_answered(wire):
    await wire.send(STRANGER % b"GET /livez" + b"\r\n")
    async with asyncio.timeout(15):
        return b" 200 OK" in await wire.reader.readuntil(b'"alive"}')


async def begin_to_serve(wire, api):
    """Send a caller's request without its body; the daemon has taken it up when it asks for the rest."""
    expect = (b"Expect: 100-continue", b"Connection: close")
    await wire.send(request(api, "POST /execute HTTP/1.1", length(HELLO), *expect))
    async with asyncio.timeout(15):
        return await wire.reader.readuntil(b"\r\n\r\n")


@each_limit
async def test_a_new_connection_takes_the_place_of_the_one_that_has_said_nothing_for_longest(tmp_path, limits):
    async with Installation.create(tmp_path, **COLD, **limits).run() as api, wires(api, 16) as idle:
        assert await is_answered(idle[0])  # so it is idle for a shorter time than the others
        await answers_strangers(api)
        assert await idle[1].rest() == b""
        assert await is_answered(idle[0])
        assert await is_answered(idle[15])


@each_limit
async def test_unfinished_requests_keep_nobody_out(tmp_path, limits):
    async with Installation.create(tmp_path, **COLD, **limits).run() as api, wires(api, 16) as unfinished:
        for wire in unfinished:
            await wire.send(STRANGER % b"GET /livez")
        await answers_strangers(api)
        assert (await api.python("print('served')"))["output"] == "served\n"


@each_limit
async def test_connections_that_serve_callers_are_kept_and_what_finds_no_room_is_told_so(tmp_path, limits):
    async with Installation.create(tmp_path, **COLD, **limits).run() as api, wires(api, 16) as serving:
        for wire in serving:
            assert b"100 Continue" in await begin_to_serve(wire, api)
        async with Wire.to(api) as refused:
            received = await refused.rest()
        assert b"HTTP/1.1 503" in received
        assert b'"code": "connections_full"' in received
        assert b"Retry-After: 5" in received
        await serving[0].send(HELLO)
        assert b"HTTP/1.1 200" in await serving[0].rest(30)
        await answers_strangers(api)  # the control: there is room again
        for wire in serving[1:]:
            await wire.send(HELLO)
        for wire in serving[1:]:
            assert await wire.status(60) == 200


async def test_a_caller_has_a_share_of_the_connections_and_another_has_its_own(tmp_path):
    share = {"max_connections_per_caller": 8, "max_running_per_caller": 1, "max_waiting_per_caller": 0}
    place = Installation.create(tmp_path, **COLD, **share)
    async with place.run() as api, api.as_caller(place.keys["developer"]) as other, wires(api, 8) as serving:
        for wire in serving:
            await begin_to_serve(wire, api)
        status, problem = await api.get("/whoami")
        assert (status, problem["code"]) == (429, "too_many_connections")
        assert (await other.get("/whoami"))[0] == 200
        await serving[0].send(HELLO)
        await serving[0].rest(30)
        assert (await api.get("/whoami"))[0] == 200


# --- replies that nobody reads ---


@pytest.fixture
def unpaced(monkeypatch):
    """Strangers' requests are answered at once, so that there are many answers to read."""
    monkeypatch.setattr(connection, "STRANGERS_PAUSE_SECONDS", 0)


@pytest.mark.usefixtures("unpaced")
async def test_a_stranger_who_reads_no_answers_is_cut_off(api):
    async with Wire.to(api) as stranger:
        stranger.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stranger.writer.transport.pause_reading()
        with pytest.raises(ConnectionError):
            await ask_on_and_on(stranger, api)


async def ask_on_and_on(stranger, api):
    async with asyncio.timeout(30):
        while True:
            await stranger.send((STRANGER % b"GET /nowhere" + b"\r\n") * 1000)
            await answers_strangers(api)


@pytest.mark.usefixtures("unpaced")
async def test_a_stranger_who_reads_the_answers_gets_them_all(api):
    """The control of the test above."""
    async with Wire.to(api) as stranger:
        sending = asyncio.create_task(stranger.press((STRANGER % b"GET /livez" + b"\r\n") * 3000, seconds=60))
        for _ in range(3000):
            await stranger.reader.readuntil(b'"alive"}')
        await sending


async def test_a_reply_that_nobody_reads_is_dropped_and_one_that_is_read_slowly_is_not(tmp_path):
    place = Installation.create(tmp_path, **COLD, max_output_bytes=10 * MIB, stall_seconds=3)
    async with place.run() as api:
        printed = await api.python(f"import sys; sys.stdout.write('x' * {9 * MIB})")
        whole = request(api, f"GET /executions/{printed['executionId']}/output HTTP/1.1", b"Connection: close")
        async with Wire.to(api) as unread, Wire.to(api) as slow:
            unread.writer.transport.pause_reading()
            await unread.send(whole)
            await slow.send(whole)
            received = 0
            while piece := await slow.reader.read(256 * 1024):
                received += len(piece)
                await asyncio.sleep(0.3)  # as slow as a reader may be, not to wait for something
            assert received > 9 * MIB
            unread.writer.transport.resume_reading()
            with suppress(ConnectionError):
                assert len(await unread.rest()) < 9 * MIB


async def test_unread_replies_are_dropped_when_they_are_too_large_together(tmp_path):
    place = Installation.create(tmp_path, **COLD, max_output_bytes=10 * MIB, max_unread_bytes=20 * MIB)
    async with place.run() as api:
        printed = await api.python(f"import sys; sys.stdout.write('x' * {9 * MIB})")
        whole = request(api, f"GET /executions/{printed['executionId']}/output HTTP/1.1", b"Connection: close")
        async with wires(api, 4) as unread:
            for wire in unread:
                # The kernel would take much of it otherwise, and how much is its own business.
                wire.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 * 1024)
                wire.writer.transport.pause_reading()
                await wire.send(whole)
            await eventually(lambda: has_connections(api, 3))  # two of them, and the one that asks
            unread[3].writer.transport.resume_reading()
            assert len(await unread[3].rest()) > 9 * MIB  # the newest is whole


async def has_connections(api, expected):
    async with api.session.get(f"{api.url}/metrics") as response:
        found = re.search(r"^code_executor_connections (\S+)", await response.text(), re.MULTILINE)
    return float(found[1]) == expected


# --- what is malformed or breaks off ---


@pytest.mark.parametrize("size", [10_000, 30_000])
async def test_headers_within_the_limit_are_read(api, size):
    """The control of the next test."""
    headers = [b"X-%d: %s" % (number, b"x" * 5000) for number in range(size // 5000)]
    assert await answers(api, request(api, "GET /whoami HTTP/1.1", *headers, b"Connection: close")) == [200]


@pytest.mark.parametrize("count", [7, 120])
async def test_headers_that_are_too_large_together_are_refused(api, count):
    headers = [b"X-%d: %s" % (number, b"x" * 5000) for number in range(count)]
    assert await answers(api, request(api, "GET /whoami HTTP/1.1", *headers, b"Connection: close")) in ([431], [])


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_that_turns_out_malformed_is_refused_at_once(api, path):
    async with Wire.to(api) as wire:
        chunked = (b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Accept: */*")
        await wire.send(request(api, f"POST {path} HTTP/1.1", *chunked))
        await wire.reader.readuntil(b"\r\n\r\n")
        await wire.send(b"5\r\nabcde\r\n")
        assert (await api.get("/livez"))[0] == 200
        await wire.send(b"zz\r\n" + STRANGER % b"GET /livez" + b"\r\n")
        received = await wire.rest()
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"400"]
    assert b"malformed_json" in received


BROKEN = [
    b"\x16\x03\x01\x02\x00\x01",
    b"GET / HTTP/9.9\r\n\r\n",
    STRANGER % b"GET /health" + b"X: a\x00b\r\n\r\n",
    STRANGER % b"POST /execute" + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    STRANGER % b"POST /execute" + b"Content-Length: 100\r\n\r\nhalf",
    STRANGER % b"GET /health",
    STRANGER % b"GET /health" + MANY_HEADERS,
    STRANGER % b"GET /health" + b"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n" + b"x" * 1000,
    STRANGER % b"CONNECT localhost:1" + b"\r\n" + b"x" * 1000,
]


async def test_strangers_and_clients_that_break_off_cannot_flush_the_log(tmp_path):
    place = Installation.create(tmp_path, **COLD)
    log = place.settings.data_dir.with_name("daemon.log")
    async with DaemonProcess.running(place) as daemon:
        started = request(daemon.api, "POST /execute HTTP/1.1", b"Content-Length: 1000", body=b"half")
        to_mcp = request(daemon.api, "POST /mcp HTTP/1.1", b"Content-Length: 1000", b"Accept: */*", body=b"half")
        before = len(log.read_text())
        for _ in range(20):
            async with wires(daemon.api, len(BROKEN) + 2) as broken:
                for wire, data in zip(broken, [*BROKEN, started, to_mcp], strict=True):
                    await wire.press(data)
                assert (await daemon.api.get("/livez"))[0] == 200
        assert (await daemon.api.get("/nowhere"))[0] == 404
        added = log.read_text()[before:]
    assert "Traceback" not in added
    assert "crashed" not in added
    told = [json.loads(line) for line in added.splitlines()]
    assert [line["event"] for line in told if line["level"] != "info"] == ["connections.closed"]  # the control
    assert len(added) < 2000


# --- executions that are begun and given up ---

SLEEP = json.dumps({"code": "import time; time.sleep(5)", "language": "python"}).encode()


async def give_up_again_and_again(api, seconds):
    """Begin an execution, leave at once, and do it again."""
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        async with Wire.to(api) as wire:
            await wire.send(request(api, "POST /execute HTTP/1.1", length(SLEEP), body=SLEEP))
            await asyncio.sleep(0.02)  # as soon as it may have begun, not to wait for something


async def test_executions_that_are_begun_and_given_up_wait_for_each_other(tmp_path):
    place = Installation.create(tmp_path)
    async with place.run() as admin, admin.as_caller(place.keys["developer"]) as developer:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(give_up_again_and_again(developer, 5) for _ in range(6)))
        elapsed = asyncio.get_running_loop().time() - began
        _, listed = await admin.get("/executions", params={"caller": "code-executor-developer", "limit": 500})
        begun = [each for each in listed["executions"] if each["outcome"] == "cancelled"]
        assert 10 < len(begun) < 60 + 25 * elapsed  # of a thousand and more
        assert (await admin.python("print('beside')"))["output"] == "beside\n"
