"""How long the event loop stands still while something is done beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def longest_stop_during(work: Callable[[], Awaitable[T]]) -> tuple[float, T]:
    """Return what part of the time that the work took the event loop stood still at most, and its result.

    What is more than half is measured again, up to twice: a machine that stands still for a moment does so once.
    """
    for _ in range(2):
        share, result = await _once(asyncio.ensure_future(work()))
        if share < 0.5:
            return share, result
    return await _once(asyncio.ensure_future(work()))


async def _once(work: asyncio.Future[T]) -> tuple[float, T]:
    began = last = time.perf_counter()
    longest = 0.0
    while not work.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest / (last - began), work.result()
