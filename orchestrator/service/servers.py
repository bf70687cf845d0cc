"""The servers that sandboxes can call: upstream ones, and those that are built in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from orchestrator.domain.access import Role
from orchestrator.domain.errors import ToolUnavailable
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, UpstreamState, UpstreamStatus
from orchestrator.service.rooms import ResultRoom
from orchestrator.service.sessions import Sessions


class Upstreams(Protocol):
    def tools(self) -> Mapping[str, tuple[Tool, ...]]: ...

    def statuses(self) -> Sequence[UpstreamStatus]: ...

    async def open_session(self, server: str, owner: Sessions, timeout_seconds: float) -> None: ...

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float,
        room: ResultRoom,
        owner: Sessions,
    ) -> CallResult: ...


class BuiltIn(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def tools(self) -> tuple[Tool, ...]: ...

    @property
    def status(self) -> UpstreamStatus: ...

    async def call(self, role: Role, tool: str, arguments: Mapping[str, Any]) -> CallResult: ...


class Servers:
    """A built-in server's name is taken even while it offers nothing: a role that names it means that one."""

    def __init__(self, upstreams: Upstreams, *built_in: BuiltIn, reserved: frozenset[str] = frozenset()) -> None:
        self._upstreams = upstreams
        self._built_in = {server.name: server for server in built_in}
        self._taken = reserved | self._built_in.keys()

    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        upstream = {name: tools for name, tools in self._upstreams.tools().items() if name not in self._taken}
        return {**upstream, **{name: server.tools for name, server in self._built_in.items() if server.tools}}

    def statuses(self) -> Sequence[UpstreamStatus]:
        problem = "its name belongs to a built-in server; rename it in servers.json"
        upstream = [
            replace(status, state=UpstreamState.DOWN, tools=0, problem=problem)
            if status.server in self._taken
            else status
            for status in self._upstreams.statuses()
        ]
        named = {status.server for status in upstream}
        return [
            *upstream,
            *(server.status for server in self._built_in.values() if server.tools and server.name not in named),
        ]

    async def open_session(self, server: str, sessions: Sessions, timeout_seconds: float) -> None:
        if server not in self._built_in:
            await self._upstreams.open_session(server, sessions, timeout_seconds)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float,
        role: Role,
        room: ResultRoom,
        sessions: Sessions,
    ) -> CallResult:
        built_in = self._built_in.get(server)
        if built_in is None:
            return await self._upstreams.call(server, tool, arguments, timeout_seconds, room, sessions)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await built_in.call(role, tool, arguments)
        except TimeoutError:
            message = f"The server {server} did not answer within {timeout_seconds:g} s; it may still have acted."
            raise ToolUnavailable(message) from None
