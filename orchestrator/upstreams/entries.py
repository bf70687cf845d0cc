"""Where an upstream server is, as servers.json says. What may be secret is never in a repr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_SHORTEST_SECRET = 4  # shorter values are words of everyday text, and hiding them would garble the log


class HttpKind(StrEnum):
    STREAMABLE = "streamable"
    SSE = "sse"


@dataclass(frozen=True, slots=True)
class HttpServer:
    name: str
    url: str = field(repr=False)
    kind: HttpKind = HttpKind.STREAMABLE
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    lists_contents: bool = False
    has_own_sessions: bool = False  # one for each execution
    withheld: tuple[str, ...] = ()  # patterns of tools that nobody gets


@dataclass(frozen=True, slots=True)
class StdioServer:
    name: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    lists_contents: bool = False
    has_own_sessions: bool = False
    withheld: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return text


@dataclass(frozen=True, slots=True)
class UnusableServer:
    """Known by name, but its entry cannot be used as it stands."""

    name: str
    problem: str
    lists_contents: bool = False
    has_own_sessions: bool = False
    withheld: tuple[str, ...] = ()


ServerEntry = HttpServer | StdioServer | UnusableServer
