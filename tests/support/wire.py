"""HTTP as a test writes it, byte by byte."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.api import Api


class Wire:
    """A connection on which a test writes the bytes itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, api: Api) -> AsyncIterator[Wire]:
        host, port = api.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def press(self, data: bytes, seconds: float = 5) -> None:
        """Send as much as is taken: the daemon may stop reading, or close the connection."""
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.send(data)

    async def status(self, seconds: float = 15) -> int:
        async with asyncio.timeout(seconds):
            return int((await self.reader.readline()).split()[1])

    async def rest(self, seconds: float = 15) -> bytes:
        async with asyncio.timeout(seconds):
            return await self.reader.read()


def request(api: Api, start: str = "POST /execute HTTP/1.1", *headers: bytes, body: bytes = b"") -> bytes:
    key = api.session.headers["Authorization"].encode()
    lines = [start.encode(), b"Host: localhost", b"Authorization: " + key, b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"", b""]) + body


def length(body: bytes) -> bytes:
    return b"Content-Length: %d" % len(body)


async def answers(api: Api, data: bytes) -> list[int]:
    """The statuses of everything that is answered on one connection before the daemon closes it."""
    received = b""
    async with Wire.to(api) as wire:
        with suppress(ConnectionError):  # it may close while the rest of the request is still on its way
            await wire.send(data)
        with suppress(ConnectionError):
            received = await wire.rest()
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", received)]
