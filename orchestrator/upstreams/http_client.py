"""One HTTP client for all upstreams, and the rules every exchange follows."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from orchestrator.upstreams.faults import (
    HttpRefused,
    ResultTooLarge,
    TransportFailed,
    from_http_client,
)

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
_CONNECT_SECONDS = 10.0
# Shorter than the 5 s of uvicorn and Node: a server that closes an idle connection as we write costs us a call.
_KEEP_ALIVE_SECONDS = 4.0
_LARGE_BODY_BYTES = 1024 * 1024
_MAX_REDIRECTS = 3
_ABSORBED_BYTES = 4096
_REDIRECTS = {301, 302, 307, 308}


def http_client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        # No limit here: the gateway limits callers, and a slow upstream must not use up the others' connections.
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        # A compressed reply would be measured before it is unpacked; we ask for none and accept none.
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
    )


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    # The client sends bytes in one go, which for large ones would hold up the event loop.
    return io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY_BYTES else body


class Address:
    """Where a server's messages go; remembers where it was sent on to."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self.url = URL(url)

    @asynccontextmanager
    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                async with self._http.request(
                    method, self.url, data=_payload(body), headers=headers, allow_redirects=False
                ) as response:
                    if response.status not in _REDIRECTS:
                        yield response
                        return
                    self.url = self._moved(response)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise from_http_client(error) from None
        raise TransportFailed("it redirects in a circle")

    def _moved(self, response: aiohttp.ClientResponse) -> URL:
        target = self.url.join(URL(response.headers.get("Location", "")))
        return self.trusted(target)

    def trusted(self, target: URL) -> URL:
        """Credentials go nowhere but to the host they were given for."""
        upgraded = self.url.host == target.host and (self.url.scheme, target.scheme) == ("http", "https")
        if target.origin() != self.url.origin() and not upgraded:
            raise TransportFailed("it redirects to another host; put that address into servers.json")
        return target


def content_type(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def refuse_unless_plain(response: aiohttp.ClientResponse) -> None:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise TransportFailed("it compresses its answers although it was asked not to")


async def read_within(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    refuse_unless_plain(response)
    if (response.content_length or 0) > max_bytes:
        raise ResultTooLarge(max_bytes)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise ResultTooLarge(max_bytes)
    return bytes(body)


async def first_bytes(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= max_bytes:
            break
    return bytes(body[:max_bytes])


async def absorb(response: aiohttp.ClientResponse) -> None:
    """A short body that nobody reads would cost the connection."""
    if response.content_length is not None and response.content_length <= _ABSORBED_BYTES:
        await response.read()


def refusal(response: aiohttp.ClientResponse) -> HttpRefused:
    return HttpRefused(response.status)
