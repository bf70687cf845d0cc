"""Both roles as callers that may send everything at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from tests.support.api import Api
from tests.support.victim import Victim

ROLES = ("admin", "developer")
TIMEOUT_SECONDS = 1800.0


@asynccontextmanager
async def both_roles(victim: Victim) -> AsyncIterator[list[Api]]:
    """One session for each role, with as many connections as there are requests."""
    sessions = [_session(victim.installation.keys[role]) for role in ROLES]
    try:
        yield [Api(session, victim.url) for session in sessions]
    finally:
        for session in sessions:
            await session.close()


def _session(key: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {key}"},
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
    )
