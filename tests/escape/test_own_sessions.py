"""A program tries to get into the session that a server keeps for another execution, whose name it even knows."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from tests.support.api import eventually
from tests.support.installation import PROJECT, Installation
from tests.support.metrics import gauges
from tests.support.programs import UNTIL_ENDED, held, probe
from tests.support.stateful_server import StatefulServer, served_by_uvicorn

GATEWAY = (Path(__file__).parents[1] / "support" / "gateway_client.py").read_text()
# Prints its grant, which the attacker is given, too: nothing is kept secret from it.
COUNT_AND_STAY = (
    "import os\nfrom servers.browser import count\n"
    "print(count(by=1000), os.environ['CODE_EXECUTOR_GRANT'], flush=True)" + UNTIL_ENDED
)
ATTACK = """
plain = {"server": "browser", "tool": "count", "arguments": {}}
named = {"session": SESSION, "sessionId": SESSION, "session_id": SESSION, "Mcp-Session-Id": SESSION}
owned = {"execution": EXECUTION, "executionId": EXECUTION, "owner": EXECUTION, "grant": THEIR_GRANT}
meta = {"_meta": {**named, **owned, "progressToken": SESSION}}
orders = [
    {**plain, **named}, {**plain, **owned}, {**plain, **meta}, {**plain, "params": meta},
    {**plain, "arguments": named}, {**plain, "arguments": {**owned, **meta}},
    {**plain, "server": f"browser?session_id={SESSION}"}, {**plain, "server": f"browser#{EXECUTION}"},
    {**plain, "server": f"browser\\r\\nMcp-Session-Id: {SESSION}"},
    {**plain, "tool": f"count\\r\\nMcp-Session-Id: {SESSION}"},
]
headers = [
    (f"Mcp-Session-Id: {SESSION}",), (f"mcp-session-id: {SESSION}", f"X-Execution-Id: {EXECUTION}"),
    (f"Cookie: session={SESSION}",), (f"Last-Event-ID: {SESSION}",),
]
told = []
for body in (json.dumps(each).encode() for each in orders):
    told.append(ask("/call", body, keep=True))
for more in headers:
    client, body = connected(), json.dumps(plain).encode()
    client.sendall(head("/call", len(body), *more) + body)
    told.append(answer(client, keep=True))
for path in (f"/call?session_id={SESSION}", f"/call/{SESSION}"):
    told.append(ask(path, json.dumps(plain).encode(), keep=True))
GRANT = THEIR_GRANT
told.append(ask("/call", json.dumps(plain).encode(), keep=True))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
async def place(tmp_path_factory):
    directory, server = tmp_path_factory.mktemp("sessions"), StatefulServer()
    roles = json.loads((PROJECT / "roles.json").read_text())
    roles["roles"]["developer"]["servers"].append("browser")
    async with served_by_uvicorn(server.streamable_app()) as url:
        entry = {"url": f"{url}/mcp", "session": "execution", "withhold": ["run_code*"]}
        (directory / "servers.json").write_text(json.dumps({"mcpServers": {"browser": entry}}))
        (directory / "roles.json").write_text(json.dumps(roles))
        installation = Installation.create(
            directory, servers_file=directory / "servers.json", roles_file=directory / "roles.json"
        )
        async with installation.run() as admin, admin.as_caller(installation.keys["developer"]) as developer:
            await eventually(lambda: is_listed(admin))
            yield server, {"admin": admin, "developer": developer}, f"{url}/mcp"


async def is_listed(api):
    return (await api.get("/health"))[1]["toolsByServer"].get("browser")


async def is_alone(api):
    return (await gauges(api))["code_executor_server_sessions"] == 0


@pytest.mark.parametrize(("victim", "attacker"), [("admin", "developer"), ("developer", "developer")])
async def test_no_header_argument_or_grant_leads_a_program_into_the_session_of_another_execution(
    place, victim, attacker
):
    server, callers, _ = place
    server.counters.clear()
    async with held(callers[victim], COUNT_AND_STAY) as theirs:
        (session,) = server.counters
        count, their_grant = theirs.line.split()
        assert count == "1000"
        known = f"SESSION, EXECUTION, THEIR_GRANT = {session!r}, {theirs.execution_id!r}, {their_grant!r}\n"
        told = await probe(callers[attacker], GATEWAY + known + ATTACK)
        assert server.counters[session] == 1000
        # The control: most are answered, as calls in the attacker's own session.
        answered = [status for status, _ in told].count(200)
        assert (server.counters.total() - 1000, answered >= 4) == (answered, True)
    await eventually(lambda: is_alone(callers["admin"]))


async def test_a_tool_that_is_withheld_is_called_by_nobody_under_any_name(place):
    server, callers, _ = place
    names = ["run_code", "Run_code", "run_code ", "run-code", "./run_code", "browser/run_code"]
    attack = f"print(json.dumps([call({{}}, name, 'browser', keep=True) for name in {names!r}]))"
    told = await probe(callers["admin"], GATEWAY + attack)
    assert [(status, body["code"]) for status, body in told] == [(404, "tool_not_found")] * len(names)
    assert server.code_was_run == 0
    ordinary = await probe(callers["admin"], GATEWAY + "print(json.dumps(call({}, 'count', 'browser', keep=True)))")
    assert ordinary[0] == 200


async def test_whoever_reaches_the_server_itself_can_use_a_session_by_its_name(place):
    """The control: the name is all that the server asks for, so that the daemon has to keep programs from it."""
    server, callers, url = place
    server.counters.clear()
    async with held(callers["admin"], COUNT_AND_STAY), aiohttp.ClientSession() as http:
        (session,) = server.counters
        message = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "count", "arguments": {}}}
        headers = {"Mcp-Session-Id": session, "Accept": "application/json, text/event-stream"}
        async with http.post(url, json=message, headers=headers) as response:
            assert (response.status, "1001" in await response.text()) == (200, True)
        assert server.counters[session] == 1001
    await eventually(lambda: is_alone(callers["admin"]))
