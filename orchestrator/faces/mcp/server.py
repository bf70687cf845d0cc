"""The MCP server: one object for both eras of the protocol, behind the daemon's own port and keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import mcp_types as types
import structlog
from aiohttp import web
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import OrchestratorError
from orchestrator.faces.context import CALLER
from orchestrator.faces.mcp.asgi import Application, Exchange
from orchestrator.faces.mcp.resources import TEMPLATE, Resources
from orchestrator.faces.mcp.tool import Call, Tool

log = structlog.get_logger()

NAME = "code-executor"
INSTRUCTIONS = """\
Work with many MCP tools through code instead of calling them one by one. \
1. search_tools: find tools by what they do. 2. get_tool_info: read the import line and typed signature. \
3. execute_code: write one TypeScript or Python program that calls the tools, filters and joins their results in the \
sandbox. 4. Print only what matters: only printed output comes back to you, so never print whole results. \

A failed program is a normal result: read its stderr, correct the program, run it again. Each run starts in a fresh \
sandbox with an empty /workspace. Long output is shortened; get_execution reads or searches the rest without running \
the program again."""

CALLER_KEY = "code_executor.caller"
GONE_KEY = "code_executor.gone"
MAX_SESSIONS_OF_A_CALLER = 1000
LIST_TTL_MS = 30_000
# Before this, a client does not know links to resources in results.
FIRST_VERSION_WITH_LINKS = "2025-06-18"

Context = ServerRequestContext[Any, Any]


class CallersSessions:
    def __init__(self, server: Server[Any], max_body_bytes: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            server, max_request_body_size=max_body_bytes, max_sessions=MAX_SESSIONS_OF_A_CALLER
        )
        self._started = asyncio.Event()

    async def run(self) -> None:
        async with self._manager.run():
            self._started.set()
            await asyncio.Event().wait()

    async def application(self) -> Application:
        await self._started.wait()
        return self._manager.asgi_app


class McpFace:
    def __init__(self, tools: Iterable[Tool[Any]], resources: Resources, *, version: str, max_body_bytes: int) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._resources = resources
        self._server = self._build_server(version)
        self._max_body_bytes = max_body_bytes
        self._sessions: dict[str, CallersSessions] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._started = asyncio.Event()

    async def run(self) -> None:
        """Serves for as long as it runs; a task of its own, because sessions must end where they began."""
        async with asyncio.TaskGroup() as self._tasks:
            self._started.set()
            await asyncio.Event().wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await self._started.wait()
        exchange = Exchange(request)
        caller = request[CALLER]
        sessions = await self._sessions_of(caller)
        # A session belongs to the key that opened it; with another key it is as if it were not there.
        owner = AuthenticatedUser(AccessToken(token="", client_id=caller.key_name, scopes=[]))
        extras = {CALLER_KEY: caller, GONE_KEY: exchange.over, "user": owner}
        return await exchange.answer_with(sessions, **extras)

    async def _sessions_of(self, caller: Caller) -> Application:
        """Each caller has its own, so that one who opens sessions without end keeps nobody else out."""
        if caller.key_name not in self._sessions:
            opened = CallersSessions(self._server, self._max_body_bytes)
            self._sessions[caller.key_name] = opened
            assert self._tasks is not None  # noqa: S101  (run() has begun: handle() waited for it)
            self._tasks.create_task(opened.run(), name=f"mcp sessions of {caller.key_name}")
        return await self._sessions[caller.key_name].application()

    def _build_server(self, version: str) -> Server[Any]:
        hint = CacheHint(ttl_ms=LIST_TTL_MS, scope="private")
        return Server(
            NAME,
            version=version,
            title="MCP Code Executor",
            instructions=INSTRUCTIONS,
            cache_hints={"tools/list": hint, "resources/templates/list": hint},
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        return self._tools[name].input_schema if name in self._tools else None

    async def _list_tools(self, context: Context, _: object) -> types.ListToolsResult:
        role = _caller(context).role
        return types.ListToolsResult(
            tools=[tool.listed_for(role) for tool in self._tools.values() if tool.is_for(role)]
        )

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        caller = _caller(context)
        tool = self._tools.get(params.name)
        if tool is None or not tool.is_for(caller.role):
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        try:
            answer = await tool.call(params.arguments or {}, _call(context, caller))
        except OrchestratorError as error:
            return _failure(error)
        except Exception:
            log.exception("tool.crashed", tool=params.name)
            return _failure(OrchestratorError("The daemon failed."))
        return _as_known_to(context.protocol_version, answer.as_result())

    async def _list_resources(self, context: Context, _: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await self._resources.listed(_caller(context)))

    async def _list_templates(self, context: Context, _: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            contents = await self._resources.read(_caller(context), str(params.uri))
        except OrchestratorError as error:
            raise MCPError(INVALID_PARAMS, error.message, {"uri": str(params.uri)[:200]}) from error
        return types.ReadResourceResult(contents=[contents])


def _caller(context: Context) -> Caller:
    caller: Caller = _scope(context)[CALLER_KEY]
    return caller


def _call(context: Context, caller: Caller) -> Call:
    async def report(progress: float, message: str) -> None:
        await context.session.report_progress(progress, None, message)

    return Call(caller, report, _scope(context)[GONE_KEY])


def _scope(context: Context) -> Any:
    if context.request is None:
        raise RuntimeError("a message that came with no request")
    return context.request.scope


def _failure(error: OrchestratorError) -> types.CallToolResult:
    hint = error.hint if error.hint_for_models is None else error.hint_for_models
    text = " ".join(part for part in (error.message, hint, f"({error.code})") if part)
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _as_known_to(version: str, result: types.CallToolResult) -> types.CallToolResult:
    if version >= FIRST_VERSION_WITH_LINKS:
        return result
    known: Sequence[Any] = [content for content in result.content if not isinstance(content, types.ResourceLink)]
    return result.model_copy(update={"content": list(known), "structured_content": None})
