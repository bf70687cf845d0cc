"""Programs that make the daemon and the servers hold more than they can, through their tool calls."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.api import eventually, until
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation
from tests.support.programs import PRELUDE
from tests.support.upstream_server import Hoarding, ScriptedProxy, Sized, serving, tool

MIB = 1024 * 1024
NEARLY_THE_MOST = 15_900_000
CLIENT = (Path(__file__).parent.parent / "support" / "gateway_client.py").read_text()
SERVERS = ("postgres", "playwright", "openmemory", "minio")


class Scene:
    """A daemon as a process, with servers that answer with as much as they are asked for."""

    def __init__(self, daemon, developer, sized, hoarding, log):
        self.daemon = daemon
        self.admin = daemon.api
        self.developer = developer
        self.sized = sized
        self.hoarding = hoarding
        self._log = log

    @classmethod
    @asynccontextmanager
    async def running(cls, directory, sized=None, **settings):
        proxy, sized, hoarding = ScriptedProxy(*SERVERS), sized or Sized(), Hoarding()
        for tools in proxy.tools.values():
            tools += [tool("sized"), tool("hoard")]
        proxy.behaviours |= {"sized": sized, "hoard": hoarding}
        async with serving(proxy.app()) as url:
            servers = {name: {"url": f"{url}/{name}/mcp"} for name in SERVERS}
            (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
            place = Installation.create(directory, servers_file=directory / "servers.json", **settings)
            async with (
                DaemonProcess.running(place) as daemon,
                daemon.api.as_caller(place.keys["developer"]) as developer,
            ):
                await eventually(lambda: _all_are_listed(daemon.api), seconds=30)
                for api in (daemon.api, developer):
                    await eventually(lambda api=api: _runs_programs(api), seconds=90)
                yield cls(daemon, developer, sized, hoarding, directory / "daemon.log")
                hoarding.go.set()

    @property
    def log(self):
        """What the daemon has said of what sandboxes did: its own life and that of the servers left out."""
        lines = map(json.loads, self._log.read_text().splitlines())
        return [line for line in lines if line["event"].startswith(("gateway.", "aiohttp", "Task", "Error"))]

    @property
    def log_bytes(self):
        return self._log.stat().st_size

    async def probe(self, api, code, timeout_seconds=120):
        result = await api.python(PRELUDE + CLIENT + code, timeout_seconds)
        assert (result["outcome"], result["stderr"]) == ("completed", ""), result
        return json.loads(result["output"])


async def _all_are_listed(api):
    by_server = (await api.get("/health"))[1]["toolsByServer"]
    return all(by_server.get(name) == 4 for name in SERVERS)


async def _runs_programs(api):
    """Sandboxes with the wrappers of these servers are made only now, which on a busy machine takes its time."""
    status, _ = await api.post("/execute", {"code": "print()", "language": "python"})
    return status == 200


HOARD = f"""
servers = {SERVERS!r}
tell(at_once(COUNT, lambda number: call({{"bytes": {NEARLY_THE_MOST}, **MORE}}, server=servers[number % 4])))
"""
SMALL = "began = time.monotonic(); status, _ = call({'text': 'hi'}, 'echo'); tell([status, time.monotonic() - began])"


def hoard(count, **more):
    return f"COUNT, MORE = {count}, {more!r}\n" + HOARD


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
async def test_fifty_large_results_at_once_all_arrive_and_the_daemon_stays_small(tmp_path, declared):
    async with Scene.running(tmp_path, Sized(declared=declared), max_tool_total_bytes=1024 * MIB) as scene:
        assert (await scene.probe(scene.admin, hoard(1)))[0][0] == 200
        scene.daemon.forget_peak()
        attack = asyncio.create_task(scene.probe(scene.admin, hoard(50)))
        await until(lambda: scene.sized.under_way >= 30, seconds=30)
        status, seconds = await scene.probe(scene.developer, SMALL)
        assert (status, attack.done()) == (200, False)
        assert seconds < 5
        answers = await attack
        assert [answer[0] for answer in answers] == [200] * 50
        assert all(answer[1] > NEARLY_THE_MOST for answer in answers)
        assert scene.daemon.peak_bytes() < 500 * MIB


async def test_results_whose_values_would_take_thirty_times_their_bytes_leave_the_daemon_small_and_quick(tmp_path):
    async with Scene.running(tmp_path) as scene:
        code = hoard(6, structured=True, item='{"":1},')
        assert (await scene.probe(scene.admin, hoard(1)))[0][0] == 200
        scene.daemon.forget_peak()
        attack = asyncio.create_task(scene.probe(scene.admin, code))
        await until(lambda: scene.sized.under_way >= 1, seconds=30)
        waits = []
        while not attack.done():
            status, seconds = await scene.probe(scene.developer, SMALL)
            assert status == 200
            waits.append(seconds)
        assert [answer[0] for answer in await attack] == [200] * 6
        assert scene.daemon.peak_bytes() < 500 * MIB
        assert max(waits) < 3


UNTAKEN = f"""
clients = []
for number in range(40):
    client = connected()
    body = order({{"bytes": {NEARLY_THE_MOST}}}, server={SERVERS!r}[number % 4])
    client.sendall(head("/call", len(body)) + body)
    clients.append(client)
time.sleep(20)
"""


async def test_programs_that_do_not_take_their_results_leave_other_callers_their_room_and_are_cut_off(tmp_path):
    async with Scene.running(tmp_path, max_tool_total_bytes=4096 * MIB, tool_stall_seconds=3) as scene:
        attacks = [asyncio.create_task(scene.admin.python(PRELUDE + CLIENT + UNTAKEN, 60)) for _ in range(3)]
        await until(lambda: scene.sized.under_way >= 20, seconds=30)
        before = time.monotonic()
        answers = await scene.probe(scene.developer, hoard(4))
        assert [answer[0] for answer in answers] == [200] * 4
        assert time.monotonic() - before < 15
        assert not any(attack.done() for attack in attacks)
        assert scene.daemon.peak_bytes() < 600 * MIB
        assert {result["outcome"] for result in await asyncio.gather(*attacks)} == {"completed"}
        told = [line for line in scene.log if line["event"] == "gateway.misused"]
        assert 1 <= len(told) <= 3
        assert all(line["stalled"] >= 1 for line in told)
        assert [answer[0] for answer in await scene.probe(scene.admin, hoard(4))] == [200] * 4


# --- what a server is given ---

GIVE = """
statuses = at_once(COUNT, lambda number: call({"text": "x" * SIZE}, "hoard")[0])
tell(statuses)
"""


async def test_eight_large_requests_at_once_reach_a_server_bit_by_bit_and_leave_room_for_another_caller(tmp_path):
    async with Scene.running(tmp_path) as scene:
        attack = asyncio.create_task(scene.probe(scene.developer, f"COUNT, SIZE = 8, 3_600_000\n{GIVE}"))
        await until(lambda: scene.hoarding.calls >= 2, seconds=30)
        other = asyncio.create_task(scene.probe(scene.admin, f"COUNT, SIZE = 1, 3_600_000\n{GIVE}"))
        await until(lambda: scene.hoarding.calls >= 3, seconds=30)
        assert scene.hoarding.bytes < 11 * 1000 * 1000
        assert (await scene.probe(scene.admin, SMALL))[0] == 200
        scene.hoarding.go.set()
        assert (await attack, await other) == ([200] * 8, [200])
        assert scene.hoarding.most_bytes < 12 * 1000 * 1000


async def test_one_callers_calls_do_not_take_every_place_at_a_server(tmp_path):
    async with Scene.running(tmp_path) as scene:
        code = PRELUDE + CLIENT + f"COUNT, SIZE = 60, 10\n{GIVE}"
        attacks = [asyncio.create_task(scene.developer.python(code, 60)) for _ in range(2)]
        await until(lambda: scene.hoarding.calls >= 16, seconds=30)
        for _ in range(5):
            assert (await scene.probe(scene.admin, SMALL))[0] == 200
        assert scene.hoarding.calls == 16
        scene.hoarding.go.set()
        for result in await asyncio.gather(*attacks):
            assert json.loads(result["output"]) == [200] * 60


# --- what the daemon keeps of requests ---


async def test_requests_that_wait_do_not_fill_the_daemon_whatever_they_hold(tmp_path):
    """Each is small, but its values would take thirty times as much, and there are as many as there can be."""
    code = """
body = b'{"server": "postgres", "tool": "hoard", "arguments": {"a": [' + b'{"":1},' * 9000 + b'1]}}'
clients = []
for _ in range(110):
    client = connected()
    client.sendall(head("/call", len(body)) + body)
    clients.append(client)
print("sent", flush=True)
time.sleep(5)
"""
    async with Scene.running(tmp_path) as scene:
        assert (await scene.probe(scene.admin, SMALL))[0] == 200
        scene.daemon.forget_peak()
        before = scene.daemon.resident_bytes()
        attacks = [asyncio.create_task(scene.admin.python(PRELUDE + CLIENT + code, 60)) for _ in range(3)]
        await until(lambda: scene.hoarding.calls >= 16, seconds=30)
        assert {result["outcome"] for result in await asyncio.gather(*attacks)} == {"completed"}
        assert scene.daemon.peak_bytes() - before < 200 * MIB


async def test_headers_of_requests_ahead_of_their_turn_do_not_fill_the_daemon(tmp_path):
    code = """
lines = "".join(f"X-{number}: {'x' * 8000}\\r\\n" for number in range(100)).encode()
ahead = b"POST /info HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n" + lines + b"\\r\\n"
body = order({}, "hoard")
def fill(number):
    client = connected()
    client.settimeout(4)
    try:
        client.sendall(head("/call", len(body)) + body)
        for _ in range(16):
            client.sendall(ahead)
    except OSError:
        pass
    return client
tell(len(at_once(60, fill)))
""".replace("\\\\", "\\")
    async with Scene.running(tmp_path) as scene:
        assert (await scene.probe(scene.admin, SMALL))[0] == 200
        before = scene.daemon.resident_bytes()
        scene.daemon.forget_peak()
        assert await scene.probe(scene.admin, code) == 60
        assert scene.daemon.peak_bytes() - before < 100 * MIB


# --- searches ---

SEARCH = """
def flood(number):
    queries = [f"{number}-{each} " + "query table " * 330 for each in range(COUNT)]
    body = json.dumps({"query": queries, "detail": "full", "limit": 50})
    statuses = []
    for _ in range(TIMES):
        status, said = ask("/search", body.encode(), keep=True)
        statuses.append((status, said.get("message")))
    return statuses
tell([each for statuses in at_once(20, flood) for each in statuses])
"""


async def test_searches_are_bounded_counted_and_do_not_keep_a_neighbour_waiting(tmp_path):
    async with Scene.running(tmp_path, max_tool_searches=100) as scene:
        refused = await scene.probe(scene.admin, f"COUNT, TIMES = 32, 1\n{SEARCH}")
        words = "A search must have at most 10 queries with 4000 characters in all; this one has 32 with"
        assert all(status == 422 and message.startswith(words) for status, message in refused)
        attack = asyncio.create_task(scene.probe(scene.admin, f"COUNT, TIMES = 1, 20\n{SEARCH}"))
        waits = []
        while not attack.done():
            waits.append((await scene.probe(scene.developer, SMALL))[1])
        statuses = [status for status, _ in await attack]
        assert (statuses.count(200), statuses.count(429)) == (100, 300)
        assert max(waits) < 3


async def test_searches_from_outside_have_the_same_bounds(tmp_path):
    async with Scene.running(tmp_path) as scene:
        status, found = await scene.admin.get("/tools/search", params=[("q", "sized")] * 10)
        assert (status, found["tools"][0]["name"]) == (200, "sized")
        for params in ([("q", "x")] * 11, [("q", "x" * 4001)]):
            status, problem = await scene.admin.get("/tools/search", params=params)
            assert (status, problem["code"]) == (422, "invalid_request")
            assert "at most 10 queries with 4000 characters in all" in problem["detail"]


# --- the log ---

BREAK_OFF = """
for number in range(20):
    clients = [connected() for _ in range(50)]
    for client in clients:
        client.sendall(head("/call", 5000) + b"{")
    time.sleep(1.0 if number < 6 else 0.3)
    for client in clients:
        client.close()
for piece in (b"\\x00\\r\\n\\r\\n", b"GET / HTTP/9\\r\\n\\r\\n", b"POST / HTTP/1.1\\r\\nContent-Length: x\\r\\n\\r\\n"):
    for _ in range(200):
        client = connected()
        client.sendall(piece)
        client.close()
tell(call({"text": "hi"}, "echo")[0])
""".replace("\\\\", "\\")


async def test_a_program_cannot_flush_the_log(tmp_path):
    async with Scene.running(tmp_path) as scene:
        before = scene.log_bytes
        assert await scene.probe(scene.admin, BREAK_OFF) == 200
        (told,) = scene.log
        assert told["event"] == "gateway.misused"
        assert 100 < told["broken_off"] < 900  # of a thousand: the rest was given up before its turn came
        assert scene.log_bytes - before < 10_000
