"""Memory that is free again goes back to the kernel; by itself the C library keeps what lies between used pieces."""

from __future__ import annotations

import asyncio
import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it


async def give_back_memory() -> None:
    if _trim is not None:
        await asyncio.to_thread(_trim, 0)
