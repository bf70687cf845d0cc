"""Real MCP servers: over stdio, and behind PyPI's mcp-proxy over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from orchestrator.domain.errors import ToolUnavailable
from orchestrator.upstreams.entries import StdioServer
from orchestrator.upstreams.servers_file import read_servers
from tests.support.api import eventually, until
from tests.support.processes import processes_with
from tests.support.upstreams import QUICK, problem, running, text_of, tool_names, until_connected, until_down

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = PROJECT / ".build" / "mcp-servers" / "node_modules" / "@modelcontextprotocol"
PROXY = PROJECT / ".build" / "mcp-proxy" / "bin" / "mcp-proxy"
FILESYSTEM_TOOLS = 14
MEMORY_TOOLS = 9


@pytest.fixture(scope="session")
def node() -> str:
    """Also sees to it that the servers are there."""
    installed = subprocess.run([PROJECT / "scripts" / "mcp_servers.sh"], capture_output=True, text=True, timeout=300)
    if installed.returncode != 0:
        pytest.skip(f"the real MCP servers cannot be installed: {installed.stderr.strip()[-300:]}")
    own = PROJECT / ".build" / "node" / "bin" / "node"
    return str(own) if own.exists() else "node"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


@pytest.fixture
def servers(node: str, workspace: Path, tmp_path: Path) -> dict[str, dict[str, object]]:
    """In the usual mcpServers form, for us and for the proxy alike."""
    return {
        "filesystem": {"command": node, "args": [f"{PACKAGES}/server-filesystem/dist/index.js", str(workspace)]},
        "memory": {
            "command": node,
            "args": [f"{PACKAGES}/server-memory/dist/index.js"],
            "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
        },
    }


def entries_of(tmp_path: Path, document: dict[str, object]) -> tuple:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps(document))
    return read_servers(file, dict(os.environ))


async def write_and_read_back(upstreams, workspace: Path) -> None:
    written = await upstreams.call("filesystem", "write_file", {"path": f"{workspace}/a.txt", "content": "é\n"}, 30)
    assert not written.get("isError"), written
    assert (workspace / "a.txt").read_text() == "é\n"
    read = await upstreams.call("filesystem", "read_text_file", {"path": f"{workspace}/a.txt"}, 30)
    assert text_of(read) == "é\n"


async def remember_and_recall(upstreams) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    await upstreams.call("memory", "create_entities", {"entities": [entity]}, 30)
    graph = await upstreams.call("memory", "read_graph", {}, 30)
    assert [found["name"] for found in graph["structuredContent"]["entities"]] == ["Ada"]


async def test_real_servers_over_stdio_list_their_tools_and_do_their_work(servers, workspace, tmp_path):
    async with running(*entries_of(tmp_path, {"mcpServers": servers})) as upstreams:
        await until_connected(upstreams, "filesystem", "memory", seconds=30)
        assert len(tool_names(upstreams, "filesystem")) == FILESYSTEM_TOOLS
        assert len(tool_names(upstreams, "memory")) == MEMORY_TOOLS
        await write_and_read_back(upstreams, workspace)
        await remember_and_recall(upstreams)
        assert len(processes_with(str(workspace))) == 1
    assert processes_with(str(workspace)) == set()


async def test_a_real_server_says_itself_what_it_refuses(servers, workspace, tmp_path):
    async with running(*entries_of(tmp_path, {"mcpServers": servers})) as upstreams:
        await until_connected(upstreams, "filesystem", seconds=30)
        refused = await upstreams.call("filesystem", "read_text_file", {"path": "/etc/passwd"}, 30)
        assert refused["isError"] is True
        assert "outside allowed directories" in text_of(refused)
        unknown = await upstreams.call("filesystem", "no_such_tool", {}, 30)
        assert unknown["isError"] is True


async def test_a_real_server_that_is_killed_is_down_and_then_recovers(servers, workspace, tmp_path):
    (entry,) = entries_of(tmp_path, {"mcpServers": {"filesystem": servers["filesystem"]}})
    assert isinstance(entry, StdioServer)
    at_once = replace(QUICK, hastened_seconds=0)  # a call does not wait for the server to be started again
    async with running(entry, pacing=at_once) as upstreams:
        await until_connected(upstreams, "filesystem", seconds=30)
        (pid,) = processes_with(str(workspace))
        os.kill(pid, signal.SIGKILL)
        await until_down(upstreams, "filesystem")
        assert problem(upstreams, "filesystem") == "its process was ended by SIGKILL"
        with pytest.raises(ToolUnavailable, match="SIGKILL"):
            await upstreams.call("filesystem", "list_allowed_directories", {}, 30)
        assert len(tool_names(upstreams, "filesystem")) == FILESYSTEM_TOOLS
        await until_connected(upstreams, "filesystem", seconds=30)
        await write_and_read_back(upstreams, workspace)
        assert processes_with(str(workspace)) != {pid}


async def test_a_call_waits_for_a_killed_server_to_be_started_again(servers, workspace, tmp_path):
    (entry,) = entries_of(tmp_path, {"mcpServers": {"filesystem": servers["filesystem"]}})
    patient = replace(QUICK, first_retry_seconds=600, hastened_seconds=30)
    async with running(entry, pacing=patient) as upstreams:
        await until_connected(upstreams, "filesystem", seconds=30)
        (pid,) = processes_with(str(workspace))
        os.kill(pid, signal.SIGKILL)
        await until_down(upstreams, "filesystem")
        allowed = await upstreams.call("filesystem", "list_allowed_directories", {}, 30)
        assert str(workspace) in text_of(allowed)


@asynccontextmanager
async def proxy_in_front_of(servers: dict, tmp_path: Path, port: int) -> AsyncIterator[None]:
    config = tmp_path / "proxy.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    command = [PROXY, "--host", "127.0.0.1", "--port", str(port), "--named-server-config", config, "--stateless"]
    with (tmp_path / "proxy.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        await eventually(lambda: answers(port), seconds=60)
        yield
    finally:
        process.terminate()
        async with asyncio.timeout(20):
            await process.wait()


async def answers(port: int) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/status") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def behind_proxy(tmp_path: Path, port: int) -> tuple:
    proxy = {"url": f"http://127.0.0.1:{port}", "servers": ["filesystem", "memory"], "path": "/servers/{server}/mcp"}
    return entries_of(tmp_path, {"proxy": proxy})


async def test_real_servers_behind_a_real_proxy_list_their_tools_and_do_their_work(servers, workspace, tmp_path):
    port = free_port()
    async with (
        proxy_in_front_of(servers, tmp_path, port),
        running(*behind_proxy(tmp_path, port)) as upstreams,
    ):
        await until_connected(upstreams, "filesystem", "memory", seconds=30)
        assert len(tool_names(upstreams, "filesystem")) == FILESYSTEM_TOOLS
        assert len(tool_names(upstreams, "memory")) == MEMORY_TOOLS
        await write_and_read_back(upstreams, workspace)
        await remember_and_recall(upstreams)
        calls = [upstreams.call("filesystem", "list_allowed_directories", {}, 60) for _ in range(50)]
        assert all(str(workspace) in text_of(result) for result in await asyncio.gather(*calls))


async def test_a_real_proxy_whose_server_died_is_told_apart_and_recovers_when_restarted(servers, workspace, tmp_path):
    port = free_port()
    entries = behind_proxy(tmp_path, port)
    async with running(*entries, relist_seconds=15) as upstreams:
        async with proxy_in_front_of(servers, tmp_path, port):
            await until_connected(upstreams, "filesystem", "memory", seconds=30)
            (pid,) = processes_with(str(workspace))
            os.kill(pid, signal.SIGKILL)
            # mcp-proxy itself dies if it writes to a server whose end it has not noticed yet, and both go down:
            # wait until it has reaped the process and answered once more; our next listing is seconds away
            await until(lambda: not Path(f"/proc/{pid}").exists())
            await eventually(lambda: answers(port))
            with pytest.raises(ToolUnavailable):
                await upstreams.call("filesystem", "list_allowed_directories", {}, 30)
            await until_down(upstreams, "filesystem")
            assert len(tool_names(upstreams, "filesystem")) == FILESYSTEM_TOOLS
            await remember_and_recall(upstreams)
        await until_down(upstreams, "memory")
        async with proxy_in_front_of(servers, tmp_path, port):
            await until_connected(upstreams, "filesystem", "memory", seconds=30)
            await write_and_read_back(upstreams, workspace)


async def test_a_call_to_a_real_server_costs_milliseconds_because_nothing_is_set_up_for_it(
    servers, workspace, tmp_path
):
    async with running(*entries_of(tmp_path, {"mcpServers": servers})) as upstreams:
        await until_connected(upstreams, "filesystem", seconds=30)
        seconds = []
        for _ in range(100):
            began = time.perf_counter()
            await upstreams.call("filesystem", "list_allowed_directories", {}, 30)
            seconds.append(time.perf_counter() - began)
        assert sorted(seconds)[50] < 0.03
