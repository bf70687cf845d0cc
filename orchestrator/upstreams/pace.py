"""How fast a server may speak: what it sends may be of no use, and still be work for us."""

from __future__ import annotations

import asyncio

from orchestrator.domain.pace import Pace
from orchestrator.upstreams.framing import line_endings
from orchestrator.upstreams.room import FREE_BYTES

# No server has that much to say: the largest answers are one line. What is beyond stays in the server's own buffers.
_LINES_AT_ONCE = 20_000
_LINES_PER_SECOND = 20_000
_BYTES_LIKE_A_LINE = 256


class ReadingPace:
    """Shared by all that a server sends us, so that to send it on many streams gains nothing."""

    def __init__(self) -> None:
        self._pace = Pace(_LINES_AT_ONCE, 1 / _LINES_PER_SECOND)

    async def after(self, stretch: bytes) -> None:
        """Let others have their turn after each stretch that was read, and wait if its lines were too many."""
        await self._wait(line_endings(stretch))

    async def after_useless(self, size: int) -> None:
        """Wait if too much was decoded that nobody had asked for. What is large costs no more: a thread decodes it."""
        await self._wait(1 + min(size, FREE_BYTES) // _BYTES_LIKE_A_LINE)

    async def _wait(self, lines: int) -> None:
        # A stretch without an ending, of a large result, does not wait for what others were too fast with.
        await asyncio.sleep(self._pace.take(lines) if lines else 0)
