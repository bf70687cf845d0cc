"""What MCP servers keep for one execution: at some of them a session of its own, until its grant ends."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.service.budget import Reservation
from orchestrator.service.rooms import Rooms


class Sessions:
    """Whose sessions they are: each grant has one of these, and nothing else opens the way to them."""

    def __init__(self, rooms: Rooms, caller: str) -> None:
        self._rooms = rooms
        self._caller = caller
        self._closing: list[Callable[[], None]] = []
        self.begun: dict[str, object] = {}  # the newest at each server, until the program knows that it is lost
        self.ended = False

    def place_at(self, server: str) -> Reservation:
        """Return a context that is entered when the server may have one more session; callers take turns."""
        return self._rooms.session_at(server, self._caller)

    def when_ended(self, close: Callable[[], None]) -> None:
        self._closing.append(close)

    def end(self) -> None:
        """Close what is open, in the background, and let nothing be opened any more."""
        self.ended = True
        while self._closing:
            self._closing.pop()()
