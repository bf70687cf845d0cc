"""A caller of the HTTP API, as a test sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(frozen=True)
class StreamedEvent:
    id: str
    name: str
    fields: dict[str, Any]


class Api:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, key: str | None) -> AsyncIterator[Api]:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=90)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            yield cls(session, url)

    def as_caller(self, key: str | None) -> Any:
        """The same daemon with another key: `async with api.as_caller(key) as other`."""
        return Api.connect(self.url, key)

    async def python(self, code: str, timeout_seconds: float = 30, check: str = "strict") -> dict[str, Any]:
        return await self.execute(code, "python", timeout_seconds, check)

    async def typescript(self, code: str, timeout_seconds: float = 30, check: str = "strict") -> dict[str, Any]:
        return await self.execute(code, "typescript", timeout_seconds, check)

    async def execute(
        self, code: str, language: str, timeout_seconds: float = 30, check: str = "strict"
    ) -> dict[str, Any]:
        body = {"code": code, "language": language, "timeoutSeconds": timeout_seconds, "check": check}
        status, reply = await self.post("/execute", body)
        assert status == 200, reply
        return reply

    async def post(self, path: str, body: Any, **kwargs: Any) -> tuple[int, Any]:
        async with self.session.post(self.url + path, json=body, **kwargs) as response:
            return response.status, await response.json(content_type=None)

    async def get(self, path: str, **kwargs: Any) -> tuple[int, Any]:
        async with self.session.get(self.url + path, **kwargs) as response:
            return response.status, await response.json(content_type=None)

    async def delete(self, path: str) -> tuple[int, Any]:
        async with self.session.delete(self.url + path) as response:
            return response.status, await response.json(content_type=None)

    async def stream(self, code: str, language: str, timeout_seconds: float = 30) -> AsyncIterator[tuple[str, Any]]:
        body = {"code": code, "language": language, "timeoutSeconds": timeout_seconds}
        headers = {"Accept": "text/event-stream"}
        async with self.session.post(self.url + "/execute", json=body, headers=headers) as response:
            assert response.status == 200
            async for event in _events_in(response):
                yield event.name, event.fields

    async def background(self, code: str, timeout_seconds: float | None = None, **kwargs: Any) -> str:
        """Start a Python program in the background and return its id."""
        body = {"code": code, "language": "python", "background": True}
        if timeout_seconds is not None:
            body["timeoutSeconds"] = timeout_seconds
        status, reply = await self.post("/execute", body, **kwargs)
        assert status == 202, reply
        return str(reply["executionId"])

    async def watch(self, execution_id: str, last_event_id: str | None = None) -> AsyncIterator[StreamedEvent]:
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        async with self.session.get(f"{self.url}/executions/{execution_id}/events", headers=headers) as response:
            assert response.status == 200, await response.text()
            async for event in _events_in(response):
                yield event


async def _events_in(response: aiohttp.ClientResponse) -> AsyncIterator[StreamedEvent]:
    event_id = name = ""
    async for line in response.content:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "id":
            event_id = value
        elif field == "event":
            name = value
        elif field == "data":
            yield StreamedEvent(event_id, name, json.loads(value))


async def until(condition: Callable[[], Any], *, seconds: float = 30) -> None:
    """A bounded wait for what only polling can see."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def eventually(condition: Callable[[], Awaitable[Any]], *, seconds: float = 30) -> None:
    """The same for what has to be asked."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


async def until_ready(api: Api, *, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await _is_ready(api):
            await asyncio.sleep(0.1)


async def _is_ready(api: Api) -> bool:
    try:
        async with api.session.get(api.url + "/readyz") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
