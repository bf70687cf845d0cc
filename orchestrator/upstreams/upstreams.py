"""All upstream servers together: each lives on its own, and none can hold up or end another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, assert_never

import aiohttp

from orchestrator.domain.errors import ToolNotFound
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, UpstreamStatus
from orchestrator.upstreams.entries import (
    HttpKind,
    HttpServer,
    ServerEntry,
    StdioServer,
    UnusableServer,
)
from orchestrator.upstreams.faults import TransportFailed
from orchestrator.upstreams.http_client import http_client
from orchestrator.upstreams.legacy_sse import LegacySseTransport
from orchestrator.upstreams.listing import Listed
from orchestrator.upstreams.own_sessions import SessionOwner
from orchestrator.upstreams.room import Room
from orchestrator.upstreams.stdio import StdioTransport
from orchestrator.upstreams.streamable_http import StreamableHttpTransport
from orchestrator.upstreams.transport import Alerts, Transport
from orchestrator.upstreams.upstream import PATIENT, Pacing, Upstream


class Upstreams:
    """`on_change` is called when what `tools()` says has changed; states are read with `statuses()`."""

    def __init__(
        self,
        entries: Iterable[ServerEntry],
        *,
        relist_seconds: float,
        call_timeout_seconds: float,
        max_result_bytes: int,
        on_change: Callable[[], None],
        pacing: Pacing = PATIENT,
    ) -> None:
        self._pacing = pacing
        self._relist_seconds = relist_seconds
        self._call_timeout_seconds = call_timeout_seconds
        self._max_result_bytes = max_result_bytes
        self._on_change = on_change
        self._http: aiohttp.ClientSession | None = None
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._upstreams = {entry.name: self._upstream(entry) for entry in entries}
        self._reconfiguring = asyncio.Lock()  # a server must be stopped before its successor starts

    async def run(self) -> None:
        """Keep every server connected until cancelled; then close everything."""
        try:
            async with http_client() as self._http, asyncio.TaskGroup() as self._group:
                for name in self._upstreams:
                    self._start(name)
                await asyncio.Event().wait()
        finally:
            self._http = self._group = None
            self._tasks.clear()

    def tools(self) -> Mapping[str, tuple[Tool, ...]]:
        """Return what each server listed last, also when it is down now."""
        return {name: upstream.tools for name, upstream in self._upstreams.items()}

    def statuses(self) -> Sequence[UpstreamStatus]:
        return [upstream.status for upstream in self._upstreams.values()]

    @property
    def own_sessions(self) -> int:
        """Return how many sessions all servers together have for executions now."""
        return sum(upstream.own_sessions for upstream in self._upstreams.values())

    async def open_session(self, server: str, owner: SessionOwner, timeout_seconds: float) -> None:
        """Return when the execution can be served: at once, unless the server keeps a session for each."""
        await self._named(server).open_session(owner, min(timeout_seconds, self._call_timeout_seconds))

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float | None = None,
        room: Room | None = None,
        owner: SessionOwner | None = None,
    ) -> CallResult:
        """Call a tool, for no longer than the configured time even if more is asked for."""
        longest = self._call_timeout_seconds
        seconds = longest if timeout_seconds is None else min(timeout_seconds, longest)
        return await self._named(server).call(tool, arguments, seconds, room, owner)

    def _named(self, server: str) -> Upstream:
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise ToolNotFound(f"There is no server {server}.")
        return upstream

    async def reconfigure(self, entries: Iterable[ServerEntry]) -> None:
        """Start, stop and replace servers as the entries say; the unchanged go on, calls in flight included."""
        async with self._reconfiguring:
            wanted = {entry.name: entry for entry in entries}
            before = self.tools()
            kept = {name: old for name, old in self._upstreams.items() if wanted.get(name) == old.entry}
            stopping = [self._tasks.pop(name) for name in self._tasks.keys() - kept.keys()]
            for task in stopping:
                task.cancel()
            if stopping:
                await asyncio.wait(stopping)
            known = {name: old.listed for name, old in self._upstreams.items()}
            self._upstreams = {
                name: kept.get(name) or self._upstream(entry, known.get(name)) for name, entry in wanted.items()
            }
            for name in self._upstreams.keys() - self._tasks.keys():
                self._start(name)
            if self.tools() != before:
                self._on_change()

    def _upstream(self, entry: ServerEntry, listed: Mapping[str, Listed] | None = None) -> Upstream:
        return Upstream(
            entry,
            self._make_transport,
            self._pacing,
            self._on_change,
            relist_seconds=self._relist_seconds,
            longest_call_seconds=self._call_timeout_seconds,
            listed=listed,
        )

    def _start(self, name: str) -> None:
        if self._group is not None:
            self._tasks[name] = self._group.create_task(self._upstreams[name].run(), name=f"upstream {name}")

    def _make_transport(self, entry: ServerEntry, alerts: Alerts) -> Transport:
        assert self._http is not None  # noqa: S101  (only run() starts what comes here)
        match entry:
            case HttpServer(kind=HttpKind.STREAMABLE):
                return StreamableHttpTransport(entry, self._http, alerts, self._max_result_bytes)
            case HttpServer():
                return LegacySseTransport(entry, self._http, alerts, self._max_result_bytes)
            case StdioServer():
                return StdioTransport(entry, alerts, self._max_result_bytes)
            case UnusableServer():
                raise TransportFailed(entry.problem)
            case _:
                assert_never(entry)
