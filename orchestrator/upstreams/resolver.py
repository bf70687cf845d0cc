"""Names of hosts, resolved without taking threads from anybody else.

aiohttp resolves them on the loop's own threads, of which there are few, and a name server that does not answer holds
each for many seconds: searches and large results of healthy servers, which need those threads too, would wait.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

# The client asks for each name once at a time, so these are as many names as may be without an answer at once.
_THREADS = 32


class Resolver(AbstractResolver):
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        look_up = partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=int(address[1]), family=family, proto=proto, flags=numeric
            )
            for family, _, proto, _, address in found
        ]

    async def close(self) -> None:
        """Let go of the threads; one that still waits for a name server ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Connector(aiohttp.TCPConnector):
    """Closes the resolver that it was given, too, which aiohttp leaves to whoever made it."""

    def __init__(self, *, keepalive_timeout: float) -> None:
        self._own_resolver = Resolver()
        # No limit here: the gateway limits callers, and a slow upstream must not use up the others' connections.
        super().__init__(limit=0, keepalive_timeout=keepalive_timeout, resolver=self._own_resolver)

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        await self._own_resolver.close()
