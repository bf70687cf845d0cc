"""Keeps the frames that are on their way to the orchestrator."""

from __future__ import annotations

import os

from supervision import frames

# Above this much unsent output the program's pipes are left alone until the reader catches up.
PAUSE_ABOVE_BYTES = 256 * 1024


class Outbox:
    """Frames that wait until the leash takes them, so that writing never blocks."""

    __slots__ = ("_fd", "_pending")

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._pending = bytearray()

    @property
    def fd(self) -> int:
        return self._fd

    @property
    def empty(self) -> bool:
        return not self._pending

    @property
    def full(self) -> bool:
        return len(self._pending) >= PAUSE_ABOVE_BYTES

    def put(self, kind: bytes, payload: bytes) -> None:
        self._pending += frames.encode(kind, payload)

    def flush(self) -> None:
        try:
            while self._pending:
                written = os.write(self._fd, self._pending)
                del self._pending[:written]
        except BlockingIOError:
            return

    def discard(self) -> None:
        self._pending.clear()
