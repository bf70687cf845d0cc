"""The MCP server: its tools and resources in both eras of the protocol, behind the daemon's own port and keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
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
from mcp_types import INVALID_PARAMS, INVALID_REQUEST

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import CodeTooLarge, InvalidRequest, OrchestratorError
from orchestrator.domain.file_words import size_in_words
from orchestrator.domain.names import server_identifier
from orchestrator.faces.context import CALLER, Services
from orchestrator.faces.intake import Intake
from orchestrator.faces.mcp.asgi import Application, Exchange
from orchestrator.faces.mcp.chat_tools import ChatTools
from orchestrator.faces.mcp.discovery_tools import DiscoveryTools
from orchestrator.faces.mcp.execution_tools import ExecutionTools, Reporting
from orchestrator.faces.mcp.resources import TEMPLATES, Contents, Resources
from orchestrator.faces.mcp.skill_extension import SCHEME, TEMPLATE, SkillExtension
from orchestrator.faces.mcp.skill_tools import SkillTools
from orchestrator.faces.mcp.tool import Call, Tool
from orchestrator.faces.mcp.workspace_tools import WorkspaceTools
from orchestrator.wrappers.skill_usages import usages_of

log = structlog.get_logger()

NAME = "code-executor"
INSTRUCTIONS = """\
Work with many MCP tools through code instead of calling them one by one. \
1. search_tools: find tools by what they do. 2. get_tool_info: read the typed signature and an example; do not guess \
names or arguments. 3. execute_code: write one TypeScript or Python program that calls the tools, filters and joins \
their results in the sandbox. 4. Print only what matters: only printed output comes back to you, so never print whole \
results.

A failed program is a normal result: read its stderr, correct the program, run it again. Each run starts in a fresh \
sandbox; only files outlast it, in /workspace/out and, with `workspace`, in /workspace/files. Long output is \
shortened; get_execution reads or searches the rest without running the program again. What others kept is found as \
skills/NAME: run_skill runs it without code; keep what will be needed again with save_skill."""

CALLER_KEY = "code_executor.caller"
GONE_KEY = "code_executor.gone"
STRUCTURED_KEY = "code_executor.structured"
STRUCTURED_PARAMETER = "structured"
MAX_SESSIONS_OF_A_CALLER = 1000
LIST_TTL_MS = 30_000
# Before this, a client does not know structured content.
FIRST_VERSION_WITH_STRUCTURE = "2025-06-18"

Context = ServerRequestContext[Any, Any]


class CallersSessions:
    """The sessions of one caller, so that one who opens sessions without end keeps nobody else out."""

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
    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        resources: Resources,
        skills: SkillExtension,
        intake: Intake,
        *,
        structured: bool,
        version: str,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._structured = structured
        self._resources = resources
        self._skills = skills
        self._intake = intake
        self._sessions: dict[str, CallersSessions] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._started = asyncio.Event()
        hint = CacheHint(ttl_ms=LIST_TTL_MS, scope="private")
        self._server: Server[Any] = Server(
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
        skills.register(self._server, _caller)

    def definitions(self, role: Role) -> str:
        """Return what a client of this role carries of us in each turn: the instructions and the tools, as JSON."""
        tools = [tool.listed_for(role, structured=False) for tool in self._for(role)]
        listed = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in tools]
        return "\n".join((INSTRUCTIONS, *listed))

    async def run(self) -> None:
        """Serve until cancelled; a task of its own, because sessions must end where they began."""
        async with asyncio.TaskGroup() as self._tasks:
            self._started.set()
            await asyncio.Event().wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await self._started.wait()
        assert self._tasks is not None  # noqa: S101  (run() has begun)
        caller: Caller = request[CALLER]
        structured = _asked_for(request.query.get(STRUCTURED_PARAMETER), self._structured)
        sessions = self._sessions.get(caller.key_name)
        if sessions is None:
            sessions = self._sessions[caller.key_name] = CallersSessions(self._server, self._intake.max_body_bytes)
            self._tasks.create_task(sessions.run(), name=f"mcp sessions of {caller.key_name}")
        application = await sessions.application()
        # A session belongs to the key that opened it; with another key it is as if it were not there.
        owner = AuthenticatedUser(AccessToken(token="", client_id=caller.key_name, scopes=[]))
        # The SDK keeps the body and what it parsed from it until the answer is sent, so its place is kept as long.
        try:
            async with self._intake.body(request, caller.key_name) as body:
                exchange = Exchange(request, body)
                extras = {CALLER_KEY: caller, GONE_KEY: exchange.over, STRUCTURED_KEY: structured, "user": owner}
                return await exchange.answer_with(application, **extras)
        except CodeTooLarge as error:
            return _too_large(error, self._intake.max_body_bytes)

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        return self._tools[name].input_schema if name in self._tools else None

    async def _list_tools(self, context: Context, _: object) -> types.ListToolsResult:
        role, structured = _caller(context).role, _wants_structure(context)
        return types.ListToolsResult(tools=[tool.listed_for(role, structured=structured) for tool in self._for(role)])

    def _for(self, role: Role) -> list[Tool[Any]]:
        return [tool for tool in self._tools.values() if tool.is_for(role) and tool.is_of_use()]

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        caller = _caller(context)
        tool = self._tools.get(params.name)
        if tool is None or not tool.is_for(caller.role):
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")

        async def report(progress: float, message: str) -> None:
            await context.session.report_progress(progress, None, message)

        try:
            answer = await tool.call(params.arguments or {}, Call(caller, report, _scope(context)[GONE_KEY]))
        except OrchestratorError as error:
            return _failure(error)
        except Exception:
            log.exception("tool.crashed", tool=params.name)
            return _failure(OrchestratorError("The daemon failed."))
        return answer.as_result(structured=_wants_structure(context))

    async def _list_resources(self, context: Context, _: object) -> types.ListResourcesResult:
        caller = _caller(context)
        resources = [*await self._resources.listed(caller), *self._skills.resources(caller)]
        return types.ListResourcesResult(resources=resources)

    async def _list_templates(self, context: Context, _: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[*TEMPLATES, TEMPLATE])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        caller, uri = _caller(context), str(params.uri)
        contents: Contents
        try:
            if uri.startswith(SCHEME):
                contents = self._skills.read(caller, uri)
            else:
                contents = await self._resources.read(caller, uri)
        except OrchestratorError as error:
            raise MCPError(INVALID_PARAMS, error.message, {"uri": str(params.uri)[:200]}) from error
        return types.ReadResourceResult(contents=[contents])


def build_mcp_face(
    services: Services, *, reply_tokens: int, progress_seconds: float, structured: bool, with_packages: bool
) -> McpFace:
    """Put the tools and the resources together, on what the HTTP API stands on too."""

    def servers_of(role: Role) -> list[str]:
        return sorted(map(server_identifier, {tool.server for tool in services.catalog.visible(role)}))

    reporting = Reporting(services.tokens, reply_tokens, progress_seconds)
    executing = ExecutionTools(
        services.executions,
        services.records,
        services.files,
        services.workspaces,
        services.questions,
        reporting,
        servers_of,
        max_request_bytes=services.intake.max_body_bytes,
        with_packages=with_packages,
    )
    tools: list[Tool[Any]] = [
        *executing.all(),
        WorkspaceTools(services.workspaces, services.questions).list_workspaces,
        *DiscoveryTools(services.toolbox, services.skills.shelf, services.questions).all(),
        *SkillTools(services.skills, executing).all(),
        *ChatTools(services.chat, services.direct_calls).all(),
    ]
    resources = Resources(services.records, services.files, services.questions)
    skills = SkillExtension(services.skills.shelf, usages_of)
    return McpFace(tools, resources, skills, services.intake, structured=structured, version=services.version)


def _caller(context: Context) -> Caller:
    caller: Caller = _scope(context)[CALLER_KEY]
    return caller


def _wants_structure(context: Context) -> bool:
    asked: bool = _scope(context)[STRUCTURED_KEY]
    return asked and context.protocol_version >= FIRST_VERSION_WITH_STRUCTURE


def _asked_for(value: str | None, otherwise: bool) -> bool:
    if value not in (None, "0", "1"):
        raise InvalidRequest(f"`{STRUCTURED_PARAMETER}` must be 0 or 1.")
    return otherwise if value is None else value == "1"


def _scope(context: Context) -> Any:
    if context.request is None:
        raise RuntimeError("A message of a session must come with its HTTP request.")
    return context.request.scope


def _too_large(error: CodeTooLarge, max_bytes: int) -> web.Response:
    """Refuse a request that was not read, in words that clients pass on to their model; its id is not known."""
    message = (
        f"The request must have at most {size_in_words(max_bytes)}. Nothing was run. Send less, let the program make "
        f"its data or get it from a tool, or give it kept files with `from`. ({error.code})"
    )
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return web.json_response(refusal, status=web.HTTPRequestEntityTooLarge.status_code)


def _failure(error: OrchestratorError) -> types.CallToolResult:
    hint = error.hint if error.hint_for_models is None else error.hint_for_models
    text = " ".join(part for part in (error.message, hint, f"({error.code})") if part)
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
