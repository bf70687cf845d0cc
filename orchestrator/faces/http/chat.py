"""Chat over HTTP: each request is a call of one of the built-in server's tools."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from pydantic import BaseModel, Field

from orchestrator.domain.access import CHAT_SERVER
from orchestrator.domain.chat import DEFAULT_MESSAGES, MAX_MESSAGES
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.requests import EXECUTION_ID, Query, parse_body
from orchestrator.service.chat_bodies import Room, SendArguments, Token
from orchestrator.service.executions import new_execution_id


class RoomQuery(Query):
    room: Room = None


class ReadQuery(RoomQuery):
    limit: int = Field(
        DEFAULT_MESSAGES,
        ge=1,
        le=MAX_MESSAGES,
        description=f"How many messages at most, {DEFAULT_MESSAGES} by default.",
    )
    since: Token = Field(None, description="`since` of an earlier answer: only what was said after it.")
    before: Token = Field(None, description="`before` of an earlier answer: what was said before it.")


async def send(request: web.Request, query: Query) -> web.Response:
    return await _call(request, "send", await parse_body(request, SendArguments))


async def read(request: web.Request, query: ReadQuery) -> web.Response:
    return await _call(request, "read", query)


async def who(request: web.Request, query: RoomQuery) -> web.Response:
    return await _call(request, "who", query)


async def _call(request: web.Request, tool: str, asked: BaseModel) -> web.Response:
    services = request.app[SERVICES]
    services.chat.require_configured()
    execution_id = request[EXECUTION_ID] = new_execution_id()
    arguments: dict[str, Any] = asked.model_dump(by_alias=True, exclude_none=True)
    result = await services.direct_calls.call(request[CALLER], execution_id, CHAT_SERVER, tool, arguments)
    return web.json_response(result["structuredContent"])
