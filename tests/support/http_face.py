"""The HTTP API on a socket, on services that a test makes up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from aiohttp import web

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import Unauthenticated
from orchestrator.faces.auth import presented_key
from orchestrator.faces.context import Services
from orchestrator.faces.http.app import build_app
from orchestrator.faces.http.connection import Connection
from orchestrator.faces.http.connections import ConnectionLimits, Connections
from orchestrator.faces.http.problems import Handler
from orchestrator.faces.intake import Intake
from orchestrator.faces.rebinding import HostCheck
from orchestrator.faces.uploads import Uploads
from orchestrator.service.budget import Budget

MIB = 1024 * 1024
GENEROUS = ConnectionLimits(100, 100, 50, 10_000, 32 * 1024, 10, 10, MIB, 64 * MIB)


class KeysByName:
    """Takes the name of a caller for its key."""

    def __init__(self, *callers: Caller) -> None:
        self._callers = {caller.key_name: caller for caller in callers}

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        try:
            return self._callers[presented_key(headers) or ""]
        except KeyError:
            raise Unauthenticated("The key is not known.") from None


class ByWords:
    def count(self, text: str) -> int:
        return len(text.split())


def services(*callers: Caller, **chosen: Any) -> Services:
    """Put together what a test needs of the services; the rest is not there."""
    given: dict[str, Any] = {
        **dict.fromkeys(Services.__dataclass_fields__),
        "authenticator": KeysByName(*callers),
        "hosts": HostCheck(),
        "tokens": ByWords(),
        "questions": Budget(4, 2),
        "intake": Intake(total_bytes=8 * MIB, per_caller_bytes=4 * MIB, max_body_bytes=2 * MIB, body_seconds=5),
        "uploads": Uploads(max_bytes=MIB, piece_seconds=5),
        "heartbeat_seconds": 10,
        "version": "0",
    }
    return cast("Services", Services(**given | chosen))


@asynccontextmanager
async def http_face(made_up: Services, pages: Mapping[str, Handler] = MappingProxyType({})) -> AsyncIterator[str]:
    """Listen as the daemon does; yield the address."""
    runner = web.AppRunner(build_app(made_up, pages=pages), handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    assert runner.server is not None
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(partial(Connection, Connections(GENEROUS), runner.server), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await runner.cleanup()
