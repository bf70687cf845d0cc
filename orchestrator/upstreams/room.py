"""Where the result of a tool call goes: its bytes are reserved before they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")

# As much of every result is read without asking: most have less, and whether one has more is seen only then.
FREE_BYTES = 64 * 1024


class Room(Protocol):
    @property
    def owner(self) -> str:
        """Return whose room it is: when it is full, that of another owner may not be."""

    async def reserve(self, size: int) -> None:
        """Return when a result may take up so many bytes, or at once when it may already; raise LimitExceeded."""

    def shrink(self, size: int) -> None:
        """Give back what was reserved beyond the size that turned out."""

    async def in_turn(self, work: Callable[[], T]) -> T:
        """Work on large JSON in a thread, in the caller's turn."""
