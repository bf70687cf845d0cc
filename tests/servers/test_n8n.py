"""The MCP server `n8n` with an n8n of the stack's own: a workflow is made, switched on and run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.api import Api
from tests.support.stack import OptionalServers, logs_of, run

SERVERS = ("n8n",)
pytestmark = pytest.mark.timeout(600)
MAKE = (Path(__file__).parent / "programs" / "make_workflow.py").read_text()
RUN = (Path(__file__).parent / "programs" / "run_workflow.py").read_text()
PROGRAM_SECONDS = 90
# Which of the two programs has the key in its environment.
HOLDERS = """
const fs = require('node:fs');
const found = {};
for (const name of fs.readdirSync('/proc').filter((name) => Number(name) > 1)) {
  const path = `/proc/${name}`;
  const read = (file) => (fs.existsSync(path) ? fs.readFileSync(`${path}/${file}`, 'utf8').split('\\0') : []);
  const program = read('cmdline').find((word) => word === '/app/start.mjs' || word.endsWith('/bin/n8n'));
  if (program) found[program] = read('environ').some((line) => line.startsWith('MCP_N8N_KEY='));
}
console.log(JSON.stringify(found));
"""


async def printed(api: Api, program: str) -> object:
    result = await api.python(program, PROGRAM_SECONDS)
    assert result["outcome"] == "completed", result["stderr"]
    return json.loads(result["output"])


async def test_a_workflow_is_made_run_and_recorded_and_survives_a_restart(api: Api, servers: OptionalServers) -> None:
    made = await printed(api, MAKE)
    assert await printed(api, RUN) == [{"doubled": 42}, ["success"]]
    run("docker", "restart", servers.container("mcp-n8n-app"))
    assert await printed(api, RUN) == [{"doubled": 42}, ["success", "success"]]
    assert made


def test_the_key_is_in_no_log_and_n8n_itself_does_not_have_it(servers: OptionalServers) -> None:
    container = servers.container("mcp-n8n-app")
    assert servers.environment["MCP_N8N_KEY"] not in logs_of(container)
    holders = json.loads(run("docker", "exec", container, "node", "-e", HOLDERS))
    assert holders == {"/app/start.mjs": True, "/app/node_modules/n8n/bin/n8n": False}


def test_n8n_reaches_nothing_outside_of_its_network(servers: OptionalServers) -> None:
    probe = (
        "fetch('https://1.1.1.1', {signal: AbortSignal.timeout(3000)}).then(() => 'out', () => 'in').then(console.log)"
    )
    assert run("docker", "exec", servers.container("mcp-n8n-app"), "node", "-e", probe) == "in\n"
