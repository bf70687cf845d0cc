"""The engine goes away or hangs; the daemon says so and recovers without a restart."""

import asyncio

import pytest

from bench.testbed.engine import containers_of
from orchestrator.engines.docker import engine as docker_engine
from tests.support.api import until_ready
from tests.support.engine_proxy import EngineProxy
from tests.support.installation import Installation

HELLO = {"code": "print(1)", "language": "python"}


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
    async with asyncio.timeout(30):
        while not (await api.python("print(1)"))["warm"]:
            await asyncio.sleep(0.2)


async def test_a_stopped_engine_is_a_503_with_the_cause_and_the_daemon_recovers_with_a_full_pool(proxied):
    api, proxy = proxied
    await proxy.go_away()
    problem = await until_unready(api)
    assert (problem["code"], bool(problem["hint"])) == ("engine_unavailable", True)
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


async def test_a_hanging_engine_is_noticed_and_survived(proxied, monkeypatch):
    api, proxy = proxied
    monkeypatch.setattr(docker_engine, "CALL_TIMEOUT_SECONDS", 1)
    proxy.hang()
    status, _ = await api.get("/livez")
    assert status == 200
    proxy.flow()
    await until_ready(api)
    assert (await api.python("print(1)"))["outcome"] == "completed"
