"""An upstream MCP server, as the rest of the product sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

CallResult = Mapping[str, Any]  # an MCP CallToolResult, passed through as the server wrote it


class UpstreamState(StrEnum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    server: str
    state: UpstreamState
    tools: int
    problem: str | None
    since: float
