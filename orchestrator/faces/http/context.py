"""What the handlers share: the service, and who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import Caller
from orchestrator.domain.execution import Limits
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.rebinding import HostCheck
from orchestrator.service.chat import Chat
from orchestrator.service.executions import Executor
from orchestrator.service.ports import Journal
from orchestrator.service.readiness import Readiness

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


@dataclass(frozen=True, slots=True)
class ApiLimits:
    max_code_bytes: int
    max_timeout_seconds: float
    heartbeat_seconds: float
    limits_for: Callable[[float | None], Limits]


@dataclass(frozen=True, slots=True)
class Api:
    executor: Executor
    journal: Journal
    authenticator: Authenticator
    hosts: HostCheck
    readiness: Readiness
    tokens: TokenCounter
    catalog: Catalog
    toolbox: Toolbox
    chat: Chat
    limits: ApiLimits
    render_metrics: Callable[[], bytes]
    version: str
    started_at: float


API = web.AppKey("api", Api)
CALLER = web.RequestKey("caller", Caller)
PUBLIC_PATHS = frozenset({"/health", "/livez", "/readyz"})


@web.middleware
async def authentication(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path not in PUBLIC_PATHS:
        request.app[API].hosts.check(request.headers)
        request[CALLER] = request.app[API].authenticator.authenticate(request.headers)
    return await handler(request)
