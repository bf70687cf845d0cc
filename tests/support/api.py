"""A caller of the HTTP API, as a test sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp


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
            name = ""
            async for line in response.content:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    yield name, json.loads(text.removeprefix("data: "))


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
