"""GET /tools: progressive disclosure, each reply with what it costs and saves in tokens."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from orchestrator.catalog.disclosure import Detail, compact
from orchestrator.domain.errors import InvalidRequest
from orchestrator.faces.http.context import API, CALLER
from orchestrator.faces.http.executions import number

MAX_QUERY_CHARACTERS = 4096
LARGEST_LIMIT = 100


async def list_tools(request: web.Request) -> web.Response:
    role = request[CALLER].role
    listing = request.app[API].toolbox.listing(role, _detail(request, Detail.NAME), request.query.get("server"))
    return _json(listing)


async def search_tools(request: web.Request) -> web.Response:
    queries = [query for query in request.query.getall("q", []) if query.strip()]
    if any(len(query) > MAX_QUERY_CHARACTERS for query in queries):
        raise InvalidRequest(f"q: at most {MAX_QUERY_CHARACTERS} characters.")
    found = request.app[API].toolbox.search(
        request[CALLER].role,
        queries,
        _detail(request, Detail.DESCRIPTION),
        server=request.query.get("server"),
        limit=number(request, "limit", 10, 1, LARGEST_LIMIT),
    )
    return _json(found)


async def tool_info(request: web.Request) -> web.Response:
    match = request.match_info
    return _json(request.app[API].toolbox.info(request[CALLER].role, match["server"], match["tool"]))


async def whoami(request: web.Request) -> web.Response:
    caller = request[CALLER]
    role = caller.role
    return web.json_response(
        {
            "caller": caller.key_name,
            "role": role.name,
            "servers": sorted(role.servers),
            "tools": {"allow": list(role.allowed_tools), "deny": list(role.denied_tools)},
            "seesAllExecutions": role.sees_all_executions,
            "chatRooms": sorted(role.chat_rooms),
        }
    )


def _json(reply: dict[str, Any]) -> web.Response:
    # Written as it was counted: without a space that would cost a token.
    return web.json_response(reply, dumps=compact)


def _detail(request: web.Request, default: Detail) -> Detail:
    asked = request.query.get("detail", default)
    try:
        return Detail(asked)
    except ValueError as error:
        raise InvalidRequest("detail: it is name, description or full.") from error
