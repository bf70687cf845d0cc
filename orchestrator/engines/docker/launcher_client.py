"""The daemon's side of the launcher: sends one order on a connection of its own and reads the answer."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.domain.errors import EngineUnavailable
from orchestrator.engines.docker import orders
from orchestrator.engines.docker.orders import Check, Create, Fate, List, Look, Order, Remove

ANSWER_TIMEOUT_SECONDS = 90
# The launcher gives the engine less; what takes this long is a launcher that does not answer either.
CHECK_TIMEOUT_SECONDS = 3
_READ_BYTES = 64 * 1024
_DESCRIPTOR = struct.Struct("i")

Where = Callable[[], Awaitable[Path]]


class LauncherClient:
    def __init__(self, where: Where) -> None:
        self._where = where

    async def create(self, order: Create) -> tuple[str, socket.socket]:
        """Return the new sandbox's id and its leash."""
        told, leash = await self._ask(order)
        if leash is None:
            raise EngineUnavailable("The launcher made a sandbox, but gave no connection to it.")
        return str(told["id"]), leash

    async def remove(self, container_id: str, patience_seconds: float) -> None:
        await self._ask(Remove(container_id=container_id, patience_seconds=patience_seconds))

    async def fate(self, container_id: str) -> Mapping[str, bool]:
        told, _ = await self._ask(Fate(container_id=container_id))
        return dict(told)

    async def list_owned(self) -> Sequence[Mapping[str, Any]]:
        told, _ = await self._ask(List())
        return list(told)

    async def look(self) -> Sequence[Mapping[str, Any]]:
        told, _ = await self._ask(Look())
        return list(told)

    async def check(self) -> None:
        await self._ask(Check(), CHECK_TIMEOUT_SECONDS)

    async def _ask(
        self, order: Order, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS
    ) -> tuple[Any, socket.socket | None]:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            try:
                async with asyncio.timeout(timeout_seconds):
                    await loop.sock_connect(connection, str(await self._where()))
                    await loop.sock_sendall(connection, orders.encode(order))
                    line, leash = await _read_answer(connection)
            except (TimeoutError, OSError) as error:
                raise _unavailable(error) from error
        return orders.read_answer(line), leash


async def _read_answer(connection: socket.socket) -> tuple[bytes, socket.socket | None]:
    """Read one line and the connection that came with it, if any; a leash that nobody gets is let go."""
    line, leash = bytearray(), None
    try:
        while not line.endswith(b"\n"):
            await _until_readable(connection)
            # Not recv_fds: what it receives can be inherited, and uvloop closes nothing in the servers that it starts.
            piece, received, _, _ = connection.recvmsg(
                _READ_BYTES, socket.CMSG_LEN(_DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC
            )
            for _, _, descriptor in received:
                leash = socket.socket(fileno=_DESCRIPTOR.unpack(descriptor)[0])
            line += piece
            if not piece or len(line) > orders.MAX_ANSWER_BYTES:
                raise ConnectionError("the launcher broke off its answer")
    except BaseException:
        if leash is not None:
            leash.close()
        raise
    return bytes(line), leash


async def _until_readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)


def _unavailable(error: OSError) -> EngineUnavailable:
    cause = error.strerror or str(error) or "no answer in time"
    return EngineUnavailable(f"The launcher, which holds the engine, does not answer ({cause}).", retry_after_seconds=5)
