"""One hostile tenant beside an honest one: what the honest one feels while each attack runs, against none."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.paths import ROOT
from bench.progress import say
from bench.stats import percentile
from tests.figures.figure import Figure, Figures, Plan, alone
from tests.figures.replies import FULL_POOL
from tests.support.api import Api, eventually
from tests.support.programs import PRELUDE
from tests.support.victim import Victim

MOST_SLOWER = 4.0
HONEST = "from servers.sample import echo\nprint(echo(text='honest')['text'])"
ROLES = {
    "admin": {"servers": ["*"], "seesAllExecutions": True, "keys": ["code-executor-admin"]},
    "developer": {"servers": ["hostile"], "keys": ["code-executor-developer"]},
}
TO_GATEWAY = """
import threading, time
GRANT = os.environ["CODE_EXECUTOR_GRANT"]
def forever(action):
    def run():
        while True:
            try: action()
            except Exception: time.sleep(0.01)
    threads = [threading.Thread(target=run, daemon=True) for _ in range(THREADS)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
def ask(path, body):
    client = gateway_client()
    client.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {GRANT}"})
    client.getresponse().read()
"""
PROGRAMS = {
    "filters on sockets": """
program = struct.pack("HBBI", 0x06, 0, 0, 0xFFFF) * 4096
kept = ctypes.create_string_buffer(program)
header = struct.pack("HxxxxxxQ", 4096, ctypes.addressof(kept))
pairs = []
while True:
    attempt(lambda: pairs.append(socket.socketpair()))
    if pairs: attempt(lambda: pairs[-1][0].setsockopt(socket.SOL_SOCKET, 26, header))
""",
    "buffers of sockets": """
pairs = []
while True:
    attempt(lambda: pairs.append(socket.socketpair()))
    for here, there in pairs:
        here.setblocking(False)
        attempt(here.send, bytes(65536))
    attempt(socket.socket, socket.AF_INET)
""",
    "epoll watches": """
import select
epolls, events = [select.epoll() for _ in range(240)], [os.eventfd(0) for _ in range(240)]
while True:
    for epoll in epolls:
        for event in events: attempt(epoll.register, event)
""",
    "descriptors in flight": """
here, there = socket.socketpair()
here.setblocking(False)
while True: attempt(socket.send_fds, here, [b"x"], [0] * 200)
""",
    "pipe pages": """
pipes = []
while True:
    attempt(lambda: pipes.append(os.pipe()))
    attempt(lambda: fcntl.fcntl(pipes[-1][1], fcntl.F_SETPIPE_SZ, 1 << 20))
""",
    "terminals": "while True: attempt(os.openpty)",
    "processes": """
import signal
while True:
    try:
        if not os.fork(): signal.pause()
    except OSError: pass
""",
    "memory, with PID 1 as the victim": """
write_file("/proc/self/oom_score_adj", "0")
kept = []
while True: kept.append(bytearray(16 << 20))
""",
    "50 results of 16 MB at once": "THREADS = 50\n"
    + TO_GATEWAY
    + 'forever(lambda: ask("/call", {"server": "hostile", "tool": "large", "arguments": {}}))',
    "requests of 4 MB": "THREADS = 8\n"
    + TO_GATEWAY
    + 'big = "x" * 3_600_000\n'
    + 'forever(lambda: ask("/call", {"server": "hostile", "tool": "large", "arguments": {"text": big}}))',
    "searches": "THREADS = 20\n" + TO_GATEWAY + 'forever(lambda: ask("/search", {"query": ["word " * 800] * 32}))',
    "refused requests on 20 connections that stay open": "THREADS = 20\n"
    + TO_GATEWAY
    + """
def be_refused():
    client = gateway_client()
    while True:
        client.request("POST", "/nothing", "{}", {"Authorization": f"Bearer {GRANT}"})
        client.getresponse().read()
forever(be_refused)
""",
    "requests that break off": "THREADS = 20\n"
    + TO_GATEWAY
    + """
def break_off():
    with to_gateway() as client:
        client.sendall(f"POST /call HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {GRANT}\\r\\n".encode()
                       + b"Content-Length: 5000\\r\\n\\r\\n{")
forever(break_off)
""",
}


@dataclass
class Felt:
    """What the honest tenant met: the time of each reply, and what went wrong."""

    milliseconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tenants:
    victim: Victim
    honest: Api
    hostile: Api


Attack = Callable[[Tenants], Awaitable[None]]


async def beside_attacks(figures: Figures, plan: Plan) -> None:
    async with _tenants() as tenants:
        await _felt(tenants, plan.beside_attack)  # the first ones warm up
        for name, attack in _attacks().items():
            quiet = await _felt(tenants, plan.beside_attack)
            attacking = asyncio.create_task(_again_and_again(attack, tenants))
            try:
                loud = await _felt(tenants, plan.beside_attack)
            finally:
                attacking.cancel()
                await asyncio.wait((attacking,))
            _add(figures, name, quiet, loud)
            await _until_calm(tenants)


def _attacks() -> dict[str, Attack]:
    programs = {name: _running(code) for name, code in PROGRAMS.items()}
    return {
        **programs,
        "1,000 connections with unfinished headers, without a key": _unfinished_headers,
        "unfinished bodies of 6 MB": _unfinished_bodies,
        "requests without end on 200 connections": _requests,
        "a server that lists 10,000 other tools each time": _listings,
    }


@asynccontextmanager
async def _tenants() -> AsyncIterator[Tenants]:
    with tempfile.TemporaryDirectory(prefix="figures-") as name, _hostile_server() as url:
        directory = Path(name)
        (directory / "roles.json").write_text(json.dumps({"roles": ROLES}))
        sample = {"command": sys.executable, "args": [str(ROOT / "tests" / "support" / "upstream_stdio.py")]}
        servers = {"sample": sample, "hostile": {"url": f"{url}/large/mcp"}}
        (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        places = {"roles_file": directory / "roles.json", "servers_file": directory / "servers.json"}
        async with Victim.in_directory(directory, **FULL_POOL, **places, check_seconds=1, relist_seconds=2) as victim:
            await victim.start()
            async with victim.caller("admin") as honest, victim.caller("developer") as hostile:
                await eventually(lambda: _listed(honest, "sample", "hostile"), seconds=30)
                yield Tenants(victim, honest, hostile)


@contextmanager
def _hostile_server() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.figures.hostile_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


async def _listed(api: Api, *servers: str) -> bool:
    _, health = await api.get("/health")
    return set(servers) <= set(health["toolsByServer"])


async def _felt(tenants: Tenants, count: int) -> Felt:
    felt = Felt()
    for _ in range(count):
        began = time.perf_counter()
        try:
            async with asyncio.timeout(30):
                status, body = await tenants.honest.post("/execute", {"code": HONEST, "language": "python"})
        except (TimeoutError, aiohttp.ClientError) as error:
            felt.failures.append(type(error).__name__)
            continue
        felt.milliseconds.append(1000 * (time.perf_counter() - began))
        if (status, body.get("outcome"), body.get("output")) != (200, "completed", "honest\n"):
            felt.failures.append(str(body.get("outcome") or body.get("code")))
    return felt


async def _again_and_again(attack: Attack, tenants: Tenants) -> None:
    while True:
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            await attack(tenants)
        await asyncio.sleep(0.05)


def _running(code: str) -> Attack:
    async def run(tenants: Tenants) -> None:
        await tenants.hostile.post("/execute", {"code": PRELUDE + code, "language": "python", "timeoutSeconds": 60})

    return run


async def _unfinished_headers(tenants: Tenants) -> None:
    port = int(tenants.victim.url.rpartition(":")[2])
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 8000) for n in range(120))
    opened = await asyncio.gather(*(_open(port, head) for _ in range(1000)), return_exceptions=True)
    await asyncio.sleep(2)
    for each in opened:
        if isinstance(each, asyncio.StreamWriter):
            each.close()


async def _unfinished_bodies(tenants: Tenants) -> None:
    port = int(tenants.victim.url.rpartition(":")[2])
    key = tenants.victim.installation.keys["developer"]
    head = (
        f"POST /execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: 6300000\r\n\r\n"
    ).encode() + b" " * 6_200_000
    opened = await asyncio.gather(*(_open(port, head) for _ in range(100)), return_exceptions=True)
    await asyncio.sleep(2)
    for each in opened:
        if isinstance(each, asyncio.StreamWriter):
            each.close()


async def _requests(tenants: Tenants) -> None:
    """Some for what costs little, some for what costs much; the attacker is a process of its own."""
    key = tenants.victim.installation.keys["developer"]
    command = [sys.executable, "-m", "tests.figures.flood", tenants.victim.url]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=subprocess.PIPE)
    try:
        await process.communicate(key.encode())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _open(port: int, data: bytes) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(5):
            await writer.drain()
    return writer


async def _listings(tenants: Tenants) -> None:
    """The server changes its listing without end; the daemon asks again every two seconds."""
    file = tenants.victim.installation.settings.servers_file
    before = file.read_text()
    document = json.loads(before)
    url = document["mcpServers"]["hostile"]["url"].replace("/large/", "/many/")
    document["mcpServers"]["many"] = {"url": url}
    file.write_text(json.dumps(document))
    try:
        await asyncio.Event().wait()
    finally:
        file.write_text(before)


async def _until_calm(tenants: Tenants) -> None:
    async def calm() -> bool:
        metrics = await tenants.honest.get("/executions?state=running&limit=5")
        return not metrics[1]["executions"] and await _listed(tenants.honest, "sample", "hostile")

    await eventually(calm, seconds=90)


def _add(figures: Figures, name: str, quiet: Felt, loud: Felt) -> None:
    before, after = percentile(quiet.milliseconds, 0.5), percentile(loud.milliseconds, 0.5)
    worst = f"p99 {percentile(loud.milliseconds, 0.99):.0f} against {percentile(quiet.milliseconds, 0.99):.0f} ms"
    failed = f"{len(loud.failures)} failures"
    if loud.failures:
        say(f"  failures beside {name}: {loud.failures[:5]}")
    figures.add(
        Figure(
            f"an honest tenant's program with a tool call, beside another tenant's attack: {name}",
            f"no failure, p50 at most {MOST_SLOWER:.0f} x",
            f"{failed}, {after / before:.1f} x ({after:.0f} against {before:.0f} ms), {worst}",
            len(loud.milliseconds) + len(loud.failures),
            not loud.failures and after <= MOST_SLOWER * before,
            alone("tenants"),
        )
    )
