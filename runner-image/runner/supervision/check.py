"""Lets the program be checked beside its start: the first tool call waits in the daemon for the verdict.

The verdict helps honest programs and is no boundary: a program runs as the same user and could stop or fool the check.
"""

from __future__ import annotations

import os
import time

from supervision import frames, languages, program, signals

# A check takes a tenth of a second; whoever keeps it from ending gains nothing but this delay.
_PATIENCE_SECONDS = 10.0


class Check:
    """A check under way: its process, and what it has said so far."""

    __slots__ = ("_said", "deadline", "ended", "fd", "pid")

    def __init__(self, language: str, workspace: str) -> None:
        self.pid, self.fd = program.start_checker(languages.checker(language, workspace), workspace)
        self.deadline = time.monotonic() + _PATIENCE_SECONDS
        self.ended = False
        self._said = bytearray()

    def hear(self) -> bool:
        """Take what the check has to say; return False when it has said all."""
        try:
            received = os.read(self.fd, frames.MAX_PAYLOAD_BYTES)
        except BlockingIOError:
            return True
        self._said += received
        return bool(received) and len(self._said) <= frames.MAX_PAYLOAD_BYTES

    def conclude(self) -> bytes:
        """End the check and return its verdict, which is empty if it came to none."""
        os.close(self.fd)
        if not self.ended:  # its number could be another's by now
            os.kill(-self.pid, signals.KILL)  # with the compiler that it started
        return bytes(self._said) if len(self._said) <= frames.MAX_PAYLOAD_BYTES else b""
