"""A server with state, made with the official SDK: each of its sessions counts for itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from tests.support.api import until


class StatefulServer:
    """`alive` are the sessions that it has now, by the names that it gave them."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.code_was_run = 0
        self.alive: Callable[[], set[str]] = set
        self.forget: Callable[[str], None] = lambda session: None
        self._server = Server("stateful", on_list_tools=self._list, on_call_tool=self._call)

    def streamable_app(self) -> Starlette:
        app = self._server.streamable_http_app()
        sessions: dict[str, Any] = self._server.session_manager._server_instances
        self.alive = lambda: set(sessions)
        self.forget = lambda session: sessions.pop(session, None)
        return app

    def sse_app(self) -> Starlette:
        transport = SseServerTransport("/messages/")
        streams: dict[str, asyncio.Event] = {}

        async def connect(request: Request) -> Response:
            known = set(transport._read_stream_writers)
            async with transport.connect_sse(request.scope, request.receive, request._send) as (incoming, outgoing):
                (session,) = {each.hex for each in set(transport._read_stream_writers) - known}
                streams[session] = asyncio.Event()
                serving = asyncio.create_task(
                    self._server.run(incoming, outgoing, self._server.create_initialization_options())
                )
                forgotten = asyncio.create_task(streams[session].wait())
                await asyncio.wait({serving, forgotten}, return_when=asyncio.FIRST_COMPLETED)
                for task in (serving, forgotten):
                    task.cancel()
                await asyncio.gather(serving, forgotten, return_exceptions=True)
                del streams[session]
            return Response()

        self.alive = lambda: set(streams)
        self.forget = lambda session: streams[session].set()
        routes = [Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)]
        return Starlette(routes=routes)

    async def _list(self, _: Any, __: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"by": {"type": "integer"}}}
        names = ("count", "run_code")
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=schema) for name in names])

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "run_code":
            self.code_was_run += 1
        request = context.request
        session = request.headers.get("mcp-session-id") or request.query_params["session_id"]
        self.counters[session] += (params.arguments or {}).get("by", 1)
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(self.counters[session]))])


@asynccontextmanager
async def served_by_uvicorn(app: Any) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await serving
