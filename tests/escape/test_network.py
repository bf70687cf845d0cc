"""A sandbox reaches nothing: not the host, not the internet, not another sandbox.

There are two walls, and each is attacked alone: a program can make no network socket, and its namespace leads nowhere.
The second is attacked from inside the namespace, with all the rights of the host's root.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from bench.testbed.engine import engine, sandboxes_for
from tests.support.host import own_ipv4_addresses, own_ipv6_addresses
from tests.support.installation import Installation
from tests.support.programs import PRELUDE, UNTIL_ENDED, held, probe

UNREACHABLE = {"ENETUNREACH", "ENETDOWN", "EHOSTUNREACH", "EADDRNOTAVAIL"}
EVERYWHERE = "0.0.0.0"
ELSEWHERE = [
    *("1.1.1.1", "8.8.8.8", "169.254.169.254", "169.254.170.2", "100.100.100.200", "10.0.0.1", "192.168.0.1"),
    "224.0.0.1",
]
LOOPBACK = ["127.0.0.1", "127.0.0.11"]


@pytest.fixture(scope="module")
async def cold(tmp_path_factory):
    """No warm sandboxes, so that a container is known by its execution."""
    place = Installation.create(tmp_path_factory.mktemp("cold"), warm_floor=0, warm_ceiling=0)
    async with place.run() as api:
        yield api


@contextmanager
def open_to_the_world(kind=socket.SOCK_STREAM):
    """A port of this machine that anything with a way to it can reach."""
    with socket.socket(socket.AF_INET, kind) as listener:
        listener.bind((EVERYWHERE, 0))
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        yield listener


def knocks(letterbox):
    try:
        return [letterbox.recvfrom(100)]
    except BlockingIOError:
        return []


def connects(listener):
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


# --- the program ---


async def test_no_address_of_the_host_is_reachable(api):
    addresses = own_ipv4_addresses()
    assert addresses
    with open_to_the_world() as listener:
        port = listener.getsockname()[1]
        for address in addresses:  # the control: from here there is a way
            with socket.create_connection((address, port), timeout=5):
                assert connects(listener)
        ports = [port, 22, int(api.url.rpartition(":")[2])]
        code = f"tell({{f'{{a}}:{{p}}': attempt(connect, a, p) for a in {addresses} for p in {ports}}})"
        answers = await probe(api, code)
        assert not connects(listener)
    assert set(answers.values()) <= UNREACHABLE, answers


async def test_the_daemon_is_not_on_the_sandboxs_loopback(api):
    port = int(api.url.rpartition(":")[2])
    assert await probe(api, f"tell(attempt(connect, '127.0.0.1', {port}))") in UNREACHABLE


async def test_the_internet_and_the_metadata_service_are_unreachable(api):
    answers = await probe(api, f"tell({{a: attempt(connect, a, 80) for a in {[*ELSEWHERE, *LOOPBACK]}}})")
    assert set(answers.values()) <= UNREACHABLE, answers


async def test_typescript_cannot_fetch_from_anywhere(api):
    code = """
        import { createServer, request } from 'node:http';
        const server = createServer((_, reply) => reply.end('control'));
        await new Promise<void>((done) => server.listen('\\0own', done));
        request({ socketPath: '\\0own' }, async (reply) => {
            for await (const piece of reply) console.log(String(piece));
            for (const url of ['http://169.254.169.254/latest/meta-data', 'https://1.1.1.1/', 'http://example.com/']) {
                try { console.log(await (await fetch(url)).text()); }
                catch (error) { console.log((error as any).cause.code); }
            }
            process.exit(0);
        }).end();
    """
    result = await api.typescript(code)
    own, metadata, internet, named = result["output"].split()
    assert own == "control"
    assert {metadata, internet} <= UNREACHABLE
    assert named in ("EAI_AGAIN", "ENOTFOUND", "ECONNREFUSED")


async def test_names_are_not_resolved(api):
    code = """
def resolve(name):
    try:
        return socket.getaddrinfo(name, 80)[0][4][0]
    except socket.gaierror:
        return None
tell([resolve(name) for name in ("example.com", "host.docker.internal", "mcp-proxy", "127.0.0.1")])
"""
    *names, control = await probe(api, code)
    assert names == [None, None, None]
    assert control == "127.0.0.1"


async def test_there_is_no_way_over_ipv6(api):
    addresses = ["2606:4700:4700::1111", "fe80::1", "ff02::1", "::1", *own_ipv6_addresses()]
    answers = await probe(api, f"tell({{a: attempt(connect, a, 22, socket.AF_INET6) for a in {addresses}}})")
    assert set(answers.values()) <= UNREACHABLE, answers


async def test_a_socket_that_the_supervisor_made_cannot_be_had(api):
    """The door is the only socket that the program did not make; it takes connections and nothing else."""
    code = """
def take_the_door():
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind("\\0gateway")
def take_another():
    with socket.socket(socket.AF_UNIX) as free:
        free.bind("\\0another")
tell([attempt(take_the_door), attempt(take_another)])
"""
    assert await probe(api, code) == ["EADDRINUSE", "ok"]


# --- the namespace, without the wall before it ---

FROM_INSIDE = """
def send(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.sendto(b"knock", (address, port))
def send_through(device, address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, device.encode())
        sender.sendto(b"knock", (address, port))
devices = [line.partition(":")[0].strip() for line in read_file("/proc/self/net/dev").splitlines()[2:]]
tell({
    "devices": devices,
    "routes": read_file("/proc/self/net/route").splitlines()[1:],
    "connected": {a: attempt(connect, a, TCP) for a in ADDRESSES},
    "sent": {a: attempt(send, a, UDP) for a in ADDRESSES},
    "sent through": {a: [attempt(send_through, device, a, UDP) for device in devices] for a in ADDRESSES},
})
"""


def from_inside(pid, addresses, tcp, udp):
    """Probe from the network namespace of a process, as root and without a filter; without a pid, from the host's."""
    if os.geteuid() != 0:
        pytest.skip("only root can enter the namespace of a sandbox")
    code = f"{PRELUDE}\nADDRESSES, TCP, UDP = {addresses}, {tcp}, {udp}\n{FROM_INSIDE}"
    enter = ["nsenter", f"--target={pid}", "--net"] if pid else []
    done = subprocess.run([*enter, sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


async def test_the_namespace_of_a_sandbox_leads_nowhere_even_for_root(cold):
    addresses = own_ipv4_addresses()
    with open_to_the_world() as listener, open_to_the_world(socket.SOCK_DGRAM) as letterbox:
        tcp, udp = listener.getsockname()[1], letterbox.getsockname()[1]
        control = await asyncio.to_thread(from_inside, None, addresses, tcp, udp)
        assert set(control["connected"].values()) == {"ok"}
        assert connects(listener)
        assert knocks(letterbox)
        while connects(listener) or knocks(letterbox):
            pass
        async with held(cold) as program:
            (sandbox,) = sandboxes_for(program.execution_id)
            pid = engine().api.inspect_container(sandbox.id)["State"]["Pid"]
            found = await asyncio.to_thread(from_inside, pid, [*addresses, *ELSEWHERE, *LOOPBACK], tcp, udp)
        assert not connects(listener)
        assert not knocks(letterbox)
    assert found["devices"] == ["lo"]
    assert found["routes"] == []
    # Loopback is there, as in every namespace, and nobody listens.
    assert {found["connected"].pop(address) for address in LOOPBACK} == {"ECONNREFUSED"}
    assert set(found["connected"].values()) <= UNREACHABLE, found
    assert {answer for address, answer in found["sent"].items() if address not in LOOPBACK} <= UNREACHABLE, found


async def test_two_sandboxes_are_in_two_namespaces_and_neither_is_the_hosts(cold):
    async with held(cold) as one, held(cold) as other:
        pids = [
            engine().api.inspect_container(sandboxes_for(each.execution_id)[0].id)["State"]["Pid"]
            for each in (one, other)
        ]
        namespaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in (*pids, "self")}
    assert len(namespaces) == 3


# --- another sandbox ---


async def test_two_sandboxes_share_no_abstract_socket(api):
    listener = """
import os, socket
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0shared")
abstract.listen()
os.write(1, b"listening\\n")
"""
    knock = """
def connect_abstract():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\\0shared")
tell(attempt(connect_abstract))
"""
    async with held(api, listener + UNTIL_ENDED):
        assert await probe(api, knock) == "ECONNREFUSED"
    control = listener.replace('os.write(1, b"listening\\n")', "") + knock
    assert await probe(api, control) == "ok"


LEFT = """
found = sorted(line.split()[-1] for line in read_file("/proc/net/unix").splitlines()[1:] if "@" in line)
counted = [line for line in read_file("/proc/net/dev").splitlines()[2:] if set(line.split()[1:]) != {"0"}]
"""


async def test_nothing_waits_in_the_network_for_the_next_sandbox(api):
    """Neither a socket nor a count: the namespace is as new as the sandbox."""
    leave = """
kept = socket.socket(socket.AF_UNIX)
kept.bind("\\0left")
kept.listen()
"""
    assert await probe(api, leave + LEFT + "tell([found, counted])") == [["@gateway", "@left"], []]
    for _ in range(3):
        assert await probe(api, leave + "tell('left')") == "left"
        assert await probe(api, LEFT + "tell([found, counted])") == [["@gateway"], []]
