"""Takes in the bodies of requests, for every face: reserved before they are read, and read within a time."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from orchestrator.domain.counts import count_down
from orchestrator.domain.errors import BodyTooSlow, CodeTooLarge, IntakeFull, MalformedJson
from orchestrator.service.budget import Budget, Reservation

# Small bodies have a budget of their own, so that they need not wait for large ones.
SMALL_BYTES = 64 * 1024
SMALL_SHARE = 4
MAX_WAITING_OF_A_CALLER = 64
RETRY_AFTER_SECONDS = 5
# Values, not strings, make JSON large in memory: three bytes of it can become a hundred. No request has many.
MAX_VALUES = 10_000
BEFORE_A_VALUE = (b",", b":", b"[", b"{")
# A string that does not end goes on to the end of the body, so that nothing is looked at twice.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


class Intake:
    def __init__(self, *, total_bytes: int, per_caller_bytes: int, max_body_bytes: int, body_seconds: float) -> None:
        share = max(per_caller_bytes, max_body_bytes)
        total = max(total_bytes, share)
        small_share = max(share // SMALL_SHARE, SMALL_BYTES)
        self._large = Budget(total, share)
        self._small = Budget(max(total // SMALL_SHARE, small_share), small_share)
        self._waiting: Counter[str] = Counter()
        self._body_seconds = body_seconds
        self.max_body_bytes = max_body_bytes

    @property
    def taken(self) -> int:
        return self._large.taken + self._small.taken

    @asynccontextmanager
    async def body(self, request: web.BaseRequest, caller: str) -> AsyncIterator[bytes]:
        """Yield the body of a caller's request. What was reserved for it is given back when the context is left."""
        if not request.body_exists:
            yield b""
            return
        size = request.content_length if request.content_length is not None else self.max_body_bytes
        if size > self.max_body_bytes:
            raise CodeTooLarge("The body is too large.")
        budget = self._small if size <= SMALL_BYTES else self._large
        async with AsyncExitStack() as reserved:
            reservation = budget.reserve(caller, size)
            await self._enter(reserved, reservation)
            body = await self._read(request)
            reservation.shrink(len(body))
            yield body

    async def _enter(self, reserved: AsyncExitStack, reservation: Reservation) -> None:
        caller = reservation.owner
        if self._waiting[caller] >= MAX_WAITING_OF_A_CALLER:
            raise IntakeFull("Too many of your requests are being received.", retry_after_seconds=RETRY_AFTER_SECONDS)
        self._waiting[caller] += 1
        try:
            async with asyncio.timeout(self._body_seconds):
                await reserved.enter_async_context(reservation)
        except TimeoutError:
            message = "Too many large requests are being received."
            raise IntakeFull(message, retry_after_seconds=RETRY_AFTER_SECONDS) from None
        finally:
            count_down(self._waiting, caller)

    async def _read(self, request: web.BaseRequest) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._body_seconds):
                async for piece in request.content.iter_any():
                    body += piece
                    if len(body) > self.max_body_bytes:
                        raise CodeTooLarge("The body is too large.")
        except TimeoutError:
            raise BodyTooSlow(f"The body did not arrive within {self._body_seconds:g} s.") from None
        except web.RequestPayloadError as error:
            raise MalformedJson("The body is not framed as HTTP requires.") from error
        if has_too_many_values(body):
            raise MalformedJson(f"The body must have at most {MAX_VALUES} values.")
        return bytes(body)


def has_too_many_values(body: bytes | bytearray) -> bool:
    if _marks(body) <= MAX_VALUES:
        return False
    # Most of them may be in strings: code has many.
    rest, strings = STRING.subn(b"", body, count=MAX_VALUES)
    return strings == MAX_VALUES or _marks(rest) > MAX_VALUES


def _marks(body: bytes | bytearray) -> int:
    return sum(map(body.count, BEFORE_A_VALUE))
