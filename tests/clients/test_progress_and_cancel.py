"""What clients hear of a program that runs, and what becomes of it when they give it up."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.clients import CLIENTS, Client, Place
from tests.clients.conftest import installed
from tests.clients.conversation import send, started
from tests.clients.programs import RUNS_LONG
from tests.clients.scripted_model.script import Call, Say
from tests.clients.scripted_model.server import scripted_model
from tests.support.api import Api, eventually
from tests.support.installation import Installation

BY_NAME = {client.name: client for client in CLIENTS}
ONE_OF_EACH = list({client.environment: client for client in reversed(CLIENTS)}.values())
SCRIPT = (Call(RUNS_LONG.arguments), Say("It has run."))


@pytest.fixture
def place(api: Api, installation: Installation, tmp_path: Path) -> Callable[[str], Place]:
    return lambda model: Place(tmp_path, f"{api.url}/mcp", installation.keys["admin"], model, RUNS_LONG.arguments)


async def running_program(api: Api, *, has_printed: bool = True) -> str:
    """The id of the one program that runs, once it has printed something, if it must have."""
    found: list[str] = []

    async def is_up() -> bool:
        _, listed = await api.get("/executions", params={"state": "running"})
        for entry in listed["executions"]:
            _, record = await api.get(f"/executions/{entry['executionId']}")
            if record["output"] or not has_printed:
                found.append(record["executionId"])
        return bool(found)

    await eventually(is_up, seconds=60)
    return found[0]


async def until_cancelled(api: Api, execution_id: str) -> dict[str, Any]:
    records: list[dict[str, Any]] = []

    async def is_cancelled() -> bool:
        _, record = await api.get(f"/executions/{execution_id}")
        records.append(record)
        return bool(record["outcome"] == "cancelled")

    await eventually(is_cancelled, seconds=20)
    return records[-1]


async def next_progress(process: asyncio.subprocess.Process) -> dict[str, Any]:
    async with asyncio.timeout(60):
        async for line in process.stderr:
            if line.startswith(b'{"progress"'):
                return json.loads(line)
    raise AssertionError("the client ended and heard nothing")


@pytest.mark.parametrize("client", ONE_OF_EACH, ids=str)
async def test_an_interrupted_client_takes_its_program_with_it(client: Client, api: Api, place):
    async with scripted_model(*SCRIPT) as model, started(installed(client), place(model.url)) as process:
        execution_id = await running_program(api)
        send(signal.SIGINT, process)
        await until_cancelled(api, execution_id)


async def test_fastmcp_gives_up_a_call_and_stays_connected(api: Api, place):
    async with started(installed(BY_NAME["fastmcp"]), place(""), "cancel") as process:
        heard = await next_progress(process)
        await until_cancelled(api, heard["message"].split()[1])
        assert process.returncode is None


async def test_vercel_ai_gives_up_a_call_when_its_signal_is_aborted(api: Api, place):
    client = installed(BY_NAME["vercel-ai"])
    async with scripted_model(*SCRIPT) as model, started(client, place(model.url)) as process:
        execution_id = await running_program(api)
        send(signal.SIGUSR2, process)
        await until_cancelled(api, execution_id)


@pytest.mark.parametrize("name", ["fastmcp", "langchain", "pydantic-ai"])
async def test_a_client_hears_at_once_that_a_program_started_and_later_its_newest_line(name: str, api: Api, place):
    client = installed(BY_NAME[name])
    async with scripted_model(*SCRIPT) as model, started(client, place(model.url)) as process:
        first, second = await next_progress(process), await next_progress(process)
        while second["message"] == "running":  # on a busy machine it has not printed its line yet
            second = await next_progress(process)
        execution_id = await running_program(api)
        assert first["message"] == f"execution {execution_id} started"
        assert "up" in second["message"]
        assert second["progress"] > first["progress"]
        send(signal.SIGINT, process)
        await until_cancelled(api, execution_id)


async def test_openai_agents_gives_up_after_five_seconds_and_the_program_ends_with_it(api: Api, place):
    client = installed(BY_NAME["openai-agents"])
    async with scripted_model(*SCRIPT) as model, started(client, place(model.url)) as process:
        # The five seconds may be over before the program has printed something.
        execution_id = await running_program(api, has_printed=False)
        await until_cancelled(api, execution_id)
        await asyncio.wait_for(process.wait(), 60)
        assert model.asked_after(1).sent.texts
