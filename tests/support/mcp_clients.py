"""MCP clients as a test drives them: the SDK's in both eras over both transports, and bare requests."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.installation import PROJECT

LEGACY, MODERN = "legacy", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}


@asynccontextmanager
async def http_client(url: str, key: str, era: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=era) as client,
    ):
        yield client


@asynccontextmanager
async def stdio_client(url: str, key: str, era: str) -> AsyncIterator[Client]:
    async with Client(bridge_command(url, key), mode=era) as client:
        yield client


def bridge_command(url: str, key: str) -> StdioServerParameters:
    environment = {"CODE_EXECUTOR_URL": url, "CODE_EXECUTOR_KEY": key}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "orchestrator", "mcp"], env=environment, cwd=PROJECT
    )


TRANSPORTS = {"http": http_client, "stdio": stdio_client}


@dataclass
class BareClient:
    """Sends exactly what the test says; the reply is the list of messages that came."""

    session: aiohttp.ClientSession
    url: str
    session_id: str | None = None

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, key: str | None) -> AsyncIterator[BareClient]:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(headers={**ACCEPT, **headers}, timeout=timeout) as session:
            yield cls(session, f"{url}/mcp")

    async def initialize(self) -> None:
        async with self.post("initialize", INITIALIZE, 0) as response:
            assert response.status == 200, await response.text()
            self.session_id = response.headers["Mcp-Session-Id"]
            await messages(response)
        async with self.post("notifications/initialized", {}, None) as response:
            assert response.status == 202

    def post(self, method: str, params: dict[str, Any], request_id: Any, **headers: str) -> Any:
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            body["id"] = request_id
        if self.session_id is not None:
            headers = {"Mcp-Session-Id": self.session_id, "MCP-Protocol-Version": "2025-11-25", **headers}
        return self.session.post(self.url, json=body, headers=headers)

    def post_without_session(self, method: str, params: dict[str, Any], request_id: Any) -> Any:
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": META}}
        return self.session.post(self.url, json=body, headers=headers)


async def messages(response: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    if response.content_type != "text/event-stream":
        return [json.loads(await response.text())]
    lines = (await response.text()).splitlines()
    return [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]


def python(code: str, **more: Any) -> dict[str, Any]:
    return {"language": "python", "code": code, **more}


def text_of(result: Any) -> str:
    return str(result.content[0].text)
