"""Forwards the two ends of one output stream of the program, and counts what is dropped between them."""

from __future__ import annotations

import os
import time

from supervision.frames import MAX_PAYLOAD_BYTES
from supervision.outbox import Outbox

# An unbuffered program writes a line in several pieces. The first is forwarded at once; what follows within this time
# travels together, instead of waking everybody for every piece.
_REST_SECONDS = 0.001
_SMALL_BYTES = 4096

# Of what is printed in too great a number, the end matters most: the result, or the trace of a failure.
_END_SHARE = 5
_MAX_END_BYTES = 20 * 1024
_GAP = "\n[… {} bytes dropped …]\n"
_GAP_BYTES = len(_GAP.format(2**63).encode())
_LINE_SLACK_BYTES = 256


class Stream:
    """One of the program's two output pipes. Its end is held back until it is known to be the end."""

    __slots__ = (
        "_end",
        "_end_bytes",
        "_flood_bytes",
        "_kind",
        "_room",
        "dropped_bytes",
        "fd",
        "forwarded_bytes",
        "open",
        "rests_until",
    )

    def __init__(self, kind: bytes, fd: int, limit_bytes: int, flood_bytes: int) -> None:
        self._kind = kind
        self._flood_bytes = flood_bytes
        # All that is forwarded is within the limit: the beginning, the gap and the end. A small limit has no end.
        end_bytes = min(limit_bytes // _END_SHARE, _MAX_END_BYTES)
        self._end_bytes = end_bytes if end_bytes > 2 * _GAP_BYTES else 0
        self._room = limit_bytes - self._end_bytes
        self._end = bytearray()
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
        if allowed := received[: self._room]:
            self._put(outbox, allowed)
            self._room -= len(allowed)
        self._end += received[len(allowed) :]
        if over := max(0, len(self._end) - self._end_bytes):
            del self._end[:over]
            self.dropped_bytes += over
        floods = self.forwarded_bytes + self.dropped_bytes + len(self._end) > self._flood_bytes
        # The pipe itself stays open: closing it could end the program by SIGPIPE before it is killed.
        self.open = bool(received) and not floods
        return not floods

    def finish(self, outbox: Outbox) -> None:
        """Forward the end, which nothing follows any more."""
        if self.dropped_bytes and self._end:
            # Cut at a line if one begins soon, else between two characters.
            soon = min(_GAP_BYTES + _LINE_SLACK_BYTES, len(self._end) - 1)
            begin = self._end.find(b"\n", _GAP_BYTES, soon) + 1 or _GAP_BYTES
            while begin < len(self._end) and self._end[begin] & 0xC0 == 0x80:
                begin += 1
            self.dropped_bytes += begin
            del self._end[:begin]
            self._put(outbox, _GAP.format(self.dropped_bytes).encode())
        if self._end:
            self._put(outbox, bytes(self._end))
            self._end.clear()

    def _put(self, outbox: Outbox, data: bytes) -> None:
        outbox.put(self._kind, data)
        self.forwarded_bytes += len(data)
