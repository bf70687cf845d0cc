"""What the faces stand on: the use cases, and who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import Caller
from orchestrator.domain.configuration import HeldConfiguration
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.intake import Intake
from orchestrator.faces.rebinding import HostCheck
from orchestrator.faces.uploads import Uploads
from orchestrator.service.budget import Budget
from orchestrator.service.chat import Chat
from orchestrator.service.direct_calls import DirectCalls
from orchestrator.service.executions import Executions
from orchestrator.service.files import Files
from orchestrator.service.readiness import Readiness
from orchestrator.service.records import Records
from orchestrator.service.workspaces import Workspaces


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Services:
    executions: Executions
    records: Records
    files: Files
    workspaces: Workspaces
    direct_calls: DirectCalls
    authenticator: Authenticator
    hosts: HostCheck
    readiness: Readiness
    tokens: TokenCounter
    catalog: Catalog
    toolbox: Toolbox
    questions: Budget  # each takes a thread, so callers take turns
    chat: Chat
    intake: Intake
    uploads: Uploads
    heartbeat_seconds: float
    render_metrics: Callable[[], bytes]
    held_configuration: Callable[[], HeldConfiguration]
    version: str
    started_at: float


SERVICES = web.AppKey("services", Services)
CALLER = web.RequestKey("caller", Caller)
