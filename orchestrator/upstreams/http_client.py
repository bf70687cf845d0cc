"""The rules that every HTTP exchange with an MCP server follows."""

from __future__ import annotations

import io
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

import aiohttp
from yarl import URL

from orchestrator.upstreams.faults import HttpRefused, ResultTooLarge, TransportFailed, Unreachable
from orchestrator.upstreams.jsonrpc import Message, decode
from orchestrator.upstreams.pace import ReadingPace
from orchestrator.upstreams.parsing import Text
from orchestrator.upstreams.resolver import Connector
from orchestrator.upstreams.room import FREE_BYTES, Room
from orchestrator.upstreams.sse import EVENT_STREAM, MESSAGE, events_in

JSON = "application/json"
# Shorter than the 5 s of uvicorn and Node: a server that closes an idle connection as we write costs us a call.
_KEEP_ALIVE_SECONDS = 4.0
_LARGE_BODY_BYTES = 1024 * 1024
_MAX_REDIRECTS = 3
_SHORT_BODY_BYTES = 4096
_REDIRECTS = {301, 302, 307, 308}

Decode = Callable[[Text], Awaitable[list[Message]]]


def http_client(*, connect_seconds: float = 10.0, silence_seconds: float | None = None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=Connector(keepalive_timeout=_KEEP_ALIVE_SECONDS),
        # The time to connect includes that to resolve the name.
        timeout=aiohttp.ClientTimeout(total=None, connect=connect_seconds, sock_read=silence_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        # A compressed reply would be measured before it is unpacked; we ask for none and accept none.
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
    )


class Address:
    """Where a server's messages go; remembers where it was redirected to."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = URL(url)

    @asynccontextmanager
    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open the response, with its body still to be read; faults on the way and within become TransportFailed."""
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                # The client sends bytes in one go, which for large ones would hold up the event loop.
                data = io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY_BYTES else body
                async with self._http.request(
                    method, self._url, data=data, headers=headers, allow_redirects=False
                ) as response:
                    if response.status not in _REDIRECTS:
                        yield response
                        return
                    self._url = self._trusted(response.headers.get("Location", ""))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _fault(error) from None
        raise TransportFailed("it redirects too many times")

    def beside(self, target: str) -> Address:
        """Return the address of what the server refers to, which must be on the same host."""
        return Address(self._http, str(self._trusted(target)))

    def _trusted(self, target: str) -> URL:
        """Resolve a reference; our credentials go nowhere but to the host that they were given for."""
        try:
            url = self._url.join(URL(target))
            same_origin = url.origin() == self._url.origin()
        except ValueError:
            raise TransportFailed("it redirects to an address that is not valid") from None
        upgraded = url.host == self._url.host and (self._url.scheme, url.scheme) == ("http", "https")
        if not same_origin and not upgraded:
            raise TransportFailed("it redirects to another host. Put that address into servers.json if it is right")
        return url


def _fault(error: Exception) -> TransportFailed:
    """Say what failed in our own words: those of the client quote addresses, which may hold credentials."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return Unreachable("its host name cannot be resolved")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError() | ssl.SSLError():
            return Unreachable("its TLS certificate or handshake is not acceptable")
        case aiohttp.ClientConnectorError(os_error=OSError(strerror=str(reason))):
            # "Connect call failed ('127.0.0.1', 9090)" is how asyncio says it when several addresses were tried.
            return Unreachable(f"we cannot connect to it ({'connection refused' if '(' in reason else reason.lower()})")
        case aiohttp.ClientConnectorError():
            return Unreachable("we cannot connect to it")
        case TimeoutError():
            return TransportFailed("it did not accept a connection in time")
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | OSError():
            return TransportFailed("the connection broke before the answer was complete")
        case _:
            return TransportFailed("its answer is not valid HTTP")


def content_type(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def require_plain(response: aiohttp.ClientResponse) -> None:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise TransportFailed("it compresses its answers although it was asked not to")


async def require_acceptance(response: aiohttp.ClientResponse) -> None:
    """Raise HttpRefused unless the message was taken; a short body that nobody reads would cost the connection."""
    if response.content_length is not None and response.content_length <= _SHORT_BODY_BYTES:
        await response.read()
    if not response.ok:
        raise HttpRefused(response.status)


async def messages_in(
    response: aiohttp.ClientResponse,
    max_bytes: int,
    room: Room | None = None,
    decode: Decode = decode,
    pace: ReadingPace | None = None,
) -> AsyncGenerator[Message, None]:
    """Yield the messages of a response, JSON or an event stream; raise ResultTooLarge rather than keep more of one.

    What there is no room for is not read yet: the client's buffer fills up, and the server waits. So it is with what
    comes faster than its pace.
    """
    if response.status == 202:
        return
    require_plain(response)
    if content_type(response) == EVENT_STREAM:
        async with aclosing(events_in(response.content.iter_any(), max_bytes, room, pace)) as events:
            async for event in events:
                if event.kind == MESSAGE:
                    if room is not None and len(event.data) > FREE_BYTES:
                        await room.reserve(len(event.data))
                    for message in await decode(event.data):
                        yield message
        return
    for message in await decode(await _body(response, max_bytes, room)):
        yield message


async def _body(response: aiohttp.ClientResponse, max_bytes: int, room: Room | None) -> bytearray:
    length, body = response.content_length, bytearray()
    if length is not None and length > max_bytes:
        raise ResultTooLarge(max_bytes)
    if room is not None and length is not None and length > FREE_BYTES:
        await room.reserve(length)
    async for chunk in response.content.iter_any():
        if room is not None and length is None and len(body) + len(chunk) > FREE_BYTES:
            await room.reserve(max_bytes)  # nobody says how much is still to come
        body += chunk
        if len(body) > max_bytes:
            raise ResultTooLarge(max_bytes)
    if room is not None:
        room.shrink(len(body))
    return body
