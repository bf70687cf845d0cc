"""The HTTP server: who is it, which route, and every error as a problem."""

from __future__ import annotations

from aiohttp import web

from orchestrator.faces.context import CALLER, SERVICES, Services
from orchestrator.faces.http.openapi import DOCUMENT, document
from orchestrator.faces.http.problems import Handler, problems
from orchestrator.faces.http.routes import ROUTES

PUBLIC_PATHS = frozenset(route.path for route in ROUTES if route.public)


@web.middleware
async def authentication(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path not in PUBLIC_PATHS:
        services = request.app[SERVICES]
        services.hosts.check(request.headers)
        request[CALLER] = services.authenticator.authenticate(request.headers)
    return await handler(request)


def build_app(services: Services, mcp: Handler | None = None) -> web.Application:
    app = web.Application(middlewares=[problems, authentication], client_max_size=services.max_body_bytes)
    app[SERVICES] = services
    app[DOCUMENT] = document(ROUTES, services.version)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, route.handle, name=route.operation_id)
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, route.handle)
    if mcp is not None:
        app.router.add_route("*", "/mcp", mcp)  # a protocol of its own, so the description of the API leaves it out
    return app
