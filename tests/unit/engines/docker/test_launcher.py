"""What the launcher obeys and what it refuses, and what it makes of an engine that refuses."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import resource
import socket
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import docker.errors
import pytest
import requests
import uvloop

from orchestrator.domain.errors import EngineUnavailable, InvalidRequest
from orchestrator.domain.execution import Language, Recipe
from orchestrator.domain.sandbox import Finding, SandboxSpec, Verdict
from orchestrator.engines.docker import launcher as launcher_module
from orchestrator.engines.docker import launcher_client, launcher_server, lockdown
from orchestrator.engines.docker.engine import DockerEngine
from orchestrator.engines.docker.launcher import Launcher
from orchestrator.engines.docker.launcher_client import LauncherClient
from orchestrator.engines.docker.launcher_process import LauncherProcess
from orchestrator.engines.docker.lockdown import Bounds, Confinement
from orchestrator.engines.docker.orders import LEAST_CPUS, Create, Fate, Remove, encode
from orchestrator.engines.docker.places import Places
from orchestrator.service.readiness import Readiness
from orchestrator.service.reaper import Reaper
from tests.support.api import until
from tests.support.fake_journal import FakeJournal
from tests.support.launcher import served
from tests.support.samples import limits

REASON = "no space left on device"
MOST = Bounds(memory_bytes=1 << 30, cpus=1, max_processes=256, workspace_bytes=500 << 20, scratch_bytes=100 << 20)
SPEC = SandboxSpec(Recipe(Language.PYTHON), limits(), "e", lifetime_seconds=30)
STUCK, FIRST, SECOND = "0" * 64, "a" * 64, "b" * 64
OWN = {"mcp-code-executor": "sandbox", "mcp-code-executor.owner": "owner", "mcp-code-executor.epoch": "before"}


class Refusing:
    """The SDK's client of an engine that answers everything with the status 500, except what a test replaces."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*arguments: Any, **options: Any) -> Any:
            raise docker.errors.APIError("500 Server Error", explanation=REASON)

        return refuse

    def close(self) -> None:
        pass


@pytest.fixture
def launcher():
    policy = Confinement(image="image", seccomp_profile='{"syscalls": []}', runtime="runc")
    launcher = Launcher("unix:///nowhere", policy, "owner", most=MOST, max_running=2, max_sandboxes=2, max_calls=2)
    launcher._client = launcher._checking_client = Refusing()
    return launcher


@pytest.fixture
def client(launcher, tmp_path):
    """The daemon's end of a real socket, with the launcher behind it."""
    with served(launcher, tmp_path / "launcher.sock", max_calls=4) as client:
        yield client


@pytest.fixture
def engine(client):
    async def nothing():
        pass

    return DockerEngine(client, "now", on_close=nothing)


def order(**changes: Any) -> Create:
    asked = {
        "language": Language.PYTHON,
        "epoch": "now",
        "execution_id": "execution",
        "lifetime_seconds": 30.0,
        "memory_bytes": 1 << 30,
        "cpus": 1.0,
        "max_processes": 256,
        "workspace_bytes": 500 << 20,
        "scratch_bytes": 100 << 20,
    }
    return Create(**asked | changes)


async def test_each_refusal_is_an_error_of_ours_that_names_the_reason(engine):
    create = partial(engine.create_sandbox, SPEC, lambda sandbox_id: None)
    for ask in (engine.prepare, create, engine.list_owned, partial(engine.remove, FIRST)):
        with pytest.raises(EngineUnavailable, match=REASON):
            await ask()


async def test_what_it_refuses_is_a_finding_of_the_doctor(engine, launcher):
    launcher._docker_host = "tcp://127.0.0.1:1"
    failed = [finding for finding in await engine.describe() if finding.verdict is Verdict.FAILED]
    assert [REASON in finding.detail for finding in failed] == [True]
    assert all(finding.fix for finding in failed)


async def test_the_daemon_says_why_it_is_not_ready(engine):
    readiness = Readiness(engine, FakeJournal())
    await readiness.check()
    assert REASON in readiness.problem.message


async def test_a_launcher_that_is_not_there_is_told_as_such(tmp_path):
    async def where():
        return tmp_path / "nobody.sock"

    with pytest.raises(EngineUnavailable, match=r"launcher.*does not answer"):
        await LauncherClient(where).check()


async def test_one_container_that_cannot_be_removed_does_not_keep_the_others(engine, launcher, monkeypatch):
    removed = []

    def remove(container_id, **options):
        if container_id == STUCK:
            raise docker.errors.APIError("500 Server Error", explanation="device or resource busy")
        removed.append(container_id)

    listed = [{"Id": name, "Labels": OWN, "Created": 1.0} for name in (STUCK, FIRST, SECOND)]
    inspected = {"Config": {"Labels": OWN}}
    monkeypatch.setattr(launcher._client, "containers", lambda **options: listed, raising=False)
    monkeypatch.setattr(launcher._client, "inspect_container", lambda name: inspected, raising=False)
    monkeypatch.setattr(launcher._client, "remove_container", remove, raising=False)
    assert await Reaper(engine, frozenset, stray_after_seconds=60).remove_orphans() == 2
    assert removed == [FIRST, SECOND]


@pytest.mark.parametrize(("deadline", "lifetime"), [("1060", 60.0), ("0", None), ("900", 0.0)])
async def test_a_lifetime_is_told_by_the_labels(engine, launcher, monkeypatch, deadline, lifetime):
    listed = [{"Id": FIRST, "Labels": {**OWN, "mcp-code-executor.deadline": deadline}, "Created": 1000}]
    monkeypatch.setattr(launcher._client, "containers", lambda **options: listed, raising=False)
    assert [owned.lifetime_seconds for owned in await engine.list_owned()] == [lifetime]


async def test_a_sandbox_that_got_a_network_is_told_as_tampered_with(engine, launcher, monkeypatch):
    networks = {"NetworkSettings": {"Networks": {"bridge": {}}}}
    listed = [
        {"Id": FIRST, "Labels": OWN, "Created": 1.0, **networks},
        {"Id": SECOND, "Labels": OWN, "Created": 1.0},
    ]
    monkeypatch.setattr(launcher._client, "containers", lambda **options: listed, raising=False)
    assert [owned.tampered for owned in await engine.list_owned()] == [True, False]


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"mcp-code-executor.owner": "owner"},
        {"mcp-code-executor": "sandbox", "mcp-code-executor.owner": "another"},
        {"mcp-code-executor": "network", "mcp-code-executor.owner": "owner"},
    ],
)
def test_what_is_not_a_sandbox_of_its_own_is_not_removed(launcher, monkeypatch, labels):
    removed = []
    monkeypatch.setattr(
        launcher._client, "inspect_container", lambda name: {"Config": {"Labels": labels}}, raising=False
    )
    monkeypatch.setattr(
        launcher._client, "remove_container", lambda name, **options: removed.append(name), raising=False
    )
    with pytest.raises(InvalidRequest, match="not a sandbox of this installation"):
        launcher.remove(Remove(container_id=FIRST, patience_seconds=0))
    assert removed == []


@pytest.mark.parametrize("bound", ["memory_bytes", "cpus", "max_processes", "workspace_bytes", "scratch_bytes"])
def test_a_sandbox_larger_than_the_launchers_own_bounds_is_refused(launcher, bound):
    with pytest.raises(InvalidRequest, match=bound):
        launcher.create(order(**{bound: getattr(MOST, bound) + 1}))
    with pytest.raises(EngineUnavailable, match=REASON):  # the control: within them it gets as far as the engine
        launcher.create(order())


def test_it_makes_no_more_sandboxes_than_it_may(launcher):
    for container_id in (FIRST, SECOND):
        launcher._places.occupy(launcher._places.reserve(lockdown.USERS), container_id)
    with pytest.raises(EngineUnavailable, match="as many as may be at once"):
        launcher.create(order())


def test_no_two_sandboxes_in_a_row_are_the_same_user(launcher):
    places = Places(1000)
    users = [launcher._config(order(), places.reserve(lockdown.USERS))["User"] for _ in range(1000)]
    assert len(set(users)) == 1000
    for user, group in (each.split(":") for each in users):
        assert (user, int(user) in lockdown.USERS) == (group, True)


OPEN_FILES = """
import os
for descriptor in os.listdir("/proc/self/fd"):
    if os.path.exists(f"/proc/self/fd/{descriptor}"):
        print(os.stat(f"/proc/self/fd/{descriptor}").st_ino)
"""


async def files_of_a_child() -> list[int]:
    """What a server has open that is started as the upstreams start theirs."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", OPEN_FILES), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    async with asyncio.timeout(30):
        told, _ = await process.communicate()
    return [int(number) for number in told.split()]


@pytest.mark.processes
def test_a_server_that_the_daemon_starts_inherits_no_leash(launcher, client, monkeypatch):
    """The daemon's event loop closes nothing in its children: whatever may be inherited is."""
    ours, theirs = socket.socketpair()
    number = os.fstat(theirs.fileno()).st_ino
    monkeypatch.setattr(launcher, "create", lambda order: (FIRST, theirs))

    async def held() -> tuple[list[int], list[int]]:
        _, leash = await client.create(order())
        with leash:
            beside = await files_of_a_child()
            leash.set_inheritable(True)
            return beside, await files_of_a_child()

    with ours:
        beside, control = uvloop.run(held())
    assert number not in beside
    assert number in control


HOSTILE = [
    b"",
    b"\n",
    b"GET /containers/json HTTP/1.1\r\n\r\n",
    b'{"verb": "exec", "container_id": "x"}\n',
    b'{"verb": "create"}\n',
    b'{"verb": "list", "filters": {"label": "x"}}\n',
    json.dumps({"verb": "remove", "container_id": "../../images/x", "patience_seconds": 0}).encode() + b"\n",
    json.dumps({"verb": "remove", "container_id": "mcp-postgres", "patience_seconds": 0}).encode() + b"\n",
    encode(order()).replace(b'"python"', b'"bash"'),
    encode(order()).replace(b'"execution"', b'"a b\\u0000"'),
    encode(order()).replace(b'"execution"', b'"x", "HostConfig": {"Privileged": true}, "extra": "'),
    encode(order()).replace(b"30.0", b"Infinity"),
    encode(order()).replace(b'"cpus":1.0', b'"cpus":1e-10'),  # the engine would make it no limit at all
    encode(order()).replace(b'"cpus":1.0', b'"cpus":0.000005'),
    encode(order()).replace(b"256", b"-1"),
    b"x" * 100_000,
    b'{"verb": "list"}\n{"verb": "list"}\n',
]


@pytest.mark.parametrize("sent", HOSTILE)
async def test_whatever_is_not_exactly_an_order_reaches_no_engine(engine, launcher, tmp_path, sent):
    used = []
    launcher._client = type("Noting", (Refusing,), {"__getattr__": lambda self, name: used.append(name)})()

    def ask() -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "launcher.sock"))
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                return connection.recv(65536)
            except ConnectionError:
                return b""

    answer = await asyncio.to_thread(ask)
    assert answer == b"" or json.loads(answer)["refused"] == "invalid_request"
    assert used == []


async def test_an_order_reaches_the_engine(engine, launcher, monkeypatch):
    """The control of the attacks above."""
    monkeypatch.setattr(launcher._client, "containers", lambda **options: [], raising=False)
    assert await engine.list_owned() == []


async def test_limits_of_an_execution_travel_with_the_order(engine, launcher, monkeypatch):
    asked = []
    monkeypatch.setattr(launcher, "create", lambda order: asked.append(order) or launcher.check())
    with pytest.raises(EngineUnavailable):
        await engine.create_sandbox(replace(SPEC, limits=replace(limits(), max_processes=77)), lambda name: None)
    assert [(each.language, each.max_processes, each.epoch) for each in asked] == [(Language.PYTHON, 77, "now")]


def test_so_little_of_a_cpu_would_be_no_limit(launcher):
    """The control of two of the attacks above: 0 means none to the engine."""
    config = launcher._config(order().model_copy(update={"cpus": 1e-10}), 1)
    assert config["HostConfig"]["NanoCpus"] == 0
    assert launcher._config(order(cpus=LEAST_CPUS), 1)["HostConfig"]["NanoCpus"] == 10_000_000


# --- whoever has the socket takes as much as there is ---


@contextmanager
def connections(path, count, sent=b""):
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(10)
            connection.connect(str(path))
            with suppress(OSError):  # it may have hung up already
                connection.sendall(sent)
            made.append(connection)
        yield made


async def test_connections_without_a_whole_order_keep_nobody_from_giving_one(engine, launcher, tmp_path, monkeypatch):
    monkeypatch.setattr(launcher._client, "containers", lambda **options: [], raising=False)
    path = tmp_path / "launcher.sock"
    with connections(path, 100), connections(path, 100, sent=b'{"verb": "li'):
        async with asyncio.timeout(4):
            assert await engine.list_owned() == []


async def test_one_that_asks_and_does_not_listen_is_given_up(engine, launcher, tmp_path, monkeypatch):
    monkeypatch.setattr(launcher_server, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(launcher, "look", lambda: [Finding("x", Verdict.OK, "y" * 8_000_000)])
    monkeypatch.setattr(launcher._client, "containers", lambda **options: [], raising=False)
    with connections(tmp_path / "launcher.sock", 8, sent=b'{"verb": "look"}\n'):
        async with asyncio.timeout(20):
            assert await engine.list_owned() == []


async def test_more_orders_than_a_daemon_has_are_refused_and_the_others_are_obeyed(
    engine, launcher, tmp_path, monkeypatch
):
    monkeypatch.setattr(launcher_server, "MAX_ORDERS", 6)
    held, asked = threading.Event(), []
    monkeypatch.setattr(launcher, "check", lambda: asked.append(1) or held.wait(30))
    with connections(tmp_path / "launcher.sock", 10, sent=b'{"verb": "check"}\n') as made:
        refused = [json.loads(await asyncio.to_thread(each.recv, 4096))["refused"] for each in made[6:]]
        held.set()
        told = [json.loads(await asyncio.to_thread(each.recv, 4096)) for each in made[:6]]
    assert refused == ["engine_unavailable"] * 4
    assert (told, len(asked)) == ([{"told": True}] * 6, 6)


async def test_nothing_is_made_for_one_who_has_gone_while_the_order_waited(engine, launcher, tmp_path, monkeypatch):
    held, asked, made = threading.Event(), [], []
    monkeypatch.setattr(launcher, "list_owned", lambda: asked.append(1) or held.wait(30))
    monkeypatch.setattr(launcher, "create", lambda order: made.append(order) or launcher.check())
    with connections(tmp_path / "launcher.sock", 4, sent=b'{"verb": "list"}\n') as busy:
        await until(lambda: len(asked) == 4)  # now no thread is left for what follows
        with connections(tmp_path / "launcher.sock", 20, sent=encode(order())):
            pass
        held.set()
        for each in busy:
            await asyncio.to_thread(each.recv, 4096)
    with pytest.raises(EngineUnavailable):
        await engine.create_sandbox(SPEC, lambda sandbox_id: None)
    assert len(made) == 1  # the control: of one who waits, it is


async def test_a_check_does_not_wait_for_removals_that_take_long(engine, launcher, tmp_path, monkeypatch):
    held, removing = threading.Event(), []
    monkeypatch.setattr(launcher, "remove", lambda order: removing.append(order) or held.wait(30))
    monkeypatch.setattr(launcher, "check", lambda: None)
    slow = encode(Remove(container_id=FIRST, patience_seconds=2.0))
    with connections(tmp_path / "launcher.sock", 20, sent=slow):
        await until(lambda: len(removing) == 4)  # now no thread is left for a fifth
        try:
            await engine.prepare()
        finally:
            held.set()


@pytest.mark.processes
async def test_a_launcher_that_runs_out_of_descriptors_serves_again_when_there_are_some():
    nowhere = {"CODE_EXECUTOR_DOCKER_HOST": "unix:///nowhere", "PATH": os.environ["PATH"]}
    process = LauncherProcess("owner", {**nowhere, "PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    try:
        path = await process.where()
        resource.prlimit(process._process.pid, resource.RLIMIT_NOFILE, (32, 32))
        with connections(path, 200), pytest.raises(EngineUnavailable, match="The container engine does not answer"):
            await LauncherClient(process.where).check()
        with pytest.raises(EngineUnavailable, match="The container engine does not answer"):  # it answers, to say that
            await LauncherClient(process.where).check()
    finally:
        await process.end()


class Making(Refusing):
    """An engine that makes containers as soon as it is let, and starts none."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.ids = map("{:064x}".format, count(1))
        self.made: list[str] = []
        self.listed: list[str] = []
        self.names: list[str] = []

    def events(self, **options: Any) -> Any:
        return iter(())

    def create_container_from_config(self, config: Any, name: str) -> Any:
        self.names.append(name)
        self.made.append(next(self.ids))
        self.go.wait(10)
        return {"Id": self.made[-1]}

    def containers(self, **options: Any) -> Any:
        return [{"Id": each, "Labels": OWN, "Created": 1.0} for each in self.listed]

    def info(self) -> Any:
        return {}


async def test_no_more_sandboxes_are_made_however_many_are_asked_for_at_once(launcher):
    launcher._client = api = Making()
    launcher._verified_and_started = lambda api, container_id, config: socket.socket()
    asking = [asyncio.create_task(asyncio.to_thread(launcher.create, order())) for _ in range(6)]
    await until(lambda: len([each for each in asking if each.done()]) == 4)
    api.go.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, tuple):
            answer[1].close()
    assert len(api.made) == 2
    assert sum(isinstance(answer, EngineUnavailable) for answer in answers) == 4


def test_every_sandbox_has_a_name_of_its_own_that_holds_nothing_of_the_order(launcher):
    launcher._client = api = Making()
    api.go.set()
    launcher._verified_and_started = lambda api, container_id, config: socket.socket()
    for number in range(2):
        launcher.create(order(execution_id=f"hostile{number}", epoch="strange"))[1].close()
    assert len(set(api.names)) == 2
    assert all(re.fullmatch(r"mcp-sandbox-[0-9a-f]{12}", name) for name in api.names)


class Checking(Refusing):
    """An engine that has the image and some runtimes, and counts how often it is asked for them."""

    def __init__(self, *runtimes: str) -> None:
        self.runtimes = runtimes
        self.asked = 0

    def ping(self) -> bool:
        return True

    def inspect_image(self, name: str) -> Any:
        return {"Id": name}

    def info(self) -> Any:
        self.asked += 1
        return {"Runtimes": {name: {} for name in self.runtimes}}


async def test_without_its_runtime_the_daemon_is_not_ready_and_says_which_there_are(engine, launcher):
    launcher._checking_client = Checking("kata", "crun")
    readiness = Readiness(engine, FakeJournal())
    await readiness.check()
    assert readiness.problem.code == "runtime_missing"
    assert readiness.problem.message == "The engine has no runtime runc, only crun, kata."
    assert "CODE_EXECUTOR_RUNTIME" in readiness.problem.hint


async def test_a_runtime_that_was_found_is_not_asked_for_again(engine, launcher):
    launcher._checking_client = api = Checking("crun")
    readiness = Readiness(engine, FakeJournal())
    await readiness.check()
    api.runtimes = ("crun", "runc")  # an engine takes up new ones while it runs
    for _ in range(3):
        await readiness.check()
        assert readiness.ready
    assert api.asked == 2


async def test_a_list_that_is_older_than_a_sandbox_does_not_make_room_for_another(launcher):
    launcher._client = api = Making()
    api.go.set()
    launcher._verified_and_started = lambda api, container_id, config: socket.socket()

    def while_the_list_is_made(**options: Any) -> Any:
        for _ in range(2):
            launcher.create(order())[1].close()
        return []

    api.containers = while_the_list_is_made
    launcher.list_owned()
    with pytest.raises(EngineUnavailable, match="as many as may be at once"):
        launcher.create(order())


def test_a_launcher_that_was_started_again_counts_the_sandboxes_of_the_one_before(launcher, monkeypatch):
    api = Making()
    api.listed = [FIRST, SECOND]
    launcher._client = None
    monkeypatch.setattr(launcher_module, "_connect", lambda *arguments, **options: api)
    with pytest.raises(EngineUnavailable, match="as many as may be at once"):
        launcher.create(order())
    api.listed = [FIRST]
    launcher.list_owned()
    api.create_container_from_config = Refusing().create_container_from_config
    with pytest.raises(EngineUnavailable, match=REASON):  # the control: there is room for one
        launcher.create(order())


def test_no_two_sandboxes_that_exist_are_the_same_user_even_where_numbers_are_few():
    places, few = Places(10), range(2_000, 2_005)
    first = places.reserve(few)
    places.occupy(first, FIRST)
    for _ in range(20):
        user = places.reserve(few)
        assert user != first
        places.give_back(user)


# --- what the kernel ended for want of memory ---


class Telling(Making):
    """An engine that tells of a lack of memory as soon as somebody listens."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners = 0

    def events(self, **options: Any) -> Any:
        self.listeners += 1
        return iter([{"Actor": {"ID": f"{self.listeners:064x}"}}])


async def test_a_launcher_that_was_started_again_hears_of_sandboxes_that_run_already(launcher, monkeypatch):
    api = Telling()
    launcher._client = None
    monkeypatch.setattr(launcher_module, "_connect", lambda *arguments, **options: api)
    launcher.list_owned()
    await until(lambda: launcher.fate(Fate(container_id=f"{1:064x}"))["out_of_memory"])


async def test_a_watch_that_was_lost_begins_again_although_no_sandbox_is_made(launcher):
    launcher._client = api = Telling()

    def is_heard(number: int) -> bool:
        launcher.list_owned()
        return bool(launcher.fate(Fate(container_id=f"{number:064x}"))["out_of_memory"])

    await until(lambda: is_heard(1))
    await until(lambda: is_heard(2))
    assert api.made == []


def test_what_exists_is_listed_although_the_engine_tells_of_no_events(launcher, monkeypatch):
    listed = [{"Id": FIRST, "Labels": OWN, "Created": 1.0}]
    monkeypatch.setattr(launcher._client, "containers", lambda **options: listed, raising=False)
    assert [each["id"] for each in launcher.list_owned()] == [FIRST]


# --- an engine that breaks off, or a launcher that fails ---


def break_off(*arguments: Any, **options: Any) -> Any:
    raise requests.exceptions.ChunkedEncodingError("Connection broken: IncompleteRead(0 bytes read)")


async def test_an_engine_that_dies_while_it_answers_is_told_as_such(engine, launcher, monkeypatch):
    monkeypatch.setattr(launcher._client, "containers", break_off, raising=False)
    with pytest.raises(EngineUnavailable, match="The container engine does not answer"):
        await engine.list_owned()


async def test_a_sandbox_is_removed_although_waiting_for_its_end_broke_off(launcher, monkeypatch):
    removed = []
    launcher._places.occupy(launcher._places.reserve(lockdown.USERS), FIRST)
    monkeypatch.setattr(launcher._client, "wait", break_off, raising=False)
    monkeypatch.setattr(
        launcher._client, "remove_container", lambda name, **options: removed.append(name), raising=False
    )
    launcher.remove(Remove(container_id=FIRST, patience_seconds=2.0))
    assert removed == [FIRST]


async def test_a_launcher_that_fails_itself_says_so_and_does_not_break_off(engine, launcher, monkeypatch):
    def run_out(order: Create) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(launcher, "create", run_out)
    with pytest.raises(EngineUnavailable, match=r"The launcher failed \(OSError\)"):
        await engine.create_sandbox(SPEC, lambda sandbox_id: None)


# --- an engine or a launcher that does not answer ---


@pytest.fixture
def mute(tmp_path):
    """A socket that takes connections and says nothing until it is closed."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "mute.sock"))
        listener.listen()
        yield tmp_path / "mute.sock"


def test_a_check_gives_an_engine_that_does_not_answer_little_time_whatever_others_give_it(launcher, mute, monkeypatch):
    monkeypatch.setattr(launcher_module, "CHECK_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(launcher_module, "CALL_TIMEOUT_SECONDS", 600)
    launcher._docker_host, launcher._client, launcher._checking_client = f"unix://{mute}", None, None
    with launcher._connecting, pytest.raises(EngineUnavailable, match="timed out"):  # as another call that waits
        launcher.check()


async def test_a_check_gives_a_launcher_that_does_not_answer_little_time(mute, monkeypatch):
    monkeypatch.setattr(launcher_client, "CHECK_TIMEOUT_SECONDS", 0.2)

    async def where():
        return mute

    async with asyncio.timeout(30):
        with pytest.raises(EngineUnavailable, match="no answer in time"):
            await LauncherClient(where).check()


@pytest.mark.processes
async def test_a_check_that_gives_up_leaves_the_launcher_starting(monkeypatch, tmp_path):
    process = LauncherProcess("owner", {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await process.where()
    path = await process.where()
    assert path.is_socket()
    started = process._process
    assert (await process.where(), process._process) == (path, started)
    started.kill()
    await started.wait()
    assert (await process.where()).is_socket()  # one that died is started again
    assert process._process is not started
    await process.end()
