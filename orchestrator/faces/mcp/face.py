"""Puts the ten tools and the resources together, on what the HTTP API stands on too."""

from __future__ import annotations

from typing import Any

from orchestrator.domain.access import Role
from orchestrator.domain.names import server_identifier
from orchestrator.faces.context import Services
from orchestrator.faces.mcp.chat_tools import ChatTools
from orchestrator.faces.mcp.discovery_tools import DiscoveryTools
from orchestrator.faces.mcp.execution_tools import ExecutionTools, Reporting
from orchestrator.faces.mcp.resources import Resources
from orchestrator.faces.mcp.server import McpFace
from orchestrator.faces.mcp.tool import Tool


def build_mcp_face(services: Services, reply_tokens: int, progress_seconds: float) -> McpFace:
    def servers_of(role: Role) -> list[str]:
        return sorted({server_identifier(tool.server) for tool in services.catalog.visible(role)})

    reporting = Reporting(services.tokens, reply_tokens, progress_seconds)
    tools: list[Tool[Any]] = [
        *ExecutionTools(services.executions, services.records, reporting, servers_of).all(),
        *DiscoveryTools(services.toolbox).all(),
        *ChatTools(services.chat, services.direct_calls).all(),
    ]
    resources = Resources(services.records)
    return McpFace(tools, resources, version=services.version, max_body_bytes=services.max_body_bytes)
