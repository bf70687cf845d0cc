"""The engine goes away or hangs, or its launcher does; the daemon says so and recovers without a restart."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.testbed.engine import containers_of
from orchestrator.daemon import build_engine
from orchestrator.domain.execution import Language, Outcome, Recipe
from orchestrator.domain.sandbox import Program, SandboxSpec
from orchestrator.engines.docker.orders import Fate
from orchestrator.instance import instance_id
from orchestrator.launcher import build_launcher
from tests.support.api import eventually, until, until_ready
from tests.support.engine_proxy import EngineProxy
from tests.support.installation import PROJECT, Installation
from tests.support.metrics import gauges
from tests.support.programs import held
from tests.support.samples import limits

HELLO = {"code": "print(1)", "language": "python"}
ENDLESS = "while True: pass"


@pytest.fixture
async def proxied(tmp_path):
    async with EngineProxy.listening(tmp_path / "engine.sock") as proxy:
        place = Installation.create(tmp_path, docker_host=proxy.docker_host)
        async with place.run() as api:
            yield api, proxy
    assert not containers_of(place.owner)


async def until_unready(api) -> dict:
    async with asyncio.timeout(20):
        while True:
            status, problem = await api.get("/readyz")
            if status == 503:
                return problem
            await asyncio.sleep(0.05)


async def until_warm(api) -> None:
    async with asyncio.timeout(60):
        while not (await api.python("print(1)"))["warm"]:
            await asyncio.sleep(0.2)


async def until_one_of_each_waits(api) -> None:
    await eventually(lambda: is_filled(api), seconds=30)


async def is_filled(api) -> bool:
    return (await gauges(api))["code_executor_warm"] >= len(Language)


async def test_a_stopped_engine_is_a_503_with_the_cause_and_the_daemon_recovers_with_a_full_pool(proxied):
    api, proxy = proxied
    await proxy.go_away()
    problem = await until_unready(api)
    assert (problem["code"], bool(problem["hint"])) == ("engine_unavailable", True)
    assert isinstance(problem["findings"], list)
    async with api.as_caller(None) as stranger:
        status, told = await stranger.get("/readyz")
        assert (status, told["code"], "findings" in told) == (503, "engine_unavailable", False)
    status, refusal = await api.post("/execute", HELLO)
    assert (status, refusal["code"]) == (503, "engine_unavailable")
    await proxy.come_back()
    await until_ready(api)
    await until_warm(api)


async def test_an_engine_that_dies_under_a_running_program_is_our_fault_and_keeps_the_output(proxied):
    api, proxy = proxied
    events = api.stream("print('begun')\nwhile True: pass", "python", timeout_seconds=60)
    printed = ""
    async for _, fields in events:
        printed += fields.get("text", "")
        if printed.endswith("\n"):
            break
    await proxy.go_away()
    (result,) = [fields async for name, fields in events if name == "result"]
    assert (result["outcome"], result["output"]) == ("sandbox_error", "begun\n")
    await proxy.come_back()
    await until_ready(api)


async def test_a_hanging_engine_is_told_within_seconds_and_executions_are_refused_at_once(proxied):
    api, proxy = proxied
    proxy.hang()
    problem = await until_unready(api)
    assert (problem["code"], "does not answer" in problem["detail"]) == ("engine_unavailable", True)
    async with asyncio.timeout(20):  # a call of the engine would take thirty
        status, refusal = await api.post("/execute", HELLO)
        assert (status, refusal["code"]) == (503, "engine_unavailable")
        assert (await api.get("/livez"))[0] == 200
    proxy.flow()
    await until_ready(api)
    await until_warm(api)


async def test_a_program_that_a_hanging_engine_kept_from_running_did_not_time_out(proxied):
    api, proxy = proxied
    assert (await api.python(ENDLESS, timeout_seconds=1))["outcome"] == "timed_out"  # the control
    await until_one_of_each_waits(api)
    proxy.hang()
    result = await api.python("print('never printed')", timeout_seconds=0.5)
    assert (result["outcome"], result["output"]) == ("sandbox_error", "")
    assert result["error"]["code"] == "engine_unavailable"
    assert "did not answer while the program should have run" in result["error"]["detail"]
    proxy.flow()
    await until_ready(api)
    await until_warm(api)
    assert (await api.typescript("console.log(1)"))["output"] == "1\n"


async def test_a_program_whose_stream_alone_is_stuck_ends_at_its_timeout(proxied):
    """The daemon's own clock ends it, as when the supervisor fails: the engine answers, so it is not to blame."""
    api, proxy = proxied
    await until_one_of_each_waits(api)
    proxy.hang_streams()
    result = await api.python("print('never printed')", timeout_seconds=0.5)
    assert (result["outcome"], result["output"]) == ("timed_out", "")
    assert (await api.get("/readyz"))[0] == 200
    proxy.flow()
    await until_warm(api)


# --- the launcher ---


def launcher_of(installation: Installation) -> int:
    """The process that its daemon started; other daemons of this process have theirs."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    words = {int(child): Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in children}
    (found,) = [child for child, line in words.items() if {b"launcher", installation.owner.encode()} <= set(line)]
    return found


async def test_a_launcher_that_dies_is_started_again_and_takes_no_program_along(own_installation):
    async with own_installation.run() as api, held(api) as program:
        before = launcher_of(own_installation)
        os.kill(before, signal.SIGKILL)
        await until(lambda: launcher_or_none(own_installation) not in (None, before), seconds=20)
        await until_ready(api)
        assert (await api.python("print('works')"))["output"] == "works\n"
        _, record = await api.get(f"/executions/{program.execution_id}")
        assert record["state"] == "running"
    assert not containers_of(own_installation.owner)


def launcher_or_none(installation: Installation) -> int | None:
    try:
        return launcher_of(installation)
    except (ValueError, OSError):
        return None


async def test_a_launcher_that_hangs_is_told_within_seconds(own_installation):
    async with own_installation.run() as api:
        launcher = launcher_of(own_installation)
        os.kill(launcher, signal.SIGSTOP)
        try:
            problem = await until_unready(api)
        finally:
            os.kill(launcher, signal.SIGCONT)
        assert (problem["code"], "launcher" in problem["detail"]) == ("engine_unavailable", True)
        await until_ready(api)
        assert (await api.python("print('works')"))["output"] == "works\n"
    assert not containers_of(own_installation.owner)


async def test_a_launcher_hears_of_a_lack_of_memory_in_a_sandbox_that_the_one_before_made(own_installation):
    settings = own_installation.settings
    owner = instance_id(settings.instance_file)
    engine, later = build_engine(settings, owner), build_launcher(settings, owner)
    spec = SandboxSpec(Recipe(Language.PYTHON), limits(), "execution", lifetime_seconds=60)
    sandbox = await engine.create_sandbox(spec, lambda sandbox_id: asyncio.Protocol())
    try:
        assert [each["id"] for each in await asyncio.to_thread(later.list_owned)] == [sandbox.id]
        ending = await sandbox.run(Program("print(len(b'x' * (4 << 30)))", limits()), lambda stream, data: None)
        assert ending.outcome is Outcome.OUT_OF_MEMORY
        await until(lambda: later.fate(Fate(container_id=sandbox.id))["out_of_memory"])
    finally:
        await sandbox.destroy()
        await engine.close()
        later.close()
    assert not containers_of(owner)


@contextmanager
def launcher_at(path: Path):
    """A launcher of its own, as the one in a container is."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)}
    environment["CODE_EXECUTOR_LAUNCHER_SOCKET"] = str(path)
    process = subprocess.Popen([sys.executable, "-m", "orchestrator", "launcher"], env=environment, cwd=PROJECT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


async def test_a_launcher_elsewhere_may_go_away_and_come_back(tmp_path):
    path = tmp_path / "run" / "launcher.sock"
    place = Installation.create(tmp_path, launcher_socket=path)
    with launcher_at(path):
        await until(path.exists, seconds=20)
        async with place.run() as api:
            assert (await api.python("print('works')"))["output"] == "works\n"
    owner = path.with_name("owner-id").read_text()
    with launcher_at(path) as first:
        async with place.run() as api:
            first.terminate()
            problem = await until_unready(api)
            assert (problem["code"], "launcher" in problem["detail"]) == ("engine_unavailable", True)
            assert (await api.post("/execute", HELLO))[0] == 503
            with launcher_at(path):
                await until_ready(api)
                assert (await api.python("print('works')"))["output"] == "works\n"
                await api.session.close()
    await until(lambda: not containers_of(owner), seconds=20)
