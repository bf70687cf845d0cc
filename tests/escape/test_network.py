"""A sandbox reaches nothing: not the host, not the internet, not another sandbox."""

import asyncio
import socket
from contextlib import contextmanager

import pytest

from tests.support.host import own_ipv4_addresses, own_ipv6_addresses
from tests.support.programs import PRELUDE, UNTIL_ENDED, held, probe

UNREACHABLE = {"ENETUNREACH", "ENETDOWN", "EHOSTUNREACH", "EADDRNOTAVAIL"}
EVERYWHERE = "0.0.0.0"


@contextmanager
def open_to_the_world(kind=socket.SOCK_STREAM):
    """A port of this machine that anything with a way to it can reach."""
    with socket.socket(socket.AF_INET, kind) as door:
        door.bind((EVERYWHERE, 0))
        door.setblocking(False)
        if kind == socket.SOCK_STREAM:
            door.listen()
        yield door


def knocks(door):
    try:
        return [door.recvfrom(100)]
    except BlockingIOError:
        return []


async def test_the_sandbox_reaches_itself(api):
    """The control of every test here: the probes do connect and send where there is a way."""
    code = """
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.sendto(b"knock", datagrams.getsockname())
tell([attempt(connect, "127.0.0.1", port), datagrams.recv(10).decode(), attempt(connect, "127.0.0.1", 1)])
"""
    assert await probe(api, code) == ["ok", "knock", "ECONNREFUSED"]


async def test_no_address_of_the_host_is_reachable(api):
    addresses = own_ipv4_addresses()
    assert addresses
    with open_to_the_world() as door:
        port = door.getsockname()[1]
        for address in addresses:  # the control: from here there is a way
            with socket.create_connection((address, port), timeout=5):
                pass
        ports = [port, 22, int(api.url.rpartition(":")[2])]
        code = f"tell({{f'{{a}}:{{p}}': attempt(connect, a, p) for a in {addresses} for p in {ports}}})"
        answers = await probe(api, code)
    assert set(answers.values()) <= UNREACHABLE, answers


async def test_binding_to_the_interface_opens_no_way_to_the_host(api):
    addresses = [*own_ipv4_addresses(), "224.0.0.1", "255.255.255.255"]
    with open_to_the_world() as door, open_to_the_world(socket.SOCK_DGRAM) as letterbox:
        tcp, udp = door.getsockname()[1], letterbox.getsockname()[1]
        code = f"""
tell({{address: [attempt(connect_through_eth0, address, {tcp}), attempt(send_through_eth0, address, {udp}),
                attempt(send_with_packet_info, address, {udp})] for address in {addresses}}})
"""
        answers = await probe(api, code, 60)
        assert knocks(letterbox) == []
        with pytest.raises(BlockingIOError):
            door.accept()
    assert "ok" not in {connected for connected, *_ in answers.values()}, answers


async def test_the_letterbox_of_that_test_does_receive(api):
    with open_to_the_world(socket.SOCK_DGRAM) as letterbox:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"knock", (own_ipv4_addresses()[0], letterbox.getsockname()[1]))
        assert [data for data, _ in knocks(letterbox)] == [b"knock"]


async def test_the_daemon_is_not_on_the_sandboxs_loopback(api):
    port = int(api.url.rpartition(":")[2])
    assert await probe(api, f"tell(attempt(connect, '127.0.0.1', {port}))") == "ECONNREFUSED"


async def test_the_internet_and_the_metadata_service_are_unreachable(api):
    addresses = ["1.1.1.1", "8.8.8.8", "169.254.169.254", "169.254.170.2", "100.100.100.200", "10.0.0.1", "192.168.0.1"]
    answers = await probe(api, f"tell({{a: attempt(connect, a, 80) for a in {addresses}}})")
    assert set(answers.values()) <= UNREACHABLE, answers


async def test_typescript_cannot_fetch_from_anywhere(api):
    code = """
        import { createServer } from 'node:http';
        const server = createServer((_, reply) => reply.end('control'));
        await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
        const own = `http://127.0.0.1:${(server.address() as { port: number }).port}/`;
        for (const url of [own, 'http://169.254.169.254/latest/meta-data', 'https://1.1.1.1/', 'http://example.com/']) {
            try { console.log(await (await fetch(url)).text()); }
            catch (error) { console.log((error as any).cause.code); }
        }
        process.exit(0);
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
tell([resolve(name) for name in ("example.com", "host.docker.internal", "mcp-proxy", "localhost")])
"""
    *names, control = await probe(api, code)
    assert names == [None, None, None]
    assert control in ("127.0.0.1", "::1")


async def test_the_engines_name_server_does_not_answer(api):
    code = """
question = b"\\x12\\x34\\x01\\x00\\x00\\x01" + bytes(6) + b"\\x07sandbox\\x00\\x00\\x01\\x00\\x01"
def ask(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.sendto(question, (address, port))
        client.recv(512)
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("127.0.0.1", 0))
import threading
threading.Thread(target=lambda: echo.sendto(*echo.recvfrom(512)), daemon=True).start()
tell([attempt(ask, "127.0.0.11", 53), attempt(ask, *echo.getsockname())])
"""
    engine, control = await probe(api, code)
    assert engine in UNREACHABLE
    assert control == "ok"


async def test_there_is_no_way_over_ipv6(api):
    addresses = ["2606:4700:4700::1111", "fe80::1%eth0", "ff02::1%eth0", *own_ipv6_addresses()]
    scoped = [a if "%" in a or not a.startswith("fe80") else f"{a}%eth0" for a in addresses]
    code = f"""
def connect_ipv6(address):
    host, _, scope = address.partition("%")
    index = int(read_file(f"/sys/class/net/{{scope}}/ifindex")) if scope else 0
    with socket.socket(socket.AF_INET6) as client:
        client.settimeout(2)
        client.connect((host, 22, 0, index))
tell([{{a: attempt(connect_ipv6, a) for a in {scoped}}}, attempt(connect_ipv6, "::1")])
"""
    answers, own = await probe(api, code)
    assert set(answers.values()) <= UNREACHABLE | {"EAFNOSUPPORT"}, answers
    assert own in {"ECONNREFUSED"} | UNREACHABLE | {"EAFNOSUPPORT"}


# --- another sandbox ---

LISTENER = (
    PRELUDE
    + """
listener = bound_to_eth0(socket.SOCK_STREAM)
listener.bind(("0.0.0.0", 7000))
listener.listen()
ordinary = socket.create_server(("0.0.0.0", 7001))
letterbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
letterbox.bind(("0.0.0.0", 7002))
assert attempt(connect, own_address(), 7001) == "ok"
ordinary.accept()
os.write(1, f"{own_address()}\\n".encode())
"""
)
REPORT = """
import select
while True:
    for ready in select.select([listener, ordinary, letterbox], [], [])[0]:
        os.write(1, b"REACHED\\n")
        ready.recvfrom(100) if ready is letterbox else ready.accept()
"""


async def test_two_sandboxes_cannot_reach_each_other(api):
    """Not even when both want to: one listens on its interface, the other knocks through its own."""
    async with held(api, LISTENER + REPORT) as other:
        code = f"""
neighbour = {other.line!r}
tell([own_address(), attempt(connect, neighbour, 7001), attempt(connect_through_eth0, neighbour, 7000),
      attempt(send_through_eth0, neighbour, 7002), attempt(send_with_packet_info, neighbour, 7002),
      attempt(send_through_eth0, "255.255.255.255", 7002), attempt(send_through_eth0, "224.0.0.1", 7002)])
"""
        own, plain, *through_interface = await probe(api, code, 60)
        _, record = await api.get(f"/executions/{other.execution_id}")
    assert own != other.line
    assert plain in UNREACHABLE
    assert through_interface[0] != "ok"
    assert record["state"] == "running"
    assert "REACHED" not in record["output"]


async def test_two_sandboxes_share_no_loopback_and_no_abstract_socket(api):
    listener = """
import os, socket
tcp = socket.create_server(("127.0.0.1", 7003))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0shared")
abstract.listen()
os.write(1, b"listening\\n")
"""
    knock = """
def connect_abstract():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\\0shared")
tell([attempt(connect, "127.0.0.1", 7003), attempt(connect_abstract)])
"""
    async with held(api, listener + UNTIL_ENDED):
        assert await probe(api, knock) == ["ECONNREFUSED", "ECONNREFUSED"]
    control = listener.replace('os.write(1, b"listening\\n")', "") + knock
    assert await probe(api, control) == ["ok", "ok"]


async def test_nothing_waits_in_the_network_for_the_next_sandbox(api):
    """The next sandbox may get the same slot: what the last one opened there is gone."""
    listen = (
        "import socket, os\nkept = socket.create_server(('127.0.0.1', 7004))\nos.fork() or os.setsid()\nprint('open')"
    )
    for _ in range(3):
        assert (await api.python(listen))["outcome"] == "completed"
        assert await probe(api, "tell(attempt(connect, '127.0.0.1', 7004))") == "ECONNREFUSED"


async def test_many_sandboxes_at_once_each_see_their_own_network(api):
    code = "tell([own_address(), attempt(socket.create_server, ('127.0.0.1', 7005))])"
    answers = await asyncio.gather(*(probe(api, code) for _ in range(4)))
    assert {answer for _, answer in answers} == {"ok"}
