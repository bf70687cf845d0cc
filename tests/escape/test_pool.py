"""Nothing passes from one execution to the next, and a warm sandbox that somebody touched is not used."""

import asyncio
from contextlib import suppress

import docker.errors
import pytest

from bench.testbed.engine import LABEL, engine, sandboxes_of
from tests.support.api import eventually, until
from tests.support.engine_proxy import EngineProxy
from tests.support.installation import Installation
from tests.support.metrics import gauges, until_warm
from tests.support.programs import held, probe
from tests.support.two_roles import alternate, bleed_among, two_roles

ALTERNATING_CALLS = 200


# --- markers: one sandbox after another ---


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """No warm sandboxes, so that the next one is made after the last one is gone."""
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
    """What the second program tells, after the first has been destroyed."""
    await until_gone(api)
    assert await probe(api, leave + "\ntell('left')") == "left"
    await until_gone(api)
    return await probe(api, look + "\ntell(found)")


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
        "import signal; kept = socket.socket(socket.AF_UNIX); kept.bind('/tmp/socket'); kept.listen(); "
        "os.fork() or (os.setsid(), signal.pause())",
        "found = attempt(lambda: socket.socket(socket.AF_UNIX).connect('/tmp/socket')) == 'ok'",
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


async def test_a_request_left_in_the_gateways_queue_is_worth_nothing_to_the_next(one_by_one):
    """A program fills the relay, leaves requests with its grant in the queue behind it, and ends."""
    leave = """
kept = []
for _ in range(150):
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    try: client.connect("\\0gateway")
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
client = gateway_client()
client.request("POST", "/search", b'{"query": "x"}', {"Authorization": "Bearer " + os.environ["CODE_EXECUTOR_GRANT"]})
found = client.getresponse().status
"""
    assert await in_turn(one_by_one, leave, look) == 200


# --- a warm sandbox that somebody touched ---


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


async def end_all(place, end):
    """End all warm sandboxes; the daemon hears of it no later than the engine forgets them."""
    ended = {container.id: container for container in warm_ones(place)}
    for container in ended.values():
        await asyncio.to_thread(end, container)
    await until(lambda: ended.keys().isdisjoint(container.id for container in warm_ones(place)))


async def test_a_warm_sandbox_killed_from_outside_is_not_noticed_by_the_caller(warm):
    api, place = warm
    await end_all(place, lambda container: container.kill())
    result = await api.python("print('served')")
    assert (result["outcome"], result["output"]) == ("completed", "served\n")


async def test_a_warm_sandbox_removed_from_outside_is_not_noticed_by_the_caller(warm):
    api, place = warm
    await end_all(place, lambda container: container.remove(force=True))
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


async def test_a_sandbox_that_was_put_on_a_network_is_discarded(warm):
    """Whoever can do that has the engine's socket; the daemon still does not go on using what it did not make."""
    api, place = warm
    touched = warm_ones(place)
    bridge = engine().networks.get("bridge")
    try:
        for sandbox in touched:
            await asyncio.to_thread(bridge.connect, sandbox.id)
        ids = {sandbox.id for sandbox in touched}
        await until(lambda: not ids & {sandbox.id for sandbox in warm_ones(place)}, seconds=30)
    finally:
        for sandbox in touched:
            await asyncio.to_thread(_disconnect, sandbox)
    await until_warm(api, 2)
    assert await probe(api, "tell(read_file('/proc/net/route').splitlines()[1:])") == []


def _disconnect(sandbox):
    bridge = engine().networks.get("bridge")
    if sandbox.id in bridge.attrs["Containers"]:
        with suppress(docker.errors.APIError):
            bridge.disconnect(sandbox.id, force=True)


# --- the leash ---


async def test_a_sandbox_ends_by_itself_when_its_leash_is_cut(tmp_path):
    """The daemon loses the engine and can remove nothing; what it held must not go on without it."""
    async with EngineProxy.listening(tmp_path / "engine.sock") as proxy:
        place = Installation.create(tmp_path, docker_host=proxy.docker_host, warm_floor=0, warm_ceiling=0)
        async with place.run() as api, held(api) as program:
            assert running(place)
            await proxy.go_away()
            await until(lambda: not running(place), seconds=30)
            await proxy.come_back()
            await eventually(lambda: _is_ready(api), seconds=60)
            await eventually(lambda: _has_ended(api, program.execution_id))
            _, record = await api.get(f"/executions/{program.execution_id}")
            assert record["outcome"] == "sandbox_error"


def running(place):
    return [each for each in sandboxes_of(place.owner) if each.status == "running"]


async def _has_ended(api, execution_id):
    return (await api.get(f"/executions/{execution_id}"))[1]["state"] == "finished"


async def _is_ready(api):
    return (await api.get("/readyz"))[0] == 200


# --- many calls of two roles ---


@pytest.mark.timeout(900)
async def test_alternating_calls_of_two_roles_never_meet(tmp_path):
    """Each call sees a clean sandbox, its own grant and what its own role may see."""
    async with two_roles(tmp_path) as callers:
        answers = await alternate(callers, ALTERNATING_CALLS)
    assert len(answers) == ALTERNATING_CALLS
    assert bleed_among(answers) == []
