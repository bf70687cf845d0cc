"""Forwards one output stream of the program up to its limit, and counts what is over."""

from __future__ import annotations

import os
import time

from supervision.frames import MAX_PAYLOAD_BYTES
from supervision.outbox import Outbox

# An unbuffered program writes a line in several pieces. The first is forwarded at once; what follows within this time
# travels together, instead of waking everybody for every piece.
_REST_SECONDS = 0.001
_SMALL_BYTES = 4096


class Stream:
    """One of the program's two output pipes: how much of it was forwarded, and how much was dropped."""

    __slots__ = (
        "_flood_bytes",
        "_kind",
        "_limit_bytes",
        "dropped_bytes",
        "fd",
        "forwarded_bytes",
        "open",
        "rests_until",
    )

    def __init__(self, kind: bytes, fd: int, limit_bytes: int, flood_bytes: int) -> None:
        self._kind = kind
        self._limit_bytes = limit_bytes
        self._flood_bytes = flood_bytes
        self.fd = fd
        self.forwarded_bytes = 0
        self.dropped_bytes = 0
        self.open = True
        self.rests_until = 0.0

    def forward(self, outbox: Outbox) -> bool:
        """Forward what is there now, as far as the limit allows; return False when the program floods the stream."""
        try:
            received = os.read(self.fd, MAX_PAYLOAD_BYTES)
        except BlockingIOError:
            return True
        if len(received) < _SMALL_BYTES:
            self.rests_until = time.monotonic() + _REST_SECONDS
        if allowed := received[: self._limit_bytes - self.forwarded_bytes]:
            outbox.put(self._kind, allowed)
            self.forwarded_bytes += len(allowed)
        self.dropped_bytes += len(received) - len(allowed)
        floods = self.forwarded_bytes + self.dropped_bytes > self._flood_bytes
        # The pipe itself stays open: closing it could end the program by SIGPIPE before it is killed.
        self.open = bool(received) and not floods
        return not floods
