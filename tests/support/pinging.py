"""A daemon with one server that has one tool, `postgres/ping`, as the admin and as a developer see it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.api import Api, eventually
from tests.support.installation import Installation
from tests.support.upstream_server import ScriptedProxy, serving, tool


@asynccontextmanager
async def pinging(directory: Path) -> AsyncIterator[tuple[Api, Api]]:
    """Ready when entered: yield the admin and the developer."""
    proxy = ScriptedProxy("postgres")
    proxy.tools["postgres"] = [tool("ping")]
    async with serving(proxy.app()) as url:
        servers = directory / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"postgres": {"url": f"{url}/postgres/mcp"}}}))
        installation = Installation.create(directory, servers_file=servers)
        async with installation.run() as admin, admin.as_caller(installation.keys["developer"]) as developer:
            await eventually(lambda: _has_tools(admin))
            yield admin, developer


async def _has_tools(api: Api) -> bool:
    _, listing = await api.get("/tools")
    return "postgres" in listing["tools"]
