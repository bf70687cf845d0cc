"""Nothing passes from one execution to the next, and a warm sandbox that somebody touched is not used."""

import asyncio
import json
from pathlib import Path

import pytest

from bench.testbed.engine import LABEL, engine, sandboxes_of
from tests.support.api import eventually, until
from tests.support.engine_proxy import EngineProxy
from tests.support.installation import Installation
from tests.support.metrics import gauges
from tests.support.programs import held, probe
from tests.support.two_roles import alternate, bleed_among, two_roles

ALTERNATING_CALLS = 200


# --- markers: one slot, one sandbox after another ---


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """No warm sandboxes, so that the next execution gets the slot of the last one."""
    return Installation.create(tmp_path_factory.mktemp("one-by-one"), warm_floor=0, warm_ceiling=0)


@pytest.fixture(scope="module")
async def one_by_one(single):
    async with single.run() as api:
        yield api


async def until_gone(api):
    async def gone():
        return (await gauges(api))["code_executor_sandboxes"] == 0

    await eventually(gone)


async def in_turn(api, leave, look):
    """What the second program tells, after the first has been destroyed; both in the same slot."""
    await until_gone(api)
    first = await probe(api, leave + "\ntell(own_address())")
    await until_gone(api)
    second, told = await probe(api, look + "\ntell([own_address(), found])")
    assert first == second, "the second sandbox got another slot, so the test would prove nothing"
    return told


async def in_one(api, leave, look):
    """The control: the same two programs as one."""
    return await probe(api, leave + "\n" + look + "\ntell(found)")


MARKERS = {
    "a file": (
        "for place in ('/workspace', '/tmp', '/tmp/executions'): write_file(f'{place}/marker')",
        "found = [p for p in ('/workspace', '/tmp', '/tmp/executions') if os.path.exists(f'{p}/marker')]",
        ["/workspace", "/tmp", "/tmp/executions"],
    ),
    "a variable": (
        "os.environ['MARKER'] = '1'; os.putenv('MARKER', '1')",
        "found = os.environ.get('MARKER')",
        "1",
    ),
    "a listening socket": (
        "import signal; kept = socket.create_server(('127.0.0.1', 7010)); os.fork() or (os.setsid(), signal.pause())",
        "found = attempt(connect, '127.0.0.1', 7010) == 'ok'",
        True,
    ),
    "an abstract socket": (
        "kept = socket.socket(socket.AF_UNIX); kept.bind('\\0marker'); kept.listen()",
        "found = '@marker' in read_file('/proc/net/unix')",
        True,
    ),
    "a module": (
        "write_file('/workspace/planted.py', 'marker = 1')",
        "import importlib.util; importlib.invalidate_caches(); found = importlib.util.find_spec('planted') is not None",
        True,
    ),
    "a mounted name": (
        "os.symlink('/etc/passwd', '/tmp/link'); os.mkfifo('/tmp/pipe')",
        "found = sorted(name for name in os.listdir('/tmp') if name in ('link', 'pipe'))",
        ["link", "pipe"],
    ),
}


@pytest.mark.parametrize("name", MARKERS)
async def test_a_marker_is_not_there_for_the_next_execution(one_by_one, name):
    leave, look, seen = MARKERS[name]
    assert await in_one(one_by_one, leave, look) == seen
    assert await in_turn(one_by_one, leave, look) in (False, [], None)


async def test_a_process_does_not_live_on_in_the_next_execution(one_by_one):
    leave = "import signal\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\n    while True: signal.pause()"
    look = "found = [pid for pid in os.listdir('/proc') if pid.isdecimal()]"
    assert len(await in_one(one_by_one, leave, look)) > 2
    assert len(await in_turn(one_by_one, leave, look)) == 2


async def test_shared_memory_of_the_system_is_not_there_to_leave_anything_in(one_by_one):
    look = """
queues = os.listdir("/dev/mqueue") if os.path.exists("/dev/mqueue") else []
found = [os.path.exists("/dev/shm"), system_call("shmget", 77, 4096, 0o1666), queues]
"""
    assert await in_turn(one_by_one, "", look) == [False, "EPERM", []]


async def test_all_that_is_left_in_a_slots_network_are_counters(one_by_one):
    """Closed connections may be counted (and wait as TIME_WAIT on the loopback); none is open, and no address leaks."""
    leave = """
kept = [socket.create_server(("127.0.0.1", 7011))] + [socket.create_connection(("127.0.0.1", 7011)) for _ in range(5)]
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.bind(("127.0.0.1", 7012))
"""
    look = """
def entries(name):
    lines = [line.split()[1:4] for line in read_file(f"/proc/net/{name}").splitlines()[1:]]
    return [line for line in lines if not line[0].startswith(ENGINES_NAME_SERVER)]  # is there, and cannot be reached
ENGINES_NAME_SERVER = "0B00007F"
LISTEN, TIME_WAIT, GATEWAY, LOOPBACK = "0A", "06", "0100007F:2384", "0100007F"
tcp = entries("tcp")
found = {
    "open": [e for e in tcp if e[2] not in (LISTEN, TIME_WAIT)],
    "listening": [e[0] for e in tcp if e[2] == LISTEN and e[0] != GATEWAY],
    "elsewhere": [e for e in tcp if not e[0].startswith(LOOPBACK)],
    "udp": entries("udp"),
}
"""
    control = await in_one(one_by_one, leave, look)
    assert (len(control["listening"]), len(control["udp"])) == (1, 1)
    assert len(control["open"]) >= 5
    assert await in_turn(one_by_one, leave, look) == {"open": [], "listening": [], "elsewhere": [], "udp": []}


async def test_a_request_left_in_the_gateways_queue_is_worth_nothing_to_the_next(one_by_one):
    """A program fills the relay, leaves requests with its grant in the queue behind it, and ends."""
    leave = """
kept = []
for _ in range(150):
    client = socket.socket()
    client.setblocking(False)
    try: client.connect(("127.0.0.1", 9092))
    except BlockingIOError: pass
    kept.append(client)
body = b'{"query": "x"}'
request = (f"POST /search HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {os.environ['CODE_EXECUTOR_GRANT']}\\r\\n"
           f"Content-Length: {len(body)}\\r\\n\\r\\n").encode() + body
for client in kept:
    try: client.send(request)
    except OSError: pass
"""
    look = """
import http.client
client = http.client.HTTPConnection("127.0.0.1", 9092, timeout=20)
client.request("POST", "/search", b'{"query": "x"}', {"Authorization": "Bearer " + os.environ["CODE_EXECUTOR_GRANT"]})
found = client.getresponse().status
"""
    assert await in_turn(one_by_one, leave, look) == 200


# --- a warm sandbox that somebody touched ---


async def until_warm(api, count=1):
    async def warm():
        return (await gauges(api))["code_executor_warm"] >= count

    await eventually(warm, seconds=30)


def warm_ones(installation):
    labels = [f"{LABEL}=sandbox", f"{LABEL}.owner={installation.owner}", f"{LABEL}.execution=warm"]
    return engine().containers.list(filters={"label": labels}, ignore_removed=True)


@pytest.fixture
async def warm(tmp_path):
    """A daemon with a few warm sandboxes that no other test uses."""
    place = Installation.create(tmp_path, warm_floor=1, warm_ceiling=1)
    async with place.run() as api:
        await until_warm(api, 2)
        assert (await api.python("print('warm')"))["warm"] is True  # the control
        await until_warm(api, 2)
        yield api, place


async def test_a_warm_sandbox_killed_from_outside_is_not_noticed_by_the_caller(warm):
    api, place = warm
    for container in warm_ones(place):
        await asyncio.to_thread(container.kill)
    result = await api.python("print('served')")
    assert (result["outcome"], result["output"]) == ("completed", "served\n")


async def test_a_warm_sandbox_removed_from_outside_is_not_noticed_by_the_caller(warm):
    api, place = warm
    for container in warm_ones(place):
        await asyncio.to_thread(container.remove, force=True)
    result = await api.python("print('served')")
    assert (result["outcome"], result["output"]) == ("completed", "served\n")


async def test_a_warm_sandbox_whose_slot_was_killed_is_not_used(warm):
    api, place = warm
    for slot in sandboxes_of(place.owner, "slot"):
        await asyncio.to_thread(slot.kill)
    result = await api.python("print('served')")
    assert (result["outcome"], result["output"]) == ("completed", "served\n")


async def test_a_warm_sandbox_frozen_from_outside_fails_closed(warm):
    api, place = warm
    for container in warm_ones(place):
        if "python" in container.attrs["Config"]["Entrypoint"]:
            await asyncio.to_thread(container.pause)
    result = await api.python("print('served')", 1)
    assert (result["outcome"], result["output"]) in (("timed_out", ""), ("sandbox_error", ""))
    await until_no_paused(place)
    result = await api.python("print('served')")
    assert (result["outcome"], result["output"]) == ("completed", "served\n")


async def until_no_paused(place):
    label = f"{LABEL}.owner={place.owner}"
    await until(lambda: not engine().containers.list(filters={"label": label, "status": "paused"}), seconds=30)


async def test_a_slot_that_was_put_on_another_network_is_discarded(warm):
    """Whoever can do that has the engine's socket; the daemon still does not go on using what it did not make."""
    api, place = warm
    touched = sandboxes_of(place.owner, "slot")
    for slot in touched:
        await asyncio.to_thread(engine().networks.get("bridge").connect, slot.id)
    try:
        ids = {slot.id for slot in touched}
        await until(lambda: not ids & {slot.id for slot in sandboxes_of(place.owner, "slot")}, seconds=15)
    finally:
        for slot in touched:
            await asyncio.to_thread(_disconnect, slot)
    await until_warm(api, 2)
    assert await probe(api, "tell(read_file('/proc/net/route').splitlines()[1:])") == []


def _disconnect(slot):
    bridge = engine().networks.get("bridge")
    bridge.reload()
    if slot.id in bridge.attrs["Containers"]:
        bridge.disconnect(slot.id, force=True)


# --- the leash ---


async def test_a_sandbox_ends_by_itself_when_its_leash_is_cut(tmp_path):
    """The daemon loses the engine and can remove nothing; what it held must not go on without it."""
    async with EngineProxy.listening(tmp_path / "engine.sock") as proxy:
        place = Installation.create(tmp_path, docker_host=proxy.docker_host, warm_floor=0, warm_ceiling=0)
        async with place.run() as api, held(api) as program:
            assert running(place)
            await proxy.go_away()
            await until(lambda: not running(place), seconds=15)
            await proxy.come_back()
            await eventually(lambda: _is_ready(api), seconds=20)
            _, record = await api.get(f"/executions/{program.execution_id}")
            assert record["outcome"] == "sandbox_error"


def running(place):
    return [each for each in sandboxes_of(place.owner) if each.status == "running"]


async def _is_ready(api):
    return (await api.get("/readyz"))[0] == 200


# --- slots ---


async def test_a_slot_is_locked_down_like_a_sandbox(one_by_one, single):
    await one_by_one.python("print('a slot is there')")
    slot = sandboxes_of(single.owner, "slot")[0]
    inspected = engine().api.inspect_container(slot.id)
    host, config = inspected["HostConfig"], inspected["Config"]
    assert (host["ReadonlyRootfs"], host["Privileged"], host["AutoRemove"]) == (True, False, True)
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["NET_ADMIN"])
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (64 << 20, 64 << 20, 8)
    assert (host["IpcMode"], host["LogConfig"]["Type"], host["PidMode"]) == ("none", "none", "")
    assert (host["Dns"], host["DnsSearch"]) == (["127.0.0.1"], ["."])
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert [
        json.loads(o.removeprefix("seccomp="))["defaultAction"] for o in host["SecurityOpt"] if "seccomp=" in o
    ] == ["SCMP_ACT_ERRNO"]
    assert {"/proc/kcore", "/sys/kernel"} <= set(host["MaskedPaths"])
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(host["ReadonlyPaths"])
    assert (config["OpenStdin"], config["StdinOnce"]) == (True, True)
    assert inspected["Mounts"] == []


async def test_a_slots_own_process_has_no_capability_left(one_by_one, single):
    await one_by_one.python("print('a slot is there')")
    for slot in sandboxes_of(single.owner, "slot"):
        pid = engine().api.inspect_container(slot.id)["State"]["Pid"]
        status = _status_of(pid)
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")


def _status_of(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


# --- many calls of two roles ---


@pytest.mark.timeout(900)
async def test_alternating_calls_of_two_roles_never_meet(tmp_path):
    """Each call sees a clean sandbox, its own grant and what its own role may see."""
    async with two_roles(tmp_path) as callers:
        answers = await alternate(callers, ALTERNATING_CALLS)
    assert len(answers) == ALTERNATING_CALLS
    assert bleed_among(answers) == []
