"""A key that is taken away is worth nothing within a second, whatever else is wrong with the files beside it."""

import asyncio
import json
import os

import pytest

from tests.support.api import eventually
from tests.support.installation import PROJECT, Installation
from tests.support.upstream_server import ScriptedProxy, serving, tool

CALLS_WHEN_TOLD = """\
from servers.postgres import ping
ping()
print('called', flush=True)
while True:
    try:
        ping()
    except Exception as error:
        print(error.code)
        break
"""


@pytest.fixture
async def place(tmp_path):
    """A daemon with a tool, and role and key files that may be broken."""
    proxy = ScriptedProxy("postgres")
    proxy.tools["postgres"] = [tool("ping")]
    async with serving(proxy.app()) as url:
        servers, roles = tmp_path / "servers.json", tmp_path / "roles.json"
        servers.write_text(json.dumps({"mcpServers": {"postgres": {"url": f"{url}/postgres/mcp"}}}))
        roles.write_text((PROJECT / "roles.json").read_text())
        yield Installation.create(tmp_path, servers_file=servers, roles_file=roles, max_tool_calls=1_000_000)


async def has_tools(api):
    return "postgres" in (await api.get("/tools"))[1].get("tools", {})


async def refuses(api):
    return (await api.post("/execute", {"code": "print(1)", "language": "python"}))[0] == 401


async def test_while_the_role_file_is_broken_a_key_that_is_taken_away_runs_nothing_and_its_programs_lose_their_tools(
    place,
):
    async with place.run() as admin, admin.as_caller(place.keys["developer"]) as developer:
        await eventually(lambda: has_tools(developer))
        running = asyncio.create_task(developer.python(CALLS_WHEN_TOLD, timeout_seconds=60))
        await eventually(lambda: called(admin))
        place.settings.roles_file.write_text("{")
        (place.settings.keys_dir / "code-executor-developer.sha256").unlink()
        await eventually(lambda: refuses(developer), seconds=20)
        ended = await running
        assert (ended["outcome"], ended["output"]) == ("completed", "called\ngrant_invalid\n")
        assert (await admin.python("print('works')"))["output"] == "works\n"


async def called(admin):
    """Tell whether the first call is over, and not just begun: it is the next one that is refused."""
    _, listed = await admin.get("/executions", params={"tool": "postgres/ping"})
    records = [(await admin.get(f"/executions/{each['executionId']}"))[1] for each in listed["executions"]]
    return [record["output"] for record in records] == ["called\n"]


async def test_a_hash_that_cannot_be_read_refuses_its_key_and_the_daemon_stays_quick(place):
    async with place.run() as admin, admin.as_caller(place.keys["developer"]) as developer:
        assert not await refuses(developer)
        hash_file = place.settings.keys_dir / "code-executor-developer.sha256"
        hash_file.unlink()
        os.mkfifo(hash_file)
        await eventually(lambda: refuses(developer), seconds=20)
        assert (await admin.python("print('works')"))["output"] == "works\n"
