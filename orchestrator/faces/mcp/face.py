"""Puts the ten tools and the resources together, on what the HTTP API stands on too."""

from __future__ import annotations

from typing import Any

from orchestrator.domain.access import Role
from orchestrator.domain.names import server_identifier
from orchestrator.faces.http.context import Api
from orchestrator.faces.mcp.chat_tools import ChatTools
from orchestrator.faces.mcp.discovery_tools import DiscoveryTools
from orchestrator.faces.mcp.execution_tools import ExecutionSettings, ExecutionTools
from orchestrator.faces.mcp.records import Records
from orchestrator.faces.mcp.resources import Resources
from orchestrator.faces.mcp.server import McpFace
from orchestrator.faces.mcp.tool import Tool


def build_mcp_face(api: Api, reply_tokens: int, progress_seconds: float, max_body_bytes: int) -> McpFace:
    records = Records(api.executor, api.journal)
    settings = ExecutionSettings(
        reply_tokens=reply_tokens,
        progress_seconds=progress_seconds,
        max_code_bytes=api.limits.max_code_bytes,
        max_timeout_seconds=api.limits.max_timeout_seconds,
        limits_for=api.limits.limits_for,
    )

    def servers_of(role: Role) -> list[str]:
        return sorted({server_identifier(tool.server) for tool in api.catalog.visible(role)})

    tools: list[Tool[Any]] = [
        *ExecutionTools(api.executor, records, api.tokens, settings, servers_of).all(),
        *DiscoveryTools(api.toolbox).all(),
        *ChatTools(api.chat).all(),
    ]
    return McpFace(tools, Resources(records), version=api.version, max_body_bytes=max_body_bytes)
