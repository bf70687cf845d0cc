"""The default stack of MCP servers: real servers, a real database, the real proxy, beside any stack that runs here."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api
from tests.support.installation import Installation

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "deploy" / "stack"
CHOSEN = PROJECT / ".build" / "stack"
READY_SECONDS = 60
PROBE_IMAGE = "mcp-code-executor/orchestrator:latest"
KILL_MEMORY_SERVER = r"""
import os, pathlib, signal
for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if line.read_bytes().startswith(b"node\0") and b"server-memory" in line.read_bytes():
        os.kill(int(line.parent.name), signal.SIGKILL)
"""
PROBE = "import socket, sys; socket.create_connection((sys.argv[1], 9090), timeout=3)"


class RpcError(Exception):
    pass


def run(*command: str, **environment: str) -> str:
    ended = subprocess.run(command, cwd=PROJECT, env=os.environ | environment, capture_output=True, text=True)
    assert ended.returncode == 0, f"{command}: {ended.stderr}"
    return ended.stdout


def compose_command() -> list[str]:
    plugin = subprocess.run(("docker", "compose", "version"), capture_output=True)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


@dataclass(frozen=True, slots=True)
class RunningStack:
    prefix: str
    address: str
    path: str
    variables: dict[str, str]
    directory: Path

    @property
    def proxy(self) -> str:
        return f"{self.prefix}mcp-proxy"

    def request(self, server: str, method: str, params: dict[str, Any] | None = None) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if "MCP_PROXY_TOKEN" in self.variables:
            headers["Authorization"] = f"Bearer {self.variables['MCP_PROXY_TOKEN']}"
        request = urllib.request.Request(self.address + self.path.format(server=server), body, headers)
        with direct().open(request, timeout=20) as reply:
            answer = parse(reply.read().decode())
        if "error" in answer:
            raise RpcError(answer["error"]["message"])
        return answer["result"]

    def call(self, server: str, tool: str, **arguments: Any) -> str:
        result = self.request(server, "tools/call", {"name": tool, "arguments": arguments})
        text = "\n".join(content["text"] for content in result["content"] if content["type"] == "text")
        if result.get("isError"):
            raise RpcError(text)
        return text

    def psql(self, statement: str) -> str:
        superuser = ("psql", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-Atc", statement, "app")
        return run("docker", "exec", f"{self.prefix}mcp-postgres", *superuser).strip()

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self.answers():
            assert time.monotonic() < deadline, run("docker", "logs", "--tail", "30", self.proxy)
            time.sleep(0.2)

    def answers(self) -> bool:
        try:
            self.call("postgres", "query", sql="SELECT 1")
        except (OSError, RpcError):
            return False
        return True

    def after_restart(self) -> RunningStack:
        """The engine may publish it at another port."""
        return replace(self, address=published_address(self.proxy))

    def started_at(self) -> str:
        return run("docker", "inspect", "--format", "{{.State.StartedAt}}", self.proxy)


def published_address(container: str) -> str:
    return "http://" + run("docker", "port", container, "9090/tcp").split()[0]


def direct() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def parse(text: str) -> Any:
    """A reply is plain JSON or one event of a stream."""
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return json.loads("".join(lines) or text)


def chosen_images() -> dict[str, str]:
    if not (CHOSEN / "services").exists():
        pytest.fail("The stack is not prepared: 'make test' does it, or run 'make stack' first.")
    lines = (CHOSEN / "compose.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def settings_in(directory: Path, kind: str) -> dict[str, str]:
    own_secrets = {"CODE_EXECUTOR_SECRETS_DIR": str(directory / "secrets")}
    command = (sys.executable, "-m", "deploy.stack", "--root", str(directory))
    run(*command, "write", "--proxy", kind, "filesystem", "memory", "postgres", **own_secrets)
    made = run(*command, "secrets", **own_secrets).splitlines()
    start = directory / ".build" / "stack" / "mcp-postgres"
    start.mkdir()
    shutil.copy(SOURCES / "postgres" / "start.sh", start)
    return dict(line.split("=", 1) for line in made)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    directory = tmp_path_factory.mktemp("stack")
    directory.chmod(0o755)
    prefix = f"test-{secrets.token_hex(4)}-"
    images = chosen_images()
    variables = settings_in(directory, "pulled" if "MCP_PROXY_IMAGE" in images else "ours")
    published = directory / "published.yaml"
    published.write_text(json.dumps({"services": {"mcp-proxy": {"ports": ["127.0.0.1::9090"]}}}))
    settings = directory / ".build" / "stack"
    environment = {**images, **variables, "STACK_PREFIX": prefix, "STACK_DIR": str(settings)}
    files = ("-f", "compose.yaml", "-f", str(published), "--project-directory", str(PROJECT))
    compose = [*compose_command(), *files, "--project-name", prefix.rstrip("-")]
    try:
        run(*compose, "up", "-d", "mcp-postgres", "mcp-proxy", **environment)
        path = json.loads((settings / "daemon" / "servers.json").read_text())["proxy"]["path"]
        running = RunningStack(prefix, published_address(f"{prefix}mcp-proxy"), path, variables, directory)
        running.wait_until_it_answers()
        yield running
    finally:
        run(*compose, "down", "--volumes", **environment)


@pytest.mark.parametrize(
    ("server", "tools"),
    [
        ("filesystem", {"read_text_file", "write_file", "list_directory"}),
        ("memory", {"create_entities", "search_nodes"}),
        ("postgres", {"query"}),
    ],
)
def test_each_server_introduces_itself_and_lists_its_tools(stack: RunningStack, server: str, tools: set[str]) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    assert stack.request(server, "initialize", client)["serverInfo"]["name"]
    assert tools <= {tool["name"] for tool in stack.request(server, "tools/list")["tools"]}


def test_a_file_written_through_the_proxy_is_read_back(stack: RunningStack) -> None:
    stack.call("filesystem", "write_file", path="/workspace/note.txt", content="kept")
    assert stack.call("filesystem", "read_text_file", path="/workspace/note.txt") == "kept"


def test_files_outside_of_the_workspace_are_refused(stack: RunningStack) -> None:
    with pytest.raises(RpcError, match="outside allowed directories"):
        stack.call("filesystem", "read_text_file", path="/config/config.json")


def test_sql_reads_what_the_owner_of_the_database_wrote(stack: RunningStack) -> None:
    stack.psql("CREATE TABLE orders (id int, total numeric); INSERT INTO orders VALUES (1, 9.5), (2, 120)")
    rows = json.loads(stack.call("postgres", "query", sql="SELECT id FROM orders WHERE total > 100"))
    assert rows == [{"id": 2}]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (id int)",
        "COMMIT; SET default_transaction_read_only = off; CREATE TABLE mine (id int)",
        "COMMIT; SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; CREATE TEMP TABLE mine (id int)",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY pg_class TO PROGRAM 'cat >/tmp/out'",
    ],
)
def test_sql_cannot_write_even_when_it_leaves_the_read_only_transaction(stack: RunningStack, statement: str) -> None:
    with pytest.raises(RpcError, match=r"read-only|permission denied|must be superuser"):
        stack.call("postgres", "query", sql=statement)


def test_memory_and_files_survive_a_restart(stack: RunningStack) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
    stack.call("memory", "create_entities", entities=[entity])
    stack.call("filesystem", "write_file", path="/workspace/lasting.txt", content="kept")
    run("docker", "restart", stack.proxy)
    again = stack.after_restart()
    again.wait_until_it_answers()
    assert "wrote the first program" in again.call("memory", "search_nodes", query="Ada")
    assert again.call("filesystem", "read_text_file", path="/workspace/lasting.txt") == "kept"


def test_a_server_that_dies_comes_back(stack: RunningStack) -> None:
    if "MCP_PROXY_TOKEN" in stack.variables:
        pytest.skip("the pulled proxy keeps a dead server; the daemon shows it as down")
    before = stack.started_at()
    run("docker", "exec", stack.proxy, "python3", "-c", KILL_MEMORY_SERVER)
    deadline = time.monotonic() + READY_SECONDS
    while stack.started_at() == before:
        assert time.monotonic() < deadline, "the proxy lives on without its server"
        time.sleep(0.2)
    again = stack.after_restart()
    again.wait_until_it_answers()
    assert again.call("memory", "read_graph")


@pytest.mark.parametrize(("network", "reached"), [("mcp-backend", True), ("mcp-browser", False)])
def test_the_proxy_is_reached_from_its_own_network_only(stack: RunningStack, network: str, reached: bool) -> None:
    addresses = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
    address = run("docker", "inspect", "--format", addresses, stack.proxy).split()[0]
    probe = ("--rm", "--network", f"{stack.prefix}{network}", "--entrypoint", "/usr/bin/python3", PROBE_IMAGE)
    ended = subprocess.run(("docker", "run", *probe, "-I", "-S", "-c", PROBE, address), capture_output=True, text=True)
    assert (ended.returncode == 0) is reached, ended.stderr


def test_the_password_is_in_no_log_no_settings_and_no_image(stack: RunningStack) -> None:
    password = stack.variables["MCP_POSTGRES_PASSWORD"]
    containers = (stack.proxy, f"{stack.prefix}mcp-postgres")
    images = [run("docker", "inspect", "--format", "{{.Image}}", name).strip() for name in containers]
    seen = [run("docker", "image", "inspect", *images), *map(logs_of, containers)]
    seen += [path.read_text() for path in (stack.directory / ".build").rglob("*") if path.is_file()]
    assert [text for text in seen if password in text] == []
    assert run("docker", "inspect", stack.proxy).count(password), "the search would not find it anywhere"


def logs_of(container: str) -> str:
    ended = subprocess.run(("docker", "logs", container), capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


# The four validations of the system that this one reproduces, through a daemon of our own in front of the stack.

WORKFLOW = """
import { query } from '/workspace/servers/postgres/query.js';
import { write_file } from '/workspace/servers/filesystem/write_file.js';
const rows: any = await query({ sql: 'SELECT name, value FROM metrics ORDER BY name' });
const critical = rows.filter((row: any) => row.value > 100);
await write_file({ path: '/workspace/critical.csv', content: critical.map((row: any) => row.name).join('\\n') });
console.log(`Exported ${critical.length} of ${rows.length} metrics`);
"""


@pytest.fixture(scope="module")
async def api(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    directory = tmp_path_factory.mktemp("daemon")
    proxy = {"url": stack.after_restart().address, "servers": ["filesystem", "memory", "postgres"], "path": stack.path}
    if "MCP_PROXY_TOKEN" in stack.variables:
        proxy["token"] = stack.variables["MCP_PROXY_TOKEN"]
    (directory / "servers.json").write_text(json.dumps({"proxy": proxy}))
    async with Installation.create(directory, servers_file=directory / "servers.json").run() as api:
        await eventually(lambda: listed_tools(api), 24)
        yield api


async def listed_tools(api: Api) -> int:
    _, health = await api.get("/health")
    return int(health["totalTools"])


async def eventually(read: Callable[[], Awaitable[int]], wanted: int) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while await read() != wanted:
            await asyncio.sleep(0.2)


async def test_a_simple_program_executes(api: Api) -> None:
    assert (await api.typescript("console.log(2+2)"))["output"] == "4\n"


async def test_a_program_discovers_every_server_and_tool(api: Api) -> None:
    code = "const { listServers, listTools } = await import('/workspace/servers/discovery.js');"
    code += "console.log(JSON.stringify(await listServers()), (await listTools()).length);"
    assert (await api.typescript(code))["output"] == '["filesystem","memory","postgres"] 24\n'


async def test_a_program_calls_one_tool(api: Api) -> None:
    code = "from servers.filesystem import list_allowed_directories\nprint(list_allowed_directories())"
    assert "/workspace" in (await api.python(code))["output"]


async def test_a_program_queries_the_database_filters_and_writes_a_file(api: Api, stack: RunningStack) -> None:
    stack.psql("CREATE TABLE IF NOT EXISTS metrics (name text, value int)")
    stack.psql("TRUNCATE metrics; INSERT INTO metrics VALUES ('a', 50), ('b', 150), ('c', 101)")
    result = await api.typescript(WORKFLOW)
    assert result["output"] == "Exported 2 of 3 metrics\n", result["stderr"]
    assert [(call["server"], call["outcome"]) for call in result["toolCalls"]] == [
        ("postgres", "done"),
        ("filesystem", "done"),
    ]
    assert "b\nc" in stack.after_restart().call("filesystem", "read_text_file", path="/workspace/critical.csv")
