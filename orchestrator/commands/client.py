"""A client of the HTTP API, for the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from orchestrator.upstreams.faults import ResultTooLarge
from orchestrator.upstreams.sse import EVENT_STREAM, events_in

LARGEST_EVENT_BYTES = 64 * 1024 * 1024
SILENCE_SECONDS = 120
ANSWER_SECONDS = 30


class CallFailed(Exception):
    """The message says in one sentence what failed, and what to do next."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    fields: dict[str, Any]


class ApiClient:
    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}

    async def execute(
        self, code: str, language: str, timeout_seconds: float | None, check: str = "strict"
    ) -> AsyncIterator[Event]:
        """Run a program and yield what happens, the last being its result."""
        order = {"code": code, "language": language, "check": check}
        body = order if timeout_seconds is None else {**order, "timeoutSeconds": timeout_seconds}
        patience = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
        headers = {"Accept": EVENT_STREAM}
        async with (
            self._response("POST", "/execute", patience, json=body, headers=headers) as response,
            aclosing(events_in(response.content.iter_any(), LARGEST_EVENT_BYTES)) as events,
        ):
            async for event in events:
                yield Event(event.kind, json.loads(event.data))

    async def get(self, path: str, parameters: list[tuple[str, str]] | None = None) -> dict[str, Any]:
        patience = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with self._response("GET", path, patience, params=parameters or []) as response:
            answer: dict[str, Any] = await response.json()
            return answer

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, patience: aiohttp.ClientTimeout, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a response that is no error; everything else becomes CallFailed, also what fails while it is read."""
        try:
            async with (
                aiohttp.ClientSession(headers=self._headers, timeout=patience) as session,
                session.request(method, f"{self._url}{path}", **options) as response,
            ):
                if response.status >= 400:
                    try:
                        problem = await response.json(content_type=None)
                        raise CallFailed(f"{problem['detail']} {problem['hint']} ({problem['code']})")
                    except (ValueError, KeyError, TypeError) as error:
                        raise CallFailed(f"HTTP {response.status} from {response.url}.") from error
                yield response
        except aiohttp.ClientConnectorError as error:
            raise CallFailed(f"No daemon answers at {self._url}. Start it with 'make up'.") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CallFailed(f"The connection to {self._url} broke ({str(error) or 'no answer in time'}).") from error
        except ResultTooLarge as error:
            raise CallFailed(f"The daemon sent an event of more than {error.max_bytes} bytes. Print less.") from error
