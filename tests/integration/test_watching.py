"""What happens is told as it happens, counted afterwards, and shown to those who may see it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.api import Api
from tests.support.installation import Installation
from tests.support.pinging import pinging

CALL = "from servers.postgres import ping\nping()\nprint('Pong was here')\n"


@pytest.fixture(scope="module")
async def place(tmp_path_factory):
    async with pinging(tmp_path_factory.mktemp("watching")) as callers:
        yield callers


class Listener:
    def __init__(self, response: Any) -> None:
        self._response = response
        self.heard: list[tuple[str, dict[str, Any]]] = []

    async def until(self, name: str, **fields: Any) -> dict[str, Any]:
        """Listen until an event has these fields."""
        async with asyncio.timeout(30):
            while True:
                block = (await self._response.content.readuntil(b"\n\n")).decode()
                told = dict(line.split(": ", 1) for line in block.strip().splitlines())
                event, data = told["event"], json.loads(told["data"])
                self.heard.append((event, data))
                if event == name and all(data.get(field) == value for field, value in fields.items()):
                    return data


@asynccontextmanager
async def listening(api: Api):
    async with api.session.get(f"{api.url}/events") as response:
        assert response.status == 200
        listener = Listener(response)
        await listener.until("server", server="postgres")
        yield listener


async def test_an_execution_is_heard_of_from_its_beginning_to_its_end(place):
    admin, developer = place
    async with listening(admin) as listener:
        reply = await developer.python(CALL)
        ended = await listener.until("execution", executionId=reply["executionId"], state="finished")
        assert (ended["outcome"], ended["toolCallCount"]) == ("completed", 1)
        mine = [(name, data) for name, data in listener.heard if data.get("executionId") == reply["executionId"]]
        steps = [data["state"] if name == "execution" else data["outcome"] for name, data in mine]
        assert steps == ["running", "in_flight", "done", "finished"]


async def test_a_developer_hears_of_its_own_only(place):
    admin, developer = place
    async with listening(developer) as listener:
        other = await admin.python("print(1)")
        own = await developer.python("print(2)")
        await listener.until("execution", executionId=own["executionId"], state="finished")
        assert other["executionId"] not in json.dumps(listener.heard)


async def test_a_refusal_is_heard_of(place):
    admin, _ = place
    async with listening(admin) as listener:
        status, problem = await admin.post("/execute", {"code": " "})
        assert status == 422
        told = await listener.until("execution", state="refused")
        assert told["executionId"] == problem["executionId"]


async def test_what_is_heard_of_as_finished_is_in_the_list(place):
    admin, developer = place
    async with listening(admin) as listener:
        running = asyncio.create_task(developer.python("print(3)"))
        told = await listener.until("execution", state="finished")
        _, page = await admin.get("/executions?limit=1&state=finished")
        assert page["executions"][0]["executionId"] == told["executionId"]
        await running


async def test_the_program_is_kept_and_only_for_those_who_see_the_execution(place):
    admin, developer = place
    reply = await admin.python("print('kept')")
    _, detail = await admin.get(f"/executions/{reply['executionId']}")
    assert detail["programKept"] is True
    async with admin.session.get(f"{admin.url}/executions/{reply['executionId']}/program") as response:
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert await response.text() == "print('kept')"
    assert (await developer.get(f"/executions/{reply['executionId']}/program"))[0] == 404


async def test_with_hashes_only_no_program_is_kept(own_installation: Installation):
    frozen = Installation(
        own_installation.settings.model_copy(update={"journal_programs": "hash"}), own_installation.keys
    )
    async with frozen.run() as api:
        reply = await api.python("print('not kept')")
        _, detail = await api.get(f"/executions/{reply['executionId']}")
        assert detail["programKept"] is False
        status, problem = await api.get(f"/executions/{reply['executionId']}/program")
        assert (status, problem["code"]) == (404, "program_not_kept")
        _, page = await api.get("/executions?text=print('not")
        assert page["executions"] == []


async def test_executions_are_found_by_what_they_said(place):
    admin, developer = place
    reply = await developer.python(CALL)
    _, page = await admin.get("/executions?text=pong WAS")
    assert page["executions"][0]["executionId"] == reply["executionId"]
    assert (await admin.get("/executions?text="))[0] == 422


async def test_what_happened_is_counted_for_those_who_may_see_it(place):
    admin, developer = place
    await admin.python("print(1)")
    await developer.python(CALL)
    _, own = await developer.get("/stats")
    _, everything = await admin.get("/stats")
    assert [each["caller"] for each in own["callers"]] == ["code-executor-developer"]
    assert everything["executions"] > own["executions"] > 0
    (ping,) = own["tools"]
    assert (ping["server"], ping["tool"], ping["errors"]) == ("postgres", "ping", 0)
    assert sum(bucket["executions"] for bucket in own["series"]) == own["executions"]
    assert own["tokens"]["definitions"]["here"] > 0
    status, problem = await developer.get("/stats?caller=code-executor-admin")
    assert (status, problem["code"]) == (403, "not_for_your_role")


@pytest.mark.parametrize(
    "query", ["since=yesterday", "since=1700000000", "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
              "since=1999-01-01T00:00:00Z", "nonsense=1"]
)  # fmt: skip
async def test_a_span_that_makes_no_sense_is_refused(place, query):
    status, problem = await place[0].get(f"/stats?{query}")
    assert (status, problem["code"]) == (422, "invalid_request")


async def test_the_costs_of_tools_are_those_that_the_role_may_use(place):
    admin, developer = place
    _, costs = await admin.get("/tools/costs")
    (postgres,) = costs["servers"]
    tokens = postgres["tokens"]
    assert 0 < tokens["name"] <= tokens["description"] <= tokens["full"]
    assert costs["here"] > 500
    _, access = await developer.get("/tools/access/secret/tool")
    (role,) = access["roles"]
    assert (role["role"], role["allowed"]) == ("developer", False)
