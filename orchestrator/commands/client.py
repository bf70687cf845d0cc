"""A client of the HTTP API, for the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from orchestrator.commands.refusals import in_own_words
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
    id: str = ""


class ConnectionLost(CallFailed):
    """The daemon could not be reached, or went away in the middle of an answer."""


class AddressInvalid(CallFailed):
    """No daemon can be at the address that was set."""


class Refused(CallFailed):
    """The daemon answered that it does not do it; the code of the error says why."""

    def __init__(self, code: str, detail: str, hint: str) -> None:
        super().__init__(in_own_words(detail, hint, code))
        self.code = code


class DaemonTooOld(CallFailed):
    """The daemon does not know what the command needs; the one that comes with the command does."""


class ApiClient:
    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}

    def execute(
        self,
        code: str,
        language: str,
        timeout_seconds: float | None,
        check: str = "strict",
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> AsyncGenerator[Event, None]:
        """Run a program and yield what happens, the last being its result. Close it, whether it has ended or not."""
        return self._events("POST", "/execute", json=_order(code, language, timeout_seconds, check, more))

    def run_skill(
        self, name: str, given: Mapping[str, Any], timeout_seconds: float | None
    ) -> AsyncGenerator[Event, None]:
        """Run a skill and yield what happens, as `execute` does."""
        body = {"input": given} if timeout_seconds is None else {"input": given, "timeoutSeconds": timeout_seconds}
        return self._events("POST", f"/skills/{quote(name, safe='')}/run", json=body)

    async def execute_in_background(
        self,
        code: str,
        language: str,
        timeout_seconds: float | None,
        check: str = "strict",
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Start a program that nobody waits for; return its id and where to read about it."""
        body = {**_order(code, language, timeout_seconds, check, more), "background": True}
        return await self._answer("POST", "/execute", json=body)

    def follow(self, execution_id: str, last_event_id: str = "") -> AsyncGenerator[Event, None]:
        """Yield what happens in an execution, from the beginning or after an event, the last being its result.

        Close it, whether it has ended or not.
        """
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        return self._events("GET", f"/executions/{quote(execution_id, safe='')}/events", headers=headers)

    async def events(self, last_event_id: str = "") -> AsyncGenerator[Event, None]:
        """Yield what happens in the daemon, from now on or after an event, without an end. Close it."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        with self._newer("stream of events"):
            async with aclosing(self._events("GET", "/events", headers=headers)) as events:
                async for event in events:
                    yield event

    async def statistics(self, since: str) -> dict[str, Any]:
        """Return what happened since a time, in figures, and the load now."""
        with self._newer("statistics"):
            return await self.get("/stats", [("since", since)])

    async def console_link(self) -> tuple[str, float]:
        """Return a link that signs one in to the console, once, and for how many seconds it is valid."""
        with self._newer("console"):
            made = await self.order("POST", "/console/codes")
        return f"{self._url}/#code={quote(made['code'], safe='')}", made["expiresInSeconds"]

    @contextmanager
    def _newer(self, what: str) -> Iterator[None]:
        """Say of a path that earlier daemons do not have why it is not there."""
        try:
            yield
        except Refused as error:
            if error.code != "not_found":
                raise
            older = f"The daemon at {self._url} is older than this command and has no {what}."
            raise DaemonTooOld(f"{older} Update it with 'make up'.") from error

    async def cancel(self, execution_id: str) -> dict[str, Any]:
        return await self._answer("DELETE", f"/executions/{quote(execution_id, safe='')}")

    async def get(
        self, path: str, parameters: list[tuple[str, str]] | None = None, seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any]:
        return await self._answer("GET", path, seconds, params=parameters or [])

    async def _answer(self, method: str, path: str, seconds: float = ANSWER_SECONDS, **options: Any) -> dict[str, Any]:
        patience = aiohttp.ClientTimeout(total=seconds)
        async with self._response(method, path, patience, **options) as response:
            answer: dict[str, Any] = await response.json()
            return answer

    async def _events(
        self, method: str, path: str, headers: Mapping[str, str] = MappingProxyType({}), **options: Any
    ) -> AsyncGenerator[Event, None]:
        patience = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
        headers = {"Accept": EVENT_STREAM, **headers}
        async with (
            self._response(method, path, patience, headers=headers, **options) as response,
            aclosing(events_in(response.content.iter_any(), LARGEST_EVENT_BYTES)) as events,
        ):
            async for event in events:
                yield Event(event.kind, json.loads(event.data), event.id)

    async def order(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any]:
        """Have something done, and return what the daemon says of it."""
        return await self._answer(method, path, seconds, json=body)

    async def has_upload(self, sha256: str) -> bool:
        patience = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        missing = (HTTPStatus.NOT_FOUND,)
        async with self._response("HEAD", f"/files/{sha256}", patience, expected=missing) as response:
            return response.status == HTTPStatus.OK

    async def delete_upload(self, sha256: str) -> None:
        await self._answer("DELETE", f"/files/{quote(sha256, safe='')}")

    async def upload(self, sha256: str, size: int, pieces: AsyncIterable[bytes]) -> None:
        """Send a file in advance; the daemon refuses it if it has another hash."""
        patience = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        parameters = {"sha256": sha256}
        async with self._response("POST", "/files", patience, data=pieces, headers=headers, params=parameters):
            pass

    async def download(self, path: str, take: Callable[[bytes], object]) -> None:
        """Hand over the content of a file, piece by piece."""
        patience = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
        async with self._response("GET", path, patience) as response:
            async for piece in response.content.iter_any():
                take(piece)

    @asynccontextmanager
    async def _response(
        self,
        method: str,
        path: str,
        patience: aiohttp.ClientTimeout,
        expected: tuple[HTTPStatus, ...] = (),
        **options: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a response that is no error; everything else becomes CallFailed, also what fails while it is read."""
        _require_address(self._url)
        try:
            async with (
                aiohttp.ClientSession(headers=self._headers, timeout=patience) as session,
                # Percent-encoded already: a name may have characters that would otherwise mean something in a URL.
                session.request(method, URL(f"{self._url}{path}", encoded=True), **options) as response,
            ):
                if response.status >= 400 and response.status not in expected:
                    try:
                        problem = await response.json(content_type=None)
                        raise Refused(problem["code"], problem["detail"], problem["hint"])
                    except (ValueError, KeyError, TypeError) as error:
                        raise CallFailed(f"HTTP {response.status} from {response.url}.") from error
                yield response
        except aiohttp.ClientConnectorDNSError as error:
            unknown = f"The host of {self._url} could not be found. Check CODE_EXECUTOR_URL."
            raise ConnectionLost(unknown) from error
        except aiohttp.ClientConnectorError as error:
            raise ConnectionLost(f"No daemon answers at {self._url}. Start it with 'make up'.") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            broke = f"The connection to {self._url} broke ({str(error) or 'no answer in time'})."
            raise ConnectionLost(broke) from error
        except ResultTooLarge as error:
            raise CallFailed(f"The daemon sent an event of more than {error.max_bytes} bytes. Print less.") from error


def _require_address(url: str) -> None:
    try:
        address = URL(url)
        is_one = address.scheme in ("http", "https") and bool(address.host)
    except ValueError:
        is_one = False
    if not is_one:
        raise AddressInvalid("CODE_EXECUTOR_URL must be an http:// or https:// address, such as http://127.0.0.1:9091.")


def _order(
    code: str, language: str, timeout_seconds: float | None, check: str, more: Mapping[str, Any]
) -> dict[str, Any]:
    order = {"code": code, "language": language, "check": check, **more}
    return order if timeout_seconds is None else {**order, "timeoutSeconds": timeout_seconds}
