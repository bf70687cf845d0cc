"""Callers that speak HTTP and MCP as no client library would."""

import asyncio
import io
import json
import zlib
from contextlib import AsyncExitStack

import pytest

from bench.testbed.engine import sandboxes_of
from tests.support.api import eventually, until
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation
from tests.support.mcp_clients import META, MODERN
from tests.support.programs import held
from tests.support.wire import Wire, answers, length, request

MIB = 1024 * 1024
HELLO = json.dumps({"code": "print('hello')", "language": "python"}).encode()
PUBLIC = ("health", "livez", "readyz")
SMUGGLED = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_an_ordinary_request_written_by_hand_is_answered(api):
    """The control of every test here."""
    assert await answers(
        api, request(api, "POST /execute HTTP/1.1", length(HELLO), b"Connection: close", body=HELLO)
    ) == [200]
    assert await answers(api, request(api, "GET /livez HTTP/1.0")) == [200]


# --- what a request says about its length ---

LENGTHS = {
    "two lengths that differ": [b"Content-Length: 0", b"Content-Length: 60"],
    "a length and chunks": [b"Content-Length: 60", b"Transfer-Encoding: chunked"],
    "chunks and a length": [b"Transfer-Encoding: chunked", b"Content-Length: 60"],
    "a list of lengths": [b"Content-Length: 60, 60"],
    "a negative length": [b"Content-Length: -1"],
    "a length with a sign": [b"Content-Length: +60"],
    "a length in hexadecimal": [b"Content-Length: 0x3c"],
    "a length with an underscore": [b"Content-Length: 6_0"],
    "a length beyond 64 bits": [b"Content-Length: 99999999999999999999999"],
    "an empty length": [b"Content-Length:"],
    "chunks that are not last": [b"Transfer-Encoding: chunked, identity"],
    "an unknown coding": [b"Transfer-Encoding: xchunked"],
    "chunks twice": [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
    "a space before the colon": [b"Content-Length : 60"],
    "a folded header": [b"Content-Length:\r\n 60"],
}


@pytest.mark.parametrize("name", LENGTHS)
async def test_a_request_of_doubtful_length_is_refused_and_smuggles_nothing(api, name):
    assert await answers(api, request(api, "POST /execute HTTP/1.1", *LENGTHS[name], body=SMUGGLED)) == [400]


@pytest.mark.parametrize(
    "chunk", [b"-1\r\n", b"0x5\r\n", b"5 5\r\n", b"ffffffffffffffffff\r\n", b"zz\r\n", b"5\n", b"3\r\nabcdef\r\n"]
)
async def test_a_malformed_chunk_is_refused_and_smuggles_nothing(api, chunk):
    data = request(api, "POST /execute HTTP/1.1", b"Transfer-Encoding: chunked", body=chunk + SMUGGLED)
    (status,) = await answers(api, data)
    assert status == 400


# --- too much ---


async def test_a_chunked_body_without_end_is_refused_after_a_bounded_part_of_it(api):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    async with Wire.to(api) as wire:
        await wire.send(request(api, "POST /execute HTTP/1.1", b"Transfer-Encoding: chunked"))
        answered = asyncio.create_task(wire.status(60))
        sent = await _until_answered(wire, chunk, answered)
        assert await answered == 413
    assert 6 * MIB < sent < 48 * MIB


async def _until_answered(wire, chunk, answered):
    sent = 0
    while not answered.done() and sent < 512 * MIB:
        try:
            await wire.send(chunk)
        except ConnectionError:
            return sent
        sent += len(chunk)
        await asyncio.sleep(0)
    return sent


DEEP = {
    "an array": b"[" * 500_000,
    "an object": b'{"code":' * 100_000,
    "closed": b"[" * 200_000 + b"]" * 200_000,
    "as code": b'{"code": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
}


@pytest.mark.parametrize("path", ["/execute", "/mcp", "/chat/send"])
@pytest.mark.parametrize("name", DEEP)
async def test_deep_json_is_refused(api, path, name):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with api.session.post(api.url + path, data=DEEP[name], headers=headers) as response:
        assert response.status in (400, 422), await response.text()


@pytest.mark.parametrize("path", ["/execute", "/chat/send"])
async def test_a_refusal_is_short_however_much_was_sent(api, path):
    document = json.dumps({"x" * (MIB // 2): 1, **{f"name {number}": 1 for number in range(1000)}}).encode()
    headers = {"Content-Type": "application/json"}
    async with api.session.post(api.url + path, data=document, headers=headers) as response:
        assert response.status == 422
        assert len(await response.read()) < 4000


def bomb(coding):
    """Half a gigabyte of blanks, packed into half a megabyte."""
    packer = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
    return b"".join(packer.compress(b" " * MIB) for _ in range(512)) + packer.flush()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_packed_bomb_is_refused_without_being_unpacked(tmp_path, coding):
    packed = bomb(coding)
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    async with DaemonProcess.running(Installation.create(tmp_path, warm_floor=0)) as daemon:
        post = daemon.api.session.post
        async with post(f"{daemon.api.url}/execute", data=packed[:1000], headers=headers) as control:
            assert control.status == 400
        before = daemon.resident_bytes()
        for path in ("/execute", "/mcp", "/chat/send"):
            async with post(daemon.api.url + path, data=packed, headers=headers) as response:
                assert response.status in (400, 413, 415), (path, await response.text())
        assert daemon.peak_bytes() - before < 128 * MIB  # of 1.5 GB that it would be


async def test_too_large_headers_are_refused(api):
    for header in (b"X-Long: " + b"x" * 100_000, b"X" * 100_000 + b": 1"):
        assert await answers(api, request(api, "GET /whoami HTTP/1.1", header)) == [400]
    assert await answers(api, request(api, "GET /" + "x" * 100_000 + " HTTP/1.1")) == [400]


async def test_headers_without_number_are_refused(api):
    many = [b"X-%d: 1" % number for number in range(50_000)]
    assert await answers(api, request(api, "GET /whoami HTTP/1.1", *many)) in ([400], [431], [])


# --- too slow ---


async def test_connections_without_a_request_hold_up_nobody(tmp_path):
    """Thousands that say nothing, half a header, or half a body; an ordinary caller is served meanwhile."""
    beginnings = (
        b"",
        b"POST /execute HTTP/1.1\r\nHost: local",
        b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-",
    )
    async with (
        DaemonProcess.running(Installation.create(tmp_path)) as daemon,
        AsyncExitStack() as idle,
    ):
        wires = [await idle.enter_async_context(Wire.to(daemon.api)) for _ in range(3000)]
        for number, wire in enumerate(wires):
            await wire.send(beginnings[number % 3])
        before = daemon.resident_bytes()
        for _ in range(3):
            assert (await daemon.api.python("print('served')"))["output"] == "served\n"
        assert (await daemon.api.get("/readyz"))[0] == 200
        assert daemon.resident_bytes() - before < 64 * MIB
        await wires[0].send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await wires[0].status() == 200


async def test_a_header_that_comes_byte_by_byte_holds_up_nobody(api):
    async with Wire.to(api) as wire:
        for byte in request(api, "GET /whoami HTTP/1.1", b"Connection: close"):
            await wire.send(bytes([byte]))
            if byte == ord("\n"):
                assert (await api.get("/livez"))[0] == 200
        assert await wire.status() == 200


@pytest.mark.parametrize("accept", [b"Accept: text/event-stream", b"Accept: application/json"], ids=["events", "json"])
async def test_a_reader_who_stops_reading_holds_no_sandbox(tmp_path, accept):
    """The reply does not fit into the kernel's buffers; the sandbox is gone all the same, and nothing is lost."""
    size = 9 * MIB
    code = {"code": f"import sys; sys.stdout.write('x' * {size})", "language": "python"}
    body = json.dumps(code).encode()
    installation = Installation.create(tmp_path, max_output_bytes=10 * MIB, warm_floor=0, warm_ceiling=0)
    async with installation.run() as api, Wire.to(api) as wire:
        await wire.send(request(api, "POST /execute HTTP/1.1", length(body), accept, b"Connection: close", body=body))
        await eventually(lambda: _is_finished(api), seconds=30)
        await until(lambda: not sandboxes_of(installation.owner))
        assert (await api.python("print('served')"))["output"] == "served\n"
        received = await wire.rest(60)
    assert received.count(b"x") >= size
    assert b'"outcome":"completed"' in received


async def _is_finished(api):
    _, listing = await api.get("/executions?limit=1")
    return [each["state"] for each in listing["executions"]] == ["finished"]


@pytest.mark.timeout(300)
async def test_64_readers_who_stop_reading_do_not_grow_the_daemon_without_end(tmp_path):
    body = json.dumps({"code": "import sys; sys.stdout.write('x' * 102_400)", "language": "python"}).encode()
    settings = {"max_waiting": 100, "max_waiting_per_caller": 100, "warm_floor": 0, "warm_ceiling": 0}
    async with (
        DaemonProcess.running(Installation.create(tmp_path, **settings)) as daemon,
        AsyncExitStack() as readers,
    ):
        before = daemon.resident_bytes()
        for _ in range(64):
            wire = await readers.enter_async_context(Wire.to(daemon.api))
            await wire.send(
                request(daemon.api, "POST /execute HTTP/1.1", length(body), b"Accept: text/event-stream", body=body)
            )
        await eventually(lambda: _all_finished(daemon.api, 64), seconds=240)
        assert daemon.resident_bytes() - before < 64 * MIB


async def _all_finished(api, count):
    _, listing = await api.get("/executions?limit=100")
    return sum(each["state"] == "finished" for each in listing["executions"]) == count


# --- who asks, and whom ---


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("evil.example.com", None, 421),
        ("localhost.evil.example.com", None, 421),
        ("127.0.0.1.evil.example.com:9091", None, 421),
        ("localhost@evil.example.com", None, 421),
        ("evil.example.com\\@localhost", None, 421),
        ("[::1", None, 421),
        ("", None, 421),
        ("localhost", "http://evil.example.com", 403),
        ("localhost", "null", 403),
        ("localhost", "http://localhost.evil.example.com", 403),
        ("localhost", "http://localhost@evil.example.com", 403),
        ("localhost", "chrome-extension://abcdef", 403),
        ("10.1.2.3", "http://10.1.2.4", 403),
        ("localhost", None, 200),
        ("localhost:9091", "http://localhost:9091", 200),
        ("localhost:9091", "http://localhost:3000", 403),
        ("localhost:9091", "http://localhost", 403),
    ],
)
@pytest.mark.parametrize(
    "start", ["POST /execute HTTP/1.1", *(f"GET /{path} HTTP/1.1" for path in ("whoami", "executions", *PUBLIC))]
)
async def test_a_web_page_elsewhere_cannot_use_the_callers_browser(api, start, host, origin, status):
    body = HELLO if start.startswith("POST") else b""
    extra = [b"Origin: " + origin.encode()] if origin is not None else []
    data = request(api, start, *extra, length(body), b"Connection: close", body=body)
    assert await answers(api, data.replace(b"Host: localhost", b"Host: " + host.encode(), 1)) == [status]


@pytest.mark.parametrize("origin", ["http://evil.example.com", "null", "http://localhost:3000"])
async def test_a_preflight_request_gets_no_permission(api, origin):
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST", "Authorization": ""}
    async with api.session.options(f"{api.url}/execute", headers=headers) as response:
        assert response.status in (401, 403, 405)
        assert not [name for name in response.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "//whoami",
        "/./whoami",
        "/livez/../whoami",
        "/livez/..%2fwhoami",
        "/livez%2f..%2fwhoami",
        "/livez;/whoami",
        "/livez?/whoami",
        "/whoami#/livez",
        "/%77hoami",
        "/WHOAMI",
        "/whoami/",
        "/executions/..%2fwhoami",
        "http://localhost/whoami",
        "/health/../executions",
    ],
)
async def test_no_spelling_of_a_path_gets_around_the_key(api, path):
    async with Wire.to(api) as wire:
        await wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        received = await wire.rest()
    status, body = int(received.split()[1]), received.partition(b"\r\n\r\n")[2]
    refused = status in (400, 401, 404) or (status, json.loads(body).get("code")) == (422, "invalid_request")
    assert refused or json.loads(body) == {"status": "alive"}


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
async def test_a_method_cannot_be_overridden(api, header):
    async with held(api) as program:
        status, record = await api.get(f"/executions/{program.execution_id}", headers={header: "DELETE"})
        assert (status, record["state"]) == (200, "running")


@pytest.mark.parametrize("header", ["X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix"])
async def test_a_path_cannot_be_overridden(api, header):
    async with api.session.get(f"{api.url}/livez", headers={header: "/whoami"}) as response:
        assert await response.json() == {"status": "alive"}


@pytest.mark.parametrize(
    "headers", [{"X-Role": "admin"}, {"X-Forwarded-User": "code-executor-admin"}, {"X-API-Key": "x"}]
)
async def test_a_role_cannot_be_claimed_by_a_header(developer, headers):
    status, told = await developer.get("/whoami", headers=headers)
    assert (status, told["role"]) == (200, "developer")


async def test_two_keys_in_one_request_are_not_added_up(api, installation):
    """The first key counts, whichever header a second one comes in."""
    both = {"Authorization": "Bearer wrong", "X-API-Key": installation.keys["admin"]}
    assert (await api.get("/whoami", headers=both))[0] == 401
    lines = "GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    keys = [installation.keys["developer"], installation.keys["admin"]]
    async with Wire.to(api) as wire:
        await wire.send((lines + "".join(f"Authorization: Bearer {key}\r\n" for key in keys) + "\r\n").encode())
        received = await wire.rest()
    assert b'"role": "admin"' not in received


async def test_an_idempotency_key_of_another_caller_meets_nothing(api, developer):
    code = {"code": "print('mine')", "language": "python"}
    headers = {"Idempotency-Key": "the same for both"}
    _, first = await api.post("/execute", code, headers=headers)
    _, again = await api.post("/execute", code, headers=headers)
    _, other = await developer.post("/execute", code, headers=headers)
    assert first["executionId"] == again["executionId"] != other["executionId"]


# --- methods and versions ---


@pytest.mark.parametrize(
    "start",
    [
        "GET /livez HTTP/9.9",
        "GET /livez HTTP/1.10",
        "GET /livez HTTQ/1.1",
        "get /livez HTTP/1.1",
        "GE T /livez HTTP/1.1",
        "PRI * HTTP/2.0",
        "G\x00T /livez HTTP/1.1",
        "X" * 5000 + " /livez HTTP/1.1",
        "GET  HTTP/1.1",
        "\x16\x03\x01\x02\x00\x01",
    ],
)
async def test_what_is_no_request_line_is_refused(api, start):
    assert await answers(api, request(api, start)) == [400]


async def test_a_request_of_the_first_version_gets_nothing(api):
    assert await answers(api, b"GET /livez\r\n\r\n") in ([], [400])


@pytest.mark.parametrize("method", ["TRACE", "PUT", "PATCH", "DELETE", "PROPFIND", "OPTIONS"])
async def test_a_method_that_is_not_offered_is_refused(api, method):
    assert await answers(api, request(api, f"{method} /execute HTTP/1.1", b"Connection: close")) == [405]


async def test_the_daemon_is_no_proxy(api):
    """A request for another server is answered as if it named this one, and that server hears nothing."""
    reached = []
    async with await asyncio.start_server(lambda _, writer: reached.append(writer), "127.0.0.1", 0) as other:
        address = f"127.0.0.1:{other.sockets[0].getsockname()[1]}"
        for line, status in (
            (f"CONNECT {address}", 404),
            (f"GET http://{address}/", 200),  # the daemon's own page
            (f"GET http://{address}/elsewhere", 404),
        ):
            assert await answers(api, request(api, f"{line} HTTP/1.1", b"Connection: close")) == [status]
    assert not reached


@pytest.mark.parametrize("line", [b"X: a\x00b", b"X: a\rb", b"X\x01: a", b": nameless", b"no colon", b"X y: a"])
async def test_a_malformed_header_is_refused(api, line):
    assert await answers(api, request(api, "GET /livez HTTP/1.1", line)) == [400]


async def test_an_upgrade_is_ignored(api):
    upgrade = [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    assert (await answers(api, request(api, "GET /livez HTTP/1.1", *upgrade, b"Connection: close")))[0] in (200, 400)


async def test_a_hundred_requests_at_once_on_one_connection_are_answered_in_order(api):
    one = request(api, "GET /livez HTTP/1.1")
    last = request(api, "GET /nowhere HTTP/1.1", b"Connection: close")
    assert await answers(api, one * 99 + last) == [200] * 99 + [404]


# --- too fast ---


async def test_a_flood_of_requests_with_a_key_is_answered_at_its_pace_and_costs_nobody_else_a_turn(tmp_path):
    pace, connections, loop = 20, 20, asyncio.get_running_loop()
    installation = Installation.create(tmp_path, max_requests_per_second=pace)
    async with installation.run() as honest, honest.as_caller(installation.keys["developer"]) as hostile:
        answered, began = 0, loop.time()

        async def flood():
            nonlocal answered
            while True:
                assert (await hostile.get("/whoami"))[0] == 200
                answered += 1

        flooding = [asyncio.create_task(flood()) for _ in range(connections)]
        await until(lambda: answered > 2 * pace)
        for _ in range(pace):
            assert (await honest.get("/whoami"))[1]["role"] == "admin"
        assert (await honest.python("print('served')"))["output"] == "served\n"
        await asyncio.sleep(1)
        assert answered <= 2 * pace + pace * (loop.time() - began) + 1
        assert not any(each.done() for each in flooding)
        for each in flooding:
            each.cancel()
        await asyncio.wait(flooding)


async def test_a_request_that_waited_while_its_key_was_taken_away_is_refused(tmp_path):
    installation = Installation.create(tmp_path, max_requests_per_second=0.25)  # a turn every four seconds
    async with installation.run() as admin, admin.as_caller(installation.keys["developer"]) as developer:
        assert (await developer.get("/whoami"))[0] == 200  # the burst
        waiting = asyncio.create_task(developer.get("/whoami"))
        (installation.settings.keys_dir / "code-executor-developer.sha256").unlink()
        assert (await waiting)[0] == 401


# --- MCP ---

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def mcp(api, message, **headers):
    async with api.session.post(f"{api.url}/mcp", json=message, headers=ACCEPT | headers) as response:
        return response.status, response.headers.get("Mcp-Session-Id"), await response.text()


async def test_a_session_of_mcp_can_be_opened(api):
    """The control of the tests below."""
    status, session, text = await mcp(api, INITIALIZE)
    assert (status, bool(session)) == (200, True), text


@pytest.mark.parametrize(
    "batch", [[], [CALL], [CALL] * 10_000, [INITIALIZE, CALL], [[CALL]], [1], "text", 1, None, {}],
    ids=["empty", "one", "thousands", "initialize inside", "nested", "numbers", "text", "number", "null", "nothing"],
)  # fmt: skip
async def test_a_batch_or_what_is_no_message_is_refused(api, batch):
    status, session, text = await mcp(api, batch)
    assert (status, session) == (400, None), text


@pytest.mark.parametrize(
    "change",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2},
        {"id": {"a": 1}},
        {"id": [1]},
        {"method": 5},
        {"method": "x" * 100_000},
        {"params": "text"},
    ],
)
async def test_a_malformed_message_is_refused(api, change):
    status, _, text = await mcp(api, CALL | change, **{"MCP-Protocol-Version": "2026-07-28"})
    assert 400 <= status < 500 or '"error"' in text, text


@pytest.mark.parametrize("version", ["1999-01-01", "9999-12-31", "", "latest", "2025-06-18\t", "x" * 5000])
async def test_an_unknown_version_is_refused(api, version):
    status, _, text = await mcp(api, CALL, **{"MCP-Protocol-Version": version})
    assert 400 <= status < 500, text


@pytest.mark.parametrize("session", ["", "0" * 32, "../../etc/passwd", "x" * 5000])
async def test_a_made_up_session_is_not_found(api, session):
    status, _, _ = await mcp(api, CALL, **{"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"})
    assert status in (400, 404)


async def test_a_session_of_another_caller_is_not_found(api, developer):
    _, session, _ = await mcp(api, INITIALIZE)
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"}
    assert (await mcp(developer, CALL, **headers))[0] == 404
    assert (await mcp(api, CALL, **headers))[0] == 200


@pytest.mark.timeout(300)
async def test_one_callers_sessions_do_not_keep_another_out(tmp_path):
    """One caller opens sessions without end; another still gets one."""
    place = Installation.create(tmp_path, warm_floor=0)
    async with place.run() as api, api.as_caller(place.keys["developer"]) as greedy:
        for _ in range(2_100):
            status, _, _ = await mcp(greedy, INITIALIZE)
            if status != 200:
                break
        assert (await mcp(api, INITIALIZE))[0] == 200


async def test_an_oversized_message_of_mcp_is_refused(api):
    body = io.BytesIO(json.dumps(CALL | {"params": {"text": "x" * (8 * MIB)}}).encode())
    headers = ACCEPT | {"Content-Type": "application/json"}
    async with api.session.post(f"{api.url}/mcp", data=body, headers=headers) as response:
        assert response.status == 413, await response.text()


NUMBERS = {
    "execute_code": ("timeoutSeconds", {"code": "print(1)", "language": "python"}, 5),
    "search_tools": ("limit", {"query": "chat"}, 5),
    "get_execution": ("offset", {}, 0),
    "chat_read": ("limit", {}, None),  # the control below is chat's own test: this daemon has no homeserver
}
HOSTILE_NUMBERS = ["-1", "9223372036854775807", "9223372036854775808", "1" + "0" * 400, "1e400", "-1e400", "NaN", "[]"]


async def call_tool(api, name, arguments):
    """Call it with the arguments as the test wrote them: some are no JSON that a library would write."""
    params = f'{{"name": "{name}", "arguments": {arguments}, "_meta": {json.dumps(META)}}}'
    message = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}'
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name}
    headers |= ACCEPT | {"Content-Type": "application/json"}
    async with api.session.post(f"{api.url}/mcp", data=message, headers=headers) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("name", NUMBERS)
async def test_a_number_beyond_all_bounds_is_an_invalid_argument_of_every_tool(api, name):
    argument, others, good = NUMBERS[name]
    await api.python("print('something to read')")
    if good is not None:
        status, told = await call_tool(api, name, json.dumps(others | {argument: good}))
        assert (status, '"isError":true' in told) == (200, False), told
    for number in HOSTILE_NUMBERS:
        arguments = json.dumps(others | {argument: "@"}).replace('"@"', number)
        status, told = await call_tool(api, name, arguments)
        assert status in (200, 400), (number, told)
        assert "internal_error" not in told, (number, told)
        assert status == 400 or "invalid" in told.lower(), (number, told)


@pytest.mark.parametrize("number", ["9" * 15, "9" * 16, "9223372036854775808", "-1", "1e9", "\u0661"])
@pytest.mark.parametrize("name", ["offset", "length"])
async def test_a_number_beyond_all_bounds_in_the_address_of_a_resource_is_no_fault_of_the_daemon(api, name, number):
    execution_id = (await api.python("print('something to read')"))["executionId"]
    params = {"uri": f"execution://{execution_id}/stdout?{name}={number}", "_meta": META}
    message = CALL | {"method": "resources/read", "params": params}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "resources/read", "Mcp-Name": params["uri"]}
    if not number.isascii():
        headers.pop("Mcp-Name")
    status, _, told = await mcp(api, message, **headers)
    assert status in (200, 400), told
    assert "internal" not in told.lower(), told


INJECTIONS = [
    "' OR 1=1 --",
    "x') OR (1=1",
    "x' UNION SELECT * FROM executions --",
    "%",
    "*",
    "code-executor-admin",
    ":caller",
    "?1",
    "\x00",
    "code-executor-admin\x00",
]


@pytest.mark.parametrize("name", ["caller", "tool"])
async def test_no_filter_shows_anothers_executions(api, developer, name):
    """The control: the admin, asking for the same caller, does find what the developer may not see."""
    secret = (await api.python("print('secret')"))["executionId"]
    _, everything = await api.get("/executions", params={"caller": "code-executor-admin"})
    assert secret in [each["executionId"] for each in everything["executions"]]
    for hostile in INJECTIONS:
        status, told = await developer.get("/executions", params={name: hostile})
        assert status in (200, 422), (hostile, told)
        assert {each["caller"] for each in told.get("executions", ())} <= {"code-executor-developer"}, hostile
        assert secret not in json.dumps(told), hostile
