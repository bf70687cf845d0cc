"""What the faces stand on: the use cases, and who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.access import Caller, Role
from orchestrator.domain.configuration import HeldConfiguration
from orchestrator.domain.events import Load
from orchestrator.faces.auth import Authenticator
from orchestrator.faces.intake import Intake
from orchestrator.faces.rebinding import HostCheck
from orchestrator.faces.uploads import Uploads
from orchestrator.service.budget import Budget
from orchestrator.service.chat import Chat
from orchestrator.service.direct_calls import DirectCalls
from orchestrator.service.events import Events
from orchestrator.service.executions import Executions
from orchestrator.service.files import Files
from orchestrator.service.readiness import Readiness
from orchestrator.service.records import Records
from orchestrator.service.sign_ins import SignIns
from orchestrator.service.skills import Skills
from orchestrator.service.workspaces import Workspaces


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Services:
    executions: Executions
    records: Records
    files: Files
    workspaces: Workspaces
    skills: Skills
    direct_calls: DirectCalls
    authenticator: Authenticator
    sign_ins: SignIns
    events: Events
    load: Callable[[], Load]
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
    metrics_token_sha256: str | None  # of the token that opens them besides keys
    held_configuration: Callable[[], HeldConfiguration]
    own_tokens: Callable[[Role], int]  # what the definitions of the executor's own MCP tools cost
    version: str
    started_at: float


SERVICES = web.AppKey("services", Services)
CALLER = web.RequestKey("caller", Caller)
