"""Clients that others wrote, against a real daemon: the conformance suite, the inspector and Claude Code."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.testbed.engine import engine
from orchestrator.commands.connect import Client, Connection, configuration
from tests.support.api import Api, eventually
from tests.support.installation import PROJECT, Installation
from tests.support.keyed_proxy import keyed_proxy
from tests.support.mcp_clients import INITIALIZE, META, BareClient

CLIENTS = PROJECT / ".build" / "clients"
ENVIRONMENTS = {"claude": "claude-code", "conformance": "conformance", "mcp-inspector": "inspector"}
NODE = PROJECT / ".build" / "node" / "bin"
WRAPPER = PROJECT / "scripts" / "mcp-wrapper.sh"
ORCHESTRATOR_IMAGE = "mcp-code-executor/orchestrator:latest"
CONNECTED = "✔ Connected"


@dataclass(frozen=True)
class Desk:
    """A developer's empty home, with the clients installed."""

    home: Path
    api: Api
    installation: Installation

    @property
    def endpoint(self) -> str:
        return f"{self.api.url}/mcp"

    @property
    def key(self) -> str:
        return self.installation.keys["admin"]

    async def run(self, command: str, *arguments: str, **environment: str) -> tuple[int, str]:
        """Exit code and everything that was printed."""
        plain = {"PATH": f"{NODE}:{os.environ['PATH']}", "HOME": str(self.home), "NO_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            CLIENTS / ENVIRONMENTS[command] / "node_modules" / ".bin" / command,
            *arguments,
            cwd=self.home,
            env={**plain, **self.groups, **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 90)
        return process.returncode or 0, output.decode()

    @property
    def groups(self) -> dict[str, str]:
        """Whoever runs the tests counts as an administrator."""
        group = subprocess.run(["id", "-gn"], capture_output=True, text=True, check=True).stdout.strip()
        secrets = str(self.installation.settings.secrets_dir)
        return {"CODE_EXECUTOR_ADMIN_GROUP": group, "CODE_EXECUTOR_SECRETS_DIR": secrets}

    def trust(self) -> None:
        """As accepting Claude Code's question about the directory does."""
        file = self.home / ".claude.json"
        state: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        state.setdefault("projects", {}).setdefault(str(self.home), {})["hasTrustDialogAccepted"] = True
        file.write_text(json.dumps(state))


@pytest.fixture(scope="module")
def clients() -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, so the clients of others cannot be fetched")
    made = subprocess.run([PROJECT / "scripts" / "clients.sh", *ENVIRONMENTS.values()], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"npm could not fetch the clients: {made.stderr.strip()[-300:]}")


@pytest.fixture
def desk(clients: None, api: Api, installation: Installation, tmp_path: Path) -> Desk:
    return Desk(tmp_path, api, installation)


async def test_the_conformance_suite_fails_in_the_expected_scenarios_only(desk):
    async with keyed_proxy(desk.api.url, desk.key) as url:
        code, output = await desk.run(
            "conformance",
            *("server", "--url", f"{url}/mcp", "--suite", "all"),
            *("--expected-failures", str(PROJECT / "tests" / "e2e" / "conformance.yaml")),
        )
    assert code == 0, output[-3000:]
    for scenario in (
        "server-initialize",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ):
        assert f"✓ {scenario}: " in output
        assert f"✓ {scenario}: 0 passed" not in output


async def test_every_expected_failure_of_the_conformance_suite_gives_its_reason():
    lines = (PROJECT / "tests" / "e2e" / "conformance.yaml").read_text().splitlines()
    entries = lines[lines.index("server:") + 1 :]
    assert entries[0].strip().startswith("#")
    assert all(line.strip().startswith(("#", "- ")) for line in entries)


async def test_the_inspector_lists_and_calls_tools(desk):
    reach = ("--cli", desk.endpoint, "--transport", "http", "--header", f"Authorization: Bearer {desk.key}")
    _, listed = await desk.run("mcp-inspector", *reach, "--method", "tools/list")
    call = ("--method", "tools/call", "--tool-name", "execute_code", "--tool-arg", "code=console.log(6 * 7)")
    _, called = await desk.run("mcp-inspector", *reach, *call)
    assert len(json.loads(listed)["tools"]) == 10
    assert json.loads(called)["content"][0]["text"].endswith("\n\nstdout:\n42")


async def test_claude_code_connects_over_http(desk):
    header = f"Authorization: Bearer {desk.key}"
    await desk.run("claude", "mcp", "add", "--transport", "http", "executor", desk.endpoint, "--header", header)
    _, listed = await desk.run("claude", "mcp", "list")
    assert f"executor: {desk.endpoint} (HTTP) - {CONNECTED}" in listed


async def test_claude_code_shows_why_a_wrong_key_is_refused(desk):
    header = "Authorization: Bearer wrong"
    await desk.run("claude", "mcp", "add", "--transport", "http", "executor", desk.endpoint, "--header", header)
    _, listed = await desk.run("claude", "mcp", "list")
    assert CONNECTED not in listed
    assert "The key is not known." in listed


async def test_claude_code_fills_the_key_in_from_the_environment(desk):
    header = "Authorization: Bearer ${CODE_EXECUTOR_KEY}"
    await desk.run("claude", "mcp", "add", "--transport", "http", "executor", desk.endpoint, "--header", header)
    _, listed = await desk.run("claude", "mcp", "list", CODE_EXECUTOR_KEY=desk.key)
    assert CONNECTED in listed


async def test_claude_code_connects_with_what_connect_shows_and_asks_the_wrapper_for_the_key(desk):
    connection = Connection(desk.api.url, WRAPPER)
    shown = configuration(Client.CLAUDE, connection, desk.home, desk.home)
    entry = json.dumps(json.loads(shown.text)["mcpServers"]["code-executor"])
    await desk.run("claude", "mcp", "add-json", "executor", entry)
    desk.trust()
    _, listed = await desk.run("claude", "mcp", "list")
    assert f"executor: {desk.endpoint} (HTTP) - {CONNECTED}" in listed


async def test_claude_code_reads_the_file_that_connect_writes(desk):
    connection = Connection(desk.api.url, WRAPPER)
    configuration(Client.CLAUDE, connection, desk.home, desk.home).write(connection)
    _, listed = await desk.run("claude", "mcp", "list")
    assert f"code-executor: {desk.endpoint} (HTTP)" in listed


@pytest.mark.parametrize("client", [Client.CURSOR, Client.VSCODE, Client.CODEX])
async def test_what_other_clients_are_told_leads_to_the_daemon(api, installation, client, tmp_path):
    """Those clients need a screen or an account, so this does with their file what their documentation says."""
    connection = Connection(api.url, WRAPPER)
    configuration(client, connection, tmp_path, tmp_path).write(connection)
    file = configuration(client, connection, tmp_path, tmp_path).path
    url, authorization = _as_read_by(client, file.read_text(), installation.keys["admin"])
    async with BareClient.connect(api.url, None) as bare:
        bare.url = url
        async with bare.post("initialize", INITIALIZE, 0, Authorization=authorization) as response:
            assert response.status == 200


def _as_read_by(client: Client, text: str, key: str) -> tuple[str, str]:
    if client is Client.CODEX:
        entry = tomllib.loads(text)["mcp_servers"]["code-executor"]
        variables = {"CODE_EXECUTOR_KEY": key}
        return entry["url"], f"Bearer {variables[entry['bearer_token_env_var']]}"
    section, variable = {
        Client.CURSOR: ("mcpServers", "env:CODE_EXECUTOR_KEY"),
        Client.VSCODE: ("servers", "input:code-executor-key"),
    }[client]
    entry = json.loads(text)[section]["code-executor"]
    return entry["url"], entry["headers"]["Authorization"].replace(f"${{{variable}}}", key)


@pytest.fixture
async def container(desk: Desk) -> AsyncIterator[str]:
    """The daemon's image on the host's network, so that the bridge in it finds the daemon under test."""
    for name in _running_bridge(desk.api.url):
        yield name


def _running_bridge(url: str) -> Iterator[str]:
    images = engine().images.list(name=ORCHESTRATOR_IMAGE)
    if not images:
        pytest.skip(f"the image {ORCHESTRATOR_IMAGE} is not built; 'make image' builds it")
    running = engine().containers.run(
        ORCHESTRATOR_IMAGE,
        ["/usr/bin/python3", "-c", "import signal; signal.pause()"],
        detach=True,
        remove=True,
        init=True,
        network_mode="host",
        environment={"CODE_EXECUTOR_URL": url},
        volumes={str(PROJECT / "orchestrator"): {"bind": "/app/orchestrator", "mode": "ro"}},
        labels={"mcp-code-executor-test": "bridge"},
    )
    try:
        yield running.name
    finally:
        running.kill()


async def test_claude_code_connects_over_the_stdio_wrapper(desk, container):
    named = f"CODE_EXECUTOR_CONTAINER={container}"
    await desk.run("claude", "mcp", "add", "executor", "-e", named, "--", str(WRAPPER))
    _, listed = await desk.run("claude", "mcp", "list")
    assert f"{WRAPPER} - {CONNECTED}" in " ".join(listed.split()), listed


async def test_the_inspector_runs_a_program_over_the_stdio_wrapper(desk, container):
    call = ("--method", "tools/call", "--tool-name", "execute_code", "--tool-arg", "code=console.log(6 * 7)")
    environment = {"CODE_EXECUTOR_CONTAINER": container}
    named = [
        argument for name, value in {**desk.groups, **environment}.items() for argument in ("-e", f"{name}={value}")
    ]
    _, called = await desk.run("mcp-inspector", "--cli", *named, str(WRAPPER), *call)
    assert json.loads(called)["content"][0]["text"].endswith("\n\nstdout:\n42")


async def _wrapper(desk: Desk, container: str) -> Any:
    environment = {**os.environ, **desk.groups, "CODE_EXECUTOR_CONTAINER": container}
    return await asyncio.create_subprocess_exec(
        WRAPPER, env=environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def test_a_killed_wrapper_leaves_no_sandbox(desk, container):
    wrapper = await _wrapper(desk, container)
    code = "import time\nprint('up', flush=True)\ntime.sleep(60)"
    call = {
        "name": "execute_code",
        "arguments": {"language": "python", "code": code},
        "_meta": META | {"progressToken": 1},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    wrapper.stdin.write(json.dumps(request).encode() + b"\n")
    progress = json.loads(await asyncio.wait_for(wrapper.stdout.readline(), 30))
    execution_id = progress["params"]["message"].split()[1]

    async def is_up() -> bool:
        _, record = await desk.api.get(f"/executions/{execution_id}")
        return bool(record["output"])

    async def is_cancelled() -> bool:
        _, record = await desk.api.get(f"/executions/{execution_id}")
        return bool(record["outcome"] == "cancelled")

    await eventually(is_up, seconds=20)
    wrapper.kill()
    await wrapper.wait()
    await eventually(is_cancelled, seconds=20)


async def test_the_key_is_not_in_the_list_of_processes(desk, container):
    wrapper = await _wrapper(desk, container)
    wrapper.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    answer = json.loads(await asyncio.wait_for(wrapper.stdout.readline(), 30))
    commands = b"".join(_command_lines())
    wrapper.stdin.close()
    await asyncio.wait_for(wrapper.wait(), 30)
    assert answer["id"] == 1
    assert b"docker\0exec\0" in commands, "the probe sees no processes"
    assert desk.key.encode() not in commands


def _command_lines() -> Iterator[bytes]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_bytes()
        except OSError:
            continue
