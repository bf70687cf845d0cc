"""Asks an API without end on 200 connections; the address is the argument, the key comes on standard input."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import aiohttp

CONNECTIONS = 200
PATHS = ("/whoami", "/tools", "/executions?limit=100")


async def ask_without_end(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        with suppress(aiohttp.ClientError, OSError):
            async with session.get(url) as response:
                await response.read()


async def flood(url: str, key: str) -> None:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector, headers={"Authorization": f"Bearer {key}"}) as session:
        paths = (PATHS[number % len(PATHS)] for number in range(CONNECTIONS))
        await asyncio.gather(*(ask_without_end(session, url + path) for path in paths))


if __name__ == "__main__":
    asyncio.run(flood(sys.argv[1], sys.stdin.read().strip()))
