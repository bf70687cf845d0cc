"""How fast somebody may ask: a burst at once, and what comes faster waits its turn. Pure, but for the clock."""

from __future__ import annotations

import time


class Pace:
    """At which moments requests are taken up, when they come faster than they may."""

    def __init__(self, burst: int, pause_seconds: float) -> None:
        self._ahead_seconds = burst * pause_seconds
        self._pause_seconds = pause_seconds
        self._taken_until = 0.0

    @property
    def is_at_rest(self) -> bool:
        return self._taken_until <= time.monotonic() - self._ahead_seconds

    @property
    def seconds_to_next(self) -> float:
        """Return the time until the next turn, without taking it."""
        return max(0.0, self._taken_until + self._pause_seconds - time.monotonic())

    def take(self, count: int = 1) -> float:
        """Take the next turn, or several; return the seconds until it comes."""
        now = time.monotonic()
        self._taken_until = max(self._taken_until, now - self._ahead_seconds) + count * self._pause_seconds
        return max(0.0, self._taken_until - now)


class Paces:
    """A pace for each caller, kept for as long as it matters."""

    def __init__(self, burst: int, pause_seconds: float) -> None:
        self._burst = burst
        self._pause_seconds = pause_seconds
        self._of_caller: dict[str, Pace] = {}  # who asked last is at the end

    def __len__(self) -> int:
        return len(self._of_caller)

    def take(self, caller: str, count: int = 1) -> float:
        """Take the caller's next turn, or several; return the seconds until it comes."""
        pace = self._of_caller.pop(caller, None) or Pace(self._burst, self._pause_seconds)
        self._of_caller[caller] = pace
        seconds = pace.take(count)
        while (longest_ago := next(iter(self._of_caller), None)) and self._of_caller[longest_ago].is_at_rest:
            del self._of_caller[longest_ago]
        return seconds
