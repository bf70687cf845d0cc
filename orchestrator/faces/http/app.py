"""The routes of the HTTP API."""

from __future__ import annotations

from aiohttp import web

from orchestrator.faces.http import chat, execute, executions, operations, tools
from orchestrator.faces.http.context import API, Api, Handler, authentication
from orchestrator.faces.http.problems import problems

# One byte of code can take six in JSON (\\u00e9), and the rest of the body is small.
JSON_EXPANSION = 6
BODY_ALLOWANCE_BYTES = 64 * 1024


def max_body_bytes(max_code_bytes: int) -> int:
    return max_code_bytes * JSON_EXPANSION + BODY_ALLOWANCE_BYTES


def build_app(api: Api, mcp: Handler | None = None) -> web.Application:
    max_body = max_body_bytes(api.limits.max_code_bytes)
    app = web.Application(middlewares=[problems, authentication], client_max_size=max_body)
    app[API] = api
    app.add_routes(
        [
            web.post("/execute", execute.execute),
            web.get("/executions", executions.list_executions),
            web.get("/executions/{id}", executions.get_execution),
            web.get("/executions/{id}/output", executions.get_output),
            web.delete("/executions/{id}", executions.cancel_execution),
            web.get("/tools", tools.list_tools),
            web.get("/tools/search", tools.search_tools),
            web.get("/tools/info/{server}/{tool}", tools.tool_info),
            web.get("/whoami", tools.whoami),
            web.post("/chat/send", chat.send),
            web.get("/chat/read", chat.read),
            web.get("/chat/who", chat.who),
            web.get("/health", operations.health),
            web.get("/livez", operations.livez),
            web.get("/readyz", operations.readyz),
            web.get("/metrics", operations.metrics),
            web.get("/openapi.json", operations.openapi),
            web.get("/docs", operations.docs),
        ]
    )
    if mcp is not None:
        app.router.add_route("*", "/mcp", mcp)  # a protocol of its own, so the description of the API leaves it out
    return app
