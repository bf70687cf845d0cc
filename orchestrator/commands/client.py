"""A client of the HTTP API, for the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp


class CallFailed(Exception):
    """The message is one sentence and what to do next."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    fields: dict[str, Any]


class ApiClient:
    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}

    async def execute(self, code: str, language: str, timeout_seconds: float | None) -> AsyncIterator[Event]:
        order = {"code": code, "language": language}
        body = order if timeout_seconds is None else {**order, "timeoutSeconds": timeout_seconds}
        headers = {**self._headers, "Accept": "text/event-stream"}
        patience = aiohttp.ClientTimeout(total=None, sock_read=120)
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=patience, read_bufsize=2**22) as session,
                session.post(f"{self._url}/execute", json=body) as response,
            ):
                await _raise_for_problem(response)
                async for event in _events(response):
                    yield event
        except aiohttp.ClientConnectorError as error:
            raise CallFailed(f"No daemon answers at {self._url}; start it with 'make up'.") from error
        except aiohttp.ClientError as error:
            raise CallFailed(f"The connection to {self._url} broke ({error}).") from error

    async def get(self, path: str, parameters: list[tuple[str, str]] | None = None) -> dict[str, Any]:
        patience = aiohttp.ClientTimeout(total=30)
        try:
            async with (
                aiohttp.ClientSession(headers=self._headers, timeout=patience) as session,
                session.get(f"{self._url}{path}", params=parameters or []) as response,
            ):
                await _raise_for_problem(response)
                answer: dict[str, Any] = await response.json()
                return answer
        except aiohttp.ClientConnectorError as error:
            raise CallFailed(f"No daemon answers at {self._url}; start it with 'make up'.") from error


async def _raise_for_problem(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    try:
        problem = await response.json(content_type=None)
        raise CallFailed(f"{problem['detail']} {problem['hint']} ({problem['code']})")
    except (ValueError, KeyError, TypeError) as error:
        raise CallFailed(f"HTTP {response.status} from {response.url}.") from error


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    name = ""
    async for line in response.content:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield Event(name, json.loads(text.removeprefix("data: ")))
