"""Forwards one output stream of the program, up to its limit."""

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
    """One of the program's two output pipes, and how much of it was forwarded."""

    __slots__ = ("_kind", "_limit_bytes", "fd", "forwarded_bytes", "open", "rests_until")

    def __init__(self, kind: bytes, fd: int, limit_bytes: int) -> None:
        self._kind = kind
        self._limit_bytes = limit_bytes
        self.fd = fd
        self.forwarded_bytes = 0
        self.open = True
        self.rests_until = 0.0

    def forward(self, outbox: Outbox) -> bool:
        """Forward what is there now; return False when the program wrote more than the limit."""
        room = self._limit_bytes - self.forwarded_bytes
        try:
            received = os.read(self.fd, min(MAX_PAYLOAD_BYTES, room + 1))
        except BlockingIOError:
            return True
        within_limit = len(received) <= room
        # The pipe itself stays open: closing it could end the program by SIGPIPE before it is killed.
        self.open = bool(received) and within_limit
        if len(received) < _SMALL_BYTES:
            self.rests_until = time.monotonic() + _REST_SECONDS
        if allowed := received[:room]:
            outbox.put(self._kind, allowed)
            self.forwarded_bytes += len(allowed)
        return within_limit
