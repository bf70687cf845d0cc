"""An upstream MCP server, as the rest of the product sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from orchestrator.domain.json_text import JsonObject, Text

CallResult = Mapping[str, Any]  # an MCP CallToolResult, passed through as the server wrote it


class LargeResult(JsonObject):
    """A result that is passed on undecoded, with what the daemon itself needs to know of it."""

    __slots__ = ("failed", "images")

    def __init__(self, text: Text, *, failed: bool, images: tuple[str, ...]) -> None:
        super().__init__(text)
        self.failed = failed
        self.images = images  # the data of each, in base64


def is_failure(result: CallResult) -> bool:
    """Tell whether the tool says that it failed."""
    return result.failed if isinstance(result, LargeResult) else bool(result.get("isError"))


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
