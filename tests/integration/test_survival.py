"""The daemon stops, dies, comes back, and finds the world changed."""

import asyncio
import gc
import json
import os
import sqlite3
import tempfile
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager

import pytest

from bench.testbed.engine import (
    LABEL,
    containers_of,
    containers_of_epochs,
    engine,
    epochs_of,
    sandboxes_of,
)
from orchestrator.commands import keys
from orchestrator.daemon import instance_id, running_daemon
from orchestrator.domain.execution import Language
from orchestrator.journals import connection as journal
from tests.integration.conftest import NO_WARM_SANDBOXES
from tests.support.api import Api, eventually, until
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import PROJECT, Installation
from tests.support.metrics import gauges
from tests.support.programs import FOREVER, held
from tests.support.upstream_server import ScriptedProxy, Slow, serving, tool


async def record_of(api, execution_id):
    status, record = await api.get(f"/executions/{execution_id}")
    assert status == 200
    return record


def running_containers(owner):
    return engine().containers.list(filters={"label": f"{LABEL}.owner={owner}"}, ignore_removed=True)


# --- restart ---


async def test_the_journal_survives_a_restart(own_installation):
    async with own_installation.run() as api:
        finished = (await api.python("print('remembered')"))["executionId"]
        _, refused = await api.post("/execute", {"code": ""})
        async with held(api) as program:
            await api.delete(f"/executions/{program.execution_id}")
    async with own_installation.run() as api:
        assert (await record_of(api, finished))["output"] == "remembered\n"
        assert (await record_of(api, refused["executionId"]))["state"] == "refused"
        assert (await record_of(api, program.execution_id))["outcome"] == "cancelled"
        assert (await api.python("print('works')"))["output"] == "works\n"


async def test_an_installation_keeps_its_name_over_restarts(own_installation):
    async with own_installation.run():
        before = own_installation.owner
    async with own_installation.run():
        assert own_installation.owner == before


# --- death ---


@asynccontextmanager
async def a_stream_of(api, code=FOREVER):
    """A program that runs, whose caller does not mind the daemon's end."""
    events = api.stream(code, "python", 120)
    execution_id = (await anext(events))[1]["executionId"]
    await anext(events)
    reading = asyncio.create_task(_read_to_the_end(events))
    try:
        yield execution_id
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read_to_the_end(events):
    return [event async for event in events]


async def test_a_killed_daemon_leaves_no_running_sandbox_and_a_restart_no_container(own_installation):
    async with DaemonProcess.running(own_installation) as daemon, a_stream_of(daemon.api) as execution_id:
        owner = own_installation.owner
        assert sandboxes_of(owner)
        killed = epochs_of(owner)
        daemon.kill()
        await until(lambda: not running_containers(owner), seconds=30)
    async with own_installation.run() as api:
        # The new daemon's own warm sandboxes may be there already.
        await until(lambda: not containers_of_epochs(owner, killed), seconds=30)
        record = await record_of(api, execution_id)
        assert (record["state"], record["outcome"]) == ("interrupted", "sandbox_error")
        assert (await api.python("print('works')"))["output"] == "works\n"


async def test_a_killed_daemon_leaves_nothing_in_the_directory_of_temporary_files(own_installation, monkeypatch):
    with tempfile.TemporaryDirectory() as directory:  # short, as the name of a socket must be
        monkeypatch.setenv("TMPDIR", directory)
        async with DaemonProcess.running(own_installation) as daemon:
            assert os.listdir(directory)
            daemon.kill()
            await until(lambda: not os.listdir(directory), seconds=30)


@asynccontextmanager
async def an_installation_with_tools(directory):
    """One tool answers, the other never does."""
    proxy = ScriptedProxy("postgres")
    proxy.tools["postgres"].append(tool("slow"))
    proxy.behaviours["slow"] = Slow()
    async with serving(proxy.app()) as url:
        servers = directory / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"postgres": {"url": f"{url}/postgres/mcp"}}}))
        yield Installation.create(directory, servers_file=servers)


async def has_tools(api):
    return bool((await api.get("/health"))[1]["toolsByServer"].get("postgres"))


async def told_calls(api, execution_id):
    return [(call["tool"], call["outcome"]) for call in (await record_of(api, execution_id))["toolCalls"]]


async def test_a_killed_daemon_leaves_the_calls_of_what_it_interrupted_and_tells_which_were_in_flight(tmp_path):
    code = "from servers.postgres import echo, slow\necho()\nslow()"
    async with an_installation_with_tools(tmp_path) as installation:
        async with DaemonProcess.running(installation) as daemon:
            await eventually(lambda: has_tools(daemon.api))
            async with a_stream_of(daemon.api, code) as execution_id:
                await eventually(lambda: is_told(daemon.api, execution_id, [("echo", "done"), ("slow", "in_flight")]))
                daemon.kill()
                await until(lambda: not running_containers(installation.owner), seconds=30)
        async with installation.run() as api:
            assert (await record_of(api, execution_id))["state"] == "interrupted"
            assert await told_calls(api, execution_id) == [("echo", "done"), ("slow", "in_flight")]


async def is_told(api, execution_id, calls):
    return await told_calls(api, execution_id) == calls


@pytest.mark.parametrize("code", [FOREVER, "print('busy', flush=True)\nwhile True: pass"], ids=["waiting", "busy"])
async def test_sigterm_ends_a_running_execution_and_the_daemon_with_exit_code_0(own_installation, code):
    async with DaemonProcess.running(own_installation) as daemon, a_stream_of(daemon.api, code) as execution_id:
        owner = own_installation.owner
        assert await daemon.terminate() == 0
        assert containers_of(owner) == []
    async with own_installation.run() as api:
        record = await record_of(api, execution_id)
        assert (record["state"], record["outcome"]) == ("finished", "cancelled")


async def test_sigterm_lets_a_program_finish_within_the_grace(tmp_path):
    installation = Installation.create(tmp_path, shutdown_grace_seconds=20)
    code = "import sys, time\nsys.stdout.write('begun\\n')\ntime.sleep(1)\nprint('finished')"
    async with DaemonProcess.running(installation) as daemon:
        events = daemon.api.stream(code, "python")
        execution_id = (await anext(events))[1]["executionId"]
        await anext(events)
        daemon.process.terminate()
        last = (await _read_to_the_end(events))[-1]
        assert (last[0], last[1]["outcome"], last[1]["output"]) == ("result", "completed", "begun\nfinished\n")
        # Without a second signal, which may meet an interpreter that no longer handles it.
        assert await asyncio.to_thread(daemon.process.wait, 60) == 0
    async with installation.run() as api:
        assert (await record_of(api, execution_id))["outcome"] == "completed"


async def test_a_daemon_that_stops_takes_its_warm_sandboxes_along(own_installation):
    async with own_installation.run() as api:
        await api.python("pass")
        await until(lambda: sandboxes_of(own_installation.owner))
    assert containers_of(own_installation.owner) == []


async def test_a_sandbox_killed_from_outside_is_our_fault_and_the_next_call_works(tmp_path):
    installation = Installation.create(tmp_path, **NO_WARM_SANDBOXES)
    async with installation.run() as api:
        calling = asyncio.create_task(api.post("/execute", {"code": FOREVER, "language": "python"}))
        await until(lambda: running_sandboxes(installation))
        await eventually(lambda: has_printed(api))
        (sandbox,) = running_sandboxes(installation)
        sandbox.kill()
        status, result = await calling
        assert (status, result["outcome"], result["output"]) == (200, "sandbox_error", "running\n")
        assert result["error"]["code"] == "sandbox_error"
        assert (await api.python("print('works')"))["output"] == "works\n"


def running_sandboxes(installation):
    return [each for each in sandboxes_of(installation.owner) if each.status == "running"]


async def has_printed(api):
    _, listing = await api.get("/executions?limit=1")
    (newest,) = listing["executions"]
    return (await record_of(api, newest["executionId"]))["output"] == "running\n"


# --- what others left ---


@contextmanager
def left_behind(image, labels, *, started):
    container = engine().containers.create(image, entrypoint=["/bin/sleep", "600"], labels=labels, network_mode="none")
    if started:
        container.start()
    try:
        yield container.id
    finally:
        if is_there(container.id):
            container.remove(force=True)


def is_there(container_id):
    return any(each.id == container_id for each in engine().containers.list(all=True, ignore_removed=True))


async def test_orphans_of_an_earlier_start_are_reaped_and_foreign_containers_are_not(own_installation):
    settings = own_installation.settings
    owner = instance_id(settings.instance_file)
    orphan = {LABEL: "sandbox", f"{LABEL}.owner": owner, f"{LABEL}.epoch": "earlier", f"{LABEL}.deadline": "0"}
    foreign = {**orphan, f"{LABEL}.owner": "another installation"}
    image = settings.runner_image
    with ExitStack() as stack:
        ours = [stack.enter_context(left_behind(image, orphan, started=started)) for started in (True, False)]
        theirs = [stack.enter_context(left_behind(image, labels, started=True)) for labels in (foreign, {})]
        async with own_installation.run() as api:
            await until(lambda: not any(is_there(each) for each in ours), seconds=30)
            await api.python("pass")
            assert all(is_there(each) for each in theirs)
        assert all(is_there(each) for each in theirs)


async def test_two_installations_do_not_touch_each_others_containers(tmp_path):
    first, second = (Installation.create(tmp_path / name) for name in ("first", "second"))
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(first.run())
        program = await stack.enter_async_context(held(api))
        await eventually(lambda: is_filled_beside_one_program(api), seconds=30)
        before = {each.id for each in containers_of(first.owner)}
        async with second.run() as other:
            assert (await other.python("print('beside')"))["output"] == "beside\n"
            assert first.owner != second.owner
        assert {each.id for each in containers_of(first.owner)} == before
        assert (await record_of(api, program.execution_id))["state"] == "running"


async def is_filled_beside_one_program(api):
    """One sandbox of each language waits, and nothing is being started or destroyed."""
    seen = await gauges(api)
    return (seen["code_executor_warm"], seen["code_executor_sandboxes"]) == (len(Language), len(Language) + 1)


# --- keys ---


async def test_a_rotated_key_is_taken_up_without_a_restart(own_installation):
    files = keys.key_files(PROJECT / "roles.json", own_installation.settings.secrets_dir)
    old = own_installation.keys["developer"]
    async with own_installation.run() as api:
        assert await status_with(api, old) == 200
        (rotated,) = keys.rotate(files, "developer")
        await eventually(lambda: accepts(api, rotated.read()), seconds=20)
        assert await status_with(api, old) == 401
        assert (await api.get("/executions"))[0] == 200


async def test_a_key_whose_hash_is_removed_is_refused_without_a_restart(own_installation):
    files = keys.key_files(PROJECT / "roles.json", own_installation.settings.secrets_dir)
    (developer,) = [file for file in files if file.role == "developer"]
    async with own_installation.run() as api:
        assert await status_with(api, developer.read()) == 200
        developer.hash_path.unlink()
        await eventually(lambda: refuses(api, developer.read()), seconds=20)


async def status_with(api, key):
    async with api.as_caller(key) as other:
        return (await other.get("/executions"))[0]


async def accepts(api, key):
    return await status_with(api, key) == 200


async def refuses(api, key):
    return await status_with(api, key) == 401


# --- what the daemon needs is not there ---


@asynccontextmanager
async def not_ready(installation):
    async with (
        running_daemon(installation.settings) as daemon,
        Api.connect(f"http://127.0.0.1:{daemon.port}", installation.keys["admin"]) as api,
    ):
        await until(lambda: daemon.readiness.problem is None or daemon.readiness.problem.code != "not_ready")
        yield api


async def is_ready(api):
    return (await api.get("/readyz"))[0] == 200


async def tells(api, code):
    return (await api.get("/readyz"))[1].get("code") == code


async def test_a_missing_image_is_said_and_nothing_runs(tmp_path):
    async with not_ready(Installation.create(tmp_path, runner_image="mcp-code-executor/not-there:latest")) as api:
        await eventually(lambda: tells(api, "runner_image_missing"))  # a launcher that starts slowly is told first
        status, problem = await api.get("/readyz")
        assert (status, problem["code"]) == (503, "runner_image_missing")
        status, problem = await api.post("/execute", {"code": "1"})
        assert (status, problem["code"]) == (503, "runner_image_missing")
        assert "make image" in problem["hint"]


# The SDK leaves a socket that it could not connect to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_an_engine_that_does_not_answer_is_said_and_nothing_runs(tmp_path):
    async with not_ready(Installation.create(tmp_path, docker_host=f"unix://{tmp_path}/no.sock")) as api:
        status, problem = await api.get("/readyz")
        assert (status, problem["code"]) == (503, "engine_unavailable")
        status, problem = await api.post("/execute", {"code": "1"})
        assert (status, problem["code"]) == (503, "engine_unavailable")
        assert (await api.get("/livez"))[0] == 200
    gc.collect()


@contextmanager
def journal_locked(installation):
    """Another process holds the journal's write lock, as a backup might."""
    with closing(sqlite3.connect(installation.settings.journal_file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


async def test_nothing_runs_unrecorded(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "BUSY_TIMEOUT_SECONDS", 0.1)
    installation = Installation.create(tmp_path, **NO_WARM_SANDBOXES)
    async with installation.run() as api:
        with journal_locked(installation):
            status, problem = await api.post("/execute", {"code": "console.log('ran')"})
            assert (status, problem["code"]) == (503, "journal_unavailable")
            assert sandboxes_of(installation.owner) == []
        await eventually(lambda: is_ready(api))
        assert (await api.python("print('works')"))["output"] == "works\n"
