"""The MCP face on a socket, on services that are not there."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import mcp_types as types
import pytest
from aiohttp import web
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from orchestrator.domain.access import Caller
from orchestrator.domain.skills import SkillVersion
from orchestrator.faces.context import CALLER
from orchestrator.faces.intake import Intake
from orchestrator.faces.mcp.messages import MAX_CONTENT_BYTES, TEXT_BYTES
from orchestrator.faces.mcp.models import ListServers, ServerListing
from orchestrator.faces.mcp.server import McpFace
from orchestrator.faces.mcp.skill_extension import SkillExtension
from orchestrator.faces.mcp.tool import READS, Answer, Call, Tool
from tests.support.mcp_clients import LEGACY, MODERN
from tests.support.samples import DEVELOPER
from tests.support.upstream_server import serving

MAX_BODY_BYTES = 64 * 1024


class NoSkills:
    def approved_for(self, caller: Caller) -> Sequence[SkillVersion]:
        return ()


@asynccontextmanager
async def face(*tools: Tool[Any]) -> AsyncIterator[str]:
    intake = Intake(total_bytes=2**20, per_caller_bytes=2**20, max_body_bytes=MAX_BODY_BYTES, body_seconds=5)
    skills = SkillExtension(NoSkills())
    served = McpFace(tools, cast("Any", None), skills, intake, structured=False, version="0")

    async def handle(request: web.Request) -> web.StreamResponse:
        request[CALLER] = DEVELOPER
        return await served.handle(request)

    app = web.Application()
    app.router.add_route("*", "/mcp", handle)
    running = asyncio.create_task(served.run())
    try:
        async with serving(app) as url:
            yield f"{url}/mcp"
    finally:
        running.cancel()
        await asyncio.wait((running,))


async def test_a_request_that_is_too_large_is_answered_in_json_rpc_with_the_limit():
    async with face() as url, aiohttp.ClientSession() as http:
        response = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "params": "x" * MAX_BODY_BYTES})
        answer = await response.json()
    assert response.status == 413
    assert answer["id"] is None
    assert answer["error"]["message"].startswith("The request must have at most 64 KiB. Nothing was run.")
    assert "POST" not in answer["error"]["message"]


each_era = pytest.mark.parametrize("era", [LEGACY, MODERN])


@each_era
async def test_a_client_is_told_why_its_request_was_refused(era):
    async with face() as url, Client(streamable_http_client(url), mode=era) as client:
        with pytest.raises(MCPError, match="at most 64 KiB"):
            await client.call_tool("execute_code", {"code": "x" * MAX_BODY_BYTES})


@each_era
async def test_a_client_takes_the_largest_picture_that_is_sent(era):
    picture = types.ImageContent(data=b64encode(bytes(MAX_CONTENT_BYTES)).decode(), mime_type="image/png")

    async def show(order: ListServers, call: Call) -> Answer:
        return Answer(ServerListing(servers=[]), "text " * (TEXT_BYTES // 8), more=[picture])

    tool = Tool("show", "Show", "Shows.", ListServers, ServerListing, READS, show)
    async with face(tool) as url, Client(streamable_http_client(url), mode=era) as client:
        result = await asyncio.wait_for(client.call_tool("show", {}), 20)
    assert result.content[1] == picture
