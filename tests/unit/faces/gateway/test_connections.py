"""What a sandbox's connections make the gateway hold, and what they make it say."""

import asyncio
import json
import logging

import pytest
from structlog.testing import capture_logs

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import AccessBook, KeyHash
from orchestrator.domain.execution import GatewayLimits, RoomLimits, Shares, State
from orchestrator.domain.json_text import JsonObject
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import LargeResult
from orchestrator.faces.gateway.app import Gateway
from orchestrator.faces.gateway.orders import read_order
from orchestrator.service.tool_calls import ToolCalls
from tests.support.api import until
from tests.support.fake_journal import FakeJournal
from tests.support.samples import DEVELOPER, record
from tests.support.sandbox_door import Door

MIB = 1024 * 1024
LIMITS = GatewayLimits(
    max_calls=1000,
    max_concurrent_calls=50,
    max_request_bytes=4 * MIB,
    max_total_bytes=1024 * MIB,
    call_timeout_seconds=5,
    max_held_result_bytes=3 * MIB,
    max_searches=5,
)
ROOMS = RoomLimits(result_bytes=Shares(8 * MIB, 4 * MIB), request_bytes=Shares(8 * MIB, 5 * MIB))


class Servers:
    """One server, whose answers are as large as their call says."""

    def __init__(self):
        self.asked = []
        self.fault = None

    def tools(self):
        return {"postgres": (Tool("postgres", "query", "Runs a query."),)}

    async def open_session(self, server, sessions, timeout_seconds):
        pass

    async def call(self, server, tool, arguments, timeout_seconds, role, room, sessions):
        self.asked.append(arguments)
        if self.fault is not None:
            raise self.fault
        size = arguments.get("size", 2)
        if size <= 65536:
            return {"content": [{"type": "text", "text": "x" * size}]}
        await room.reserve(size)
        text = b'{"content":[{"type":"text","text":"' + b"x" * size + b'"}]}'
        return LargeResult(bytearray(text), failed=False, images=())


class Tokens:
    def count(self, text):
        return len(text)


class Access:
    book = AccessBook(
        {DEVELOPER.role.name: DEVELOPER.role},
        {DEVELOPER.key_name: DEVELOPER.role.name},
        (KeyHash(DEVELOPER.key_name, DEVELOPER.key_sha256),),
    )


class Scene:
    def __init__(self, stall_seconds=30.0):
        self.servers, self.journal = Servers(), FakeJournal()
        catalog, observations = Catalog(self.servers, Tokens()), Observations()
        catalog.refresh()
        toolbox = Toolbox(catalog, observations)
        self.calls = ToolCalls(toolbox, self.servers, observations, Access(), self.journal, LIMITS, (), ROOMS)
        self.gateway = Gateway(self.calls, toolbox, LIMITS.max_request_bytes, stall_seconds)
        self.door = Door(self.gateway.accept)
        self.grant = self.calls.open(DEVELOPER, "e1", lambda call: None, "sandbox")

    async def ask(self, visitor, path="/call", **order):
        body = json.dumps({"server": "postgres", "tool": "query", **order}).encode()
        await visitor.post(path, body, self.grant.token)

    @property
    def held(self):
        return self.calls.rooms.results.taken

    async def end(self):
        self.door.relay.lose_all()
        self.grant.revoke()
        await self.gateway.shut_down()


@pytest.fixture
async def scene():
    scene = Scene()
    await scene.journal.open(record(id="e1", state=State.RUNNING))
    yield scene
    await scene.end()
    assert (scene.held, scene.calls.rooms._requests.taken) == (0, 0)


@pytest.fixture
async def impatient():
    scene = Scene(stall_seconds=0.2)
    await scene.journal.open(record(id="e1", state=State.RUNNING))
    yield scene
    await scene.end()


# --- results ---


async def test_a_small_answer_is_given_without_a_reservation(scene):
    visitor = scene.door.open()
    await scene.ask(visitor)
    assert await visitor.answer() == (200, {"content": [{"type": "text", "text": "xx"}]})
    assert scene.held == 0


async def test_a_large_answer_arrives_whole_and_gives_its_room_back(scene):
    visitor = scene.door.open()
    await scene.ask(visitor, arguments={"size": MIB})
    status, result = await visitor.answer()
    assert (status, len(result["content"][0]["text"])) == (200, MIB)
    await until(lambda: scene.held == 0)
    await scene.ask(visitor)  # the connection serves on
    assert (await visitor.answer())[0] == 200


async def test_an_answer_keeps_its_room_until_the_program_has_taken_it(scene):
    lazy = scene.door.open(takes=False)
    await scene.ask(lazy, arguments={"size": MIB})
    await until(lambda: lazy.received)
    assert scene.held >= MIB
    lazy.hang_up()
    await until(lambda: scene.held == 0)


async def test_an_execution_does_not_hold_more_than_its_own_share_and_the_others_wait(scene):
    lazy = [scene.door.open(takes=False) for _ in range(5)]
    for visitor in lazy:
        await scene.ask(visitor, arguments={"size": MIB - 1000})
    await until(lambda: len(scene.servers.asked) == 5)
    await until(lambda: sum(bool(visitor.received) for visitor in lazy) == 3)
    assert 2 * MIB < scene.held <= 3 * MIB
    small = scene.door.open()
    await scene.ask(small)
    assert (await small.answer())[0] == 200
    for visitor in lazy[:3]:
        visitor.hang_up()
    await until(lambda: all(visitor.received for visitor in lazy))


async def test_what_the_daemon_keeps_of_an_answer_that_nobody_takes_is_no_more_than_the_answer(scene):
    lazy = scene.door.open(takes=False)
    await scene.ask(lazy, arguments={"size": 2 * MIB})
    await until(lambda: lazy.received)
    (connection,) = scene.door.relay._connections.values()
    assert connection.get_write_buffer_size() <= 256 * 1024


async def test_a_program_that_does_not_take_its_answer_is_cut_off(impatient):
    lazy = impatient.door.open(takes=False)
    await impatient.ask(lazy, arguments={"size": MIB})
    async with asyncio.timeout(5):
        await lazy.until_finished()
    await until(lambda: impatient.held == 0)
    assert impatient.grant.faults == {"stalled": 1}
    diligent = impatient.door.open()
    await impatient.ask(diligent, arguments={"size": MIB})
    assert (await diligent.answer())[0] == 200


# --- requests ---


async def test_large_arguments_are_passed_on_as_they_came(scene):
    visitor = scene.door.open()
    text = "é" * 100_000
    await scene.ask(visitor, arguments={"text": text, "list": [1, 2.5, None]})
    assert (await visitor.answer())[0] == 200
    (arguments,) = scene.servers.asked
    assert isinstance(arguments, JsonObject)
    assert dict(arguments) == {"text": text, "list": [1, 2.5, None]}


@pytest.mark.parametrize("size", [100, 10_000, 100_000])
@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"[%s]", "invalid_arguments", "must be an object"),
        (b'{"server": "postgres", "tool": "query", "arguments": [%s]}', "invalid_arguments", "must be an object"),
        (b'{"server": "postgres", "tool": "query", "arguments": {"a": %s, "b": NaN}}', None, None),
        (b'{"server": "postgres", "tool": "query", "arguments": {"a": %s}', "invalid_arguments", "must be JSON"),
        (b'{"server": "postgres", "tool": 5, "arguments": {"a": %s}}', "invalid_arguments", "must be a name"),
        (b'{"server": "secret", "tool": "query", "arguments": {"a": %s}}', "tool_denied", "may not call"),
    ],
)
async def test_bodies_of_every_size_are_judged_alike(scene, size, body, code, words):
    visitor = scene.door.open()
    await visitor.post("/call", body % (b'"' + b"x" * size + b'"'), scene.grant.token)
    status, said = await visitor.answer()
    if code is None:  # a small one is judged when it is sent to the server, for which there is none here
        assert size == 100 or said["message"].startswith("The arguments must be values that JSON can represent")
    else:
        assert (status >= 400, said["code"]) == (True, code)
        assert words in said["message"]


async def test_a_small_body_that_takes_long_to_read_is_read_on_a_thread(scene, monkeypatch):
    turns = []
    reserve = scene.calls.rooms.readers.reserve
    monkeypatch.setattr(scene.calls.rooms.readers, "reserve", lambda *given: turns.append(given) or reserve(*given))
    visitor = scene.door.open()
    deep = b'{"server": "postgres", "tool": "query", "arguments": {"a": [%s1]}}' % (b"[[[[[[[[]]]]]]]]," * 3000)
    for body, expected in ((deep, 1), (deep.replace(b"[[[[[[[[]]]]]]]]", b"[[1,2,3]]"), 1)):
        await visitor.post("/call", body, scene.grant.token)
        assert (await visitor.answer())[0] == 200
        assert len(turns) == expected


async def test_a_request_that_says_it_is_too_large_is_not_read(scene):
    visitor = scene.door.open()
    await visitor.post("/call", b"{", scene.grant.token, length=5 * MIB)
    status, said = await visitor.answer()
    assert (status, said["code"]) == (429, "limit_exceeded")


async def test_large_requests_wait_for_their_callers_room(scene):
    async with scene.calls.rooms.for_request(DEVELOPER.key_name, 5 * MIB):
        visitor, small = scene.door.open(), scene.door.open()
        await scene.ask(visitor, arguments={"text": "x" * 100_000})
        await scene.ask(small)
        assert (await small.answer())[0] == 200
        assert len(scene.servers.asked) == 1
    assert (await visitor.answer())[0] == 200


async def test_a_body_that_stalls_does_not_keep_its_room(impatient):
    visitor = impatient.door.open()
    await visitor.post("/call", b"{" * 1000, impatient.grant.token, length=MIB)
    await until(lambda: impatient.calls.rooms._requests.taken == MIB)
    status, said = await visitor.answer()
    assert (status, "must not stall" in said["message"]) == (422, True)
    assert impatient.calls.rooms._requests.taken == 0


async def test_requests_that_are_abandoned_do_not_pile_up_without_end(scene):
    async def hang(*_):
        await asyncio.Event().wait()

    scene.servers.call = hang
    async with asyncio.timeout(20):
        for number in range(256):
            visitor = scene.door.open()
            await scene.ask(visitor)
            while len(scene.grant.calls()) <= number:
                await asyncio.sleep(0)
            visitor.hang_up()
    late = scene.door.open()
    await scene.ask(late)
    status, said = await late.answer()
    assert (status, said["message"]) == (429, "An execution may have at most 256 requests open at once.")


async def test_requests_sent_ahead_of_their_turn_are_not_read(scene):
    never = asyncio.Event()

    async def hang(*_):
        await never.wait()

    scene.servers.call = hang
    visitor = scene.door.open()
    await scene.ask(visitor)
    await until(lambda: scene.grant._open_requests == 1)
    lines = "".join(f"X-{number}: {'x' * 500}\r\n" for number in range(20))
    ahead = f"POST /info HTTP/1.1\r\nContent-Length: 0\r\n{lines}\r\n".encode()
    sending = asyncio.create_task(visitor.send(ahead * 100))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await sending
    (connection,) = scene.door.relay._connections.values()
    assert len(connection.get_protocol()._messages) <= 4


async def test_requests_that_arrive_in_one_rush_are_all_answered_wherever_they_are_cut(scene):
    """aiohttp's parser asks for more in the middle of its work; given it there and then, it would lose its place."""
    fields = ("POST /nothing HTTP/1.1", "Host: x", f"Authorization: Bearer {scene.grant.token}", "Content-Length: 2")
    request = "\r\n".join(fields) + "\r\n\r\n{}"
    visitor, count = scene.door.open(), 1000
    sending = asyncio.create_task(visitor.send(request.encode() * count))
    assert [(await visitor.answer())[0] for _ in range(count)] == [404] * count
    await sending


BOMB = b"[" + b"[]," * 100_000 + b"0]"  # many times as large in memory as it is as text


async def test_of_a_large_body_only_what_its_path_asks_for_is_decoded():
    members = b'"server": "postgres", "tool": "query", "arguments": {}, "query": %s, "limit": %s, "data": %s'
    body = b"{" + members % (BOMB, BOMB, BOMB) + b"}"
    assert read_order(body, ("server", "tool", "arguments")) == {"server": "postgres", "tool": "query", "arguments": {}}


@pytest.mark.parametrize("data", [BOMB, b'{"a": "' + b"x" * 100_000 + b'"}', b" " * 5000 + b"1"])
async def test_a_picture_that_is_no_string_is_refused_undecoded(scene, data):
    body = b'{"data": ' + data + b"}"
    assert read_order(body, ("data",)) == {"data": None}
    visitor = scene.door.open()
    await visitor.post("/emit", body, scene.grant.token)
    status, said = await visitor.answer()
    assert (status, said["message"]) == (422, "`data` must be the bytes of a picture in base64.")


async def test_requests_without_a_valid_grant_wait_their_turn(scene, monkeypatch):
    waits = []
    monkeypatch.setattr(scene.gateway._intruders, "take", lambda sandbox: waits.append(sandbox) or 0.05)
    visitor, began = scene.door.open(), asyncio.get_running_loop().time()
    for token in ("x", scene.grant.token[:-1], ""):
        await visitor.post("/call", b"{}", token)
        assert (await visitor.answer())[0] == 401
    assert waits == ["sandbox"] * 3
    assert asyncio.get_running_loop().time() - began >= 0.15
    await scene.ask(visitor)
    assert (await visitor.answer())[0] == 200
    assert len(waits) == 3


# --- what it says ---


async def broken_off(scene, count):
    for _ in range(count):
        visitor = scene.door.open()
        await visitor.post("/call", b'{"ser', scene.grant.token, length=1000)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        visitor.hang_up()
        await asyncio.sleep(0)
    await until(lambda: scene.grant._open_requests == 0)


async def test_bodies_that_break_off_are_told_in_one_line_when_the_execution_ends(scene):
    with capture_logs() as logs:
        await broken_off(scene, 100)
        assert logs == []
        scene.grant.revoke()
        scene.grant.revoke()
    assert logs == [{"event": "gateway.misused", "log_level": "warning", "execution_id": "e1", "broken_off": 100}]


async def test_an_execution_that_does_nothing_wrong_is_not_told_of(scene):
    visitor = scene.door.open()
    await scene.ask(visitor)
    await visitor.answer()
    with capture_logs() as logs:
        scene.grant.revoke()
    assert logs == []


async def test_a_defect_of_ours_is_told_once_for_each_execution(scene):
    scene.servers.fault = TypeError("a defect")
    visitor = scene.door.open()
    with capture_logs() as logs:
        for _ in range(20):
            await scene.ask(visitor)
            assert (await visitor.answer())[0] == 500
        scene.grant.revoke()
    assert [line["event"] for line in logs] == ["gateway.crashed", "gateway.misused"]
    assert logs[1]["crashed"] == 20


MALFORMED = [
    b"\x00\xff\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /call HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    b"POST /call HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /call HTTP/1.1\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer GRANT\r\n\r\nzz\r\n",
    b"POST /call HTTP/1.1\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer GRANT\r\n\r\n5\r\nab",
    b"POST /call HTTP/1.1\r\nContent-Encoding: gzip\r\nAuthorization: Bearer GRANT\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /call HTTP/1.1\r\nAuthorization: Bearer \xff\xfe\r\nContent-Length: 2\r\n\r\n{}",
    b"CONNECT x HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxxxx",
    b"POST /call HTTP/1.1\r\n" + b"X: " + b"x" * 5000 + b"\r\n\r\n",
    b"POST /call HTTP/1.1\r\n" + b"".join(b"X%d: 1\r\n" % number for number in range(200)) + b"\r\n",
    b"POST /" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n",
    b"POST /call HTTP/1.1\r\nExpect: 100-continue\r\nAuthorization: Bearer GRANT\r\nContent-Length: 10\r\n\r\n",
    b"POST /call HTTP/1.1\r\nExpect: a-miracle\r\nAuthorization: Bearer GRANT\r\nContent-Length: 0\r\n\r\n",
]


@pytest.mark.parametrize("number", range(len(MALFORMED)))
async def test_nothing_that_a_sandbox_sends_is_logged_as_it_comes(scene, number, caplog):
    caplog.set_level(logging.DEBUG)
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    with capture_logs() as logs:
        visitor = scene.door.open()
        await visitor.send(MALFORMED[number].replace(b"GRANT", scene.grant.token.encode()))
        for _ in range(20):
            await asyncio.sleep(0)
        if not visitor.finished:
            visitor.hang_up()
        await until(lambda: scene.grant._open_requests == 0)
        for _ in range(20):
            await asyncio.sleep(0)
    assert (logs, problems) == ([], [])
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


# --- searches ---


async def test_a_large_answer_about_a_tool_is_given_room_like_any_other(scene):
    schema = {"type": "object", "description": "x" * 200_000}
    scene.servers.tools = lambda: {"postgres": (Tool("postgres", "query", "Runs a query.", schema),)}
    scene.gateway._toolbox._catalog.refresh()
    lazy = scene.door.open(takes=False)
    await scene.ask(lazy, "/info")
    await until(lambda: lazy.received)
    assert scene.held > 200_000


async def test_beyond_a_burst_the_requests_of_one_callers_programs_wait_their_turn(scene, monkeypatch):
    waits = []
    turns = iter([0.0, 0.0, 0.25])
    monkeypatch.setattr(scene.gateway._paces, "take", lambda caller: (waits.append(caller), next(turns))[1])
    visitor, began = scene.door.open(), asyncio.get_running_loop().time()
    for _ in range(3):
        await visitor.post("/nothing", b"{}", scene.grant.token)
        assert (await visitor.answer())[0] == 404
    assert waits == [DEVELOPER.key_name] * 3
    assert asyncio.get_running_loop().time() - began >= 0.25


async def test_searches_and_questions_about_tools_are_counted_together(scene):
    visitor = scene.door.open()
    for number in range(5):
        if number % 2:
            await scene.ask(visitor, "/info")
        else:
            await scene.ask(visitor, "/search", query="run a query")
        assert (await visitor.answer())[0] == 200
    for path in ("/info", "/search"):
        await scene.ask(visitor, path, query="run a query")
        status, said = await visitor.answer()
        assert (status, said["code"]) == (429, "limit_exceeded")
        assert said["message"] == "An execution may search for tools or ask about them at most 5 times."


@pytest.mark.parametrize("query", [["x"] * 11, "x" * 4001, ["x" * 500] * 9, ["x" * 4000] * 32, [1] * 50_000])
async def test_a_search_for_too_much_is_refused_with_what_it_may_have(scene, query):
    visitor = scene.door.open()
    await scene.ask(visitor, "/search", query=query)
    status, said = await visitor.answer()
    assert (status, said["code"]) == (422, "invalid_request")
    assert said["message"].startswith("A search must have at most 10 queries with 4000 characters in all; this one has")


async def test_a_search_that_is_refused_is_counted_too(scene):
    visitor = scene.door.open()
    for expected in [422] * 5 + [429]:
        await scene.ask(visitor, "/search", query=[1] * 20)
        assert (await visitor.answer())[0] == expected


async def test_a_caller_searches_one_at_a_time(scene, monkeypatch):
    under_way, most = 0, 0
    search = scene.gateway._toolbox.search

    def watched(*given, **more):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return search(*given, **more)
        finally:
            under_way -= 1

    monkeypatch.setattr(scene.gateway._toolbox, "search", watched)
    visitors = [scene.door.open() for _ in range(5)]
    for visitor in visitors:
        await scene.ask(visitor, "/search", query="run a query")
    assert [(await visitor.answer())[0] for visitor in visitors] == [200] * 5
    assert most == 1
