"""Takes in files piece by piece: few at once, each within its size, and none that dawdles."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from aiohttp import web

from orchestrator.domain.counts import count_down
from orchestrator.domain.errors import BodyTooSlow, FileTooLarge, IntakeFull, InvalidRequest

AT_ONCE = 8
AT_ONCE_PER_CALLER = 2
RETRY_AFTER_SECONDS = 5
# On average, once the first pieces had their time: who sends less would keep a place for hours.
SLOWEST_BYTES_PER_SECOND = 16 * 1024


class Uploads:
    def __init__(self, *, max_bytes: int, piece_seconds: float) -> None:
        self._max_bytes = max_bytes
        self._piece_seconds = piece_seconds
        self._under_way: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        return self._under_way.total()

    @contextmanager
    def one(self, request: web.BaseRequest, caller: str) -> Iterator[AsyncIterator[bytes]]:
        """Yield the pieces of a caller's body; what is surely too large or too much is refused before it is read."""
        if (request.content_length or 0) > self._max_bytes:
            raise FileTooLarge(f"A file must have at most {self._max_bytes} bytes; this has {request.content_length}.")
        if self._under_way[caller] >= AT_ONCE_PER_CALLER:
            message = f"You are sending {AT_ONCE_PER_CALLER} files already."
            raise IntakeFull(message, retry_after_seconds=RETRY_AFTER_SECONDS)
        if self.under_way >= AT_ONCE:
            raise IntakeFull("Too many files are being received.", retry_after_seconds=RETRY_AFTER_SECONDS)
        self._under_way[caller] += 1
        try:
            yield self._pieces(request)
        finally:
            count_down(self._under_way, caller)

    async def _pieces(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        began, received = clock(), 0
        while True:
            patience = min(clock(), began + received / SLOWEST_BYTES_PER_SECOND) + self._piece_seconds
            try:
                async with asyncio.timeout_at(patience):
                    piece = await request.content.readany()
            except TimeoutError:
                raise BodyTooSlow(f"The file came too slowly: {received} bytes arrived, then too little.") from None
            except web.RequestPayloadError as error:
                raise InvalidRequest("The body is not framed as HTTP requires.") from error
            if not piece:
                return
            received += len(piece)
            yield piece
