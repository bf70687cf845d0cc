"""Upstreams as a test runs them: impatient, and closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from orchestrator.upstreams.entries import HttpKind, HttpServer, ServerEntry
from orchestrator.upstreams.upstream import Pacing
from orchestrator.upstreams.upstreams import Upstreams
from tests.support.api import until

QUICK = Pacing(
    connect_seconds=10,
    list_seconds=5,
    between_listings_seconds=0.01,
    first_retry_seconds=0.02,
    longest_retry_seconds=0.1,
    longest_cheap_retry_seconds=0.1,
    between_tries_seconds=0.05,
    settled_seconds=30,
)


@asynccontextmanager
async def running(
    *entries: ServerEntry,
    relist_seconds: float = 3600,
    call_timeout_seconds: float = 10,
    max_result_bytes: int = 1_000_000,
    on_change: Callable[[], None] = lambda: None,
    pacing: Pacing = QUICK,
) -> AsyncIterator[Upstreams]:
    upstreams = Upstreams(
        entries,
        relist_seconds=relist_seconds,
        call_timeout_seconds=call_timeout_seconds,
        max_result_bytes=max_result_bytes,
        on_change=on_change,
        pacing=pacing,
    )
    task = asyncio.create_task(upstreams.run())
    try:
        yield upstreams
    finally:
        task.cancel()
        async with asyncio.timeout(30):
            (ending,) = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(ending, asyncio.CancelledError):
            raise AssertionError("the upstreams ended by themselves") from ending


def http(name: str, url: str, **headers: str) -> HttpServer:
    return HttpServer(name, url, HttpKind.STREAMABLE, headers)


def status(upstreams: Upstreams, name: str) -> UpstreamStatus:
    return next(status for status in upstreams.statuses() if status.server == name)


def problem(upstreams: Upstreams, name: str) -> str:
    return status(upstreams, name).problem or ""


async def until_connected(upstreams: Upstreams, *names: str, seconds: float = 30) -> None:
    await until(
        lambda: all(status(upstreams, name).state is UpstreamState.CONNECTED for name in names), seconds=seconds
    )


async def until_down(upstreams: Upstreams, name: str, seconds: float = 30) -> None:
    await until(lambda: status(upstreams, name).state is UpstreamState.DOWN, seconds=seconds)


def tool_names(upstreams: Upstreams, server: str) -> list[str]:
    return [tool.name for tool in upstreams.tools()[server]]


def text_of(result: Any) -> str:
    return "".join(part["text"] for part in result["content"])
