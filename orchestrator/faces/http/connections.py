"""Who may connect, and how much all connections together may make the daemon hold before their callers are known.

Everything that a stranger sends is counted before it is kept. When there is no room, the connection that has been
without a caller for the longest time makes room: whoever sends a whole request at once is answered, however many others
hold theirs back. A connection whose request carries a key is never closed for that.

Requests take their turns: a stranger's on its connection, a caller's on all of its connections together. Beyond a burst
they wait, so that nobody keeps the daemon busy with questions that cost the asker less than the answers cost us.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import structlog

from orchestrator.domain.counts import count_down
from orchestrator.domain.errors import TooManyConnections
from orchestrator.domain.pace import Paces

log = structlog.get_logger()

RETRY_AFTER_SECONDS = 5
LOG_SECONDS = 60.0
# Without a key, on one connection; of a caller, the burst is what may be asked in so many seconds.
STRANGERS_BURST = 20
STRANGERS_PAUSE_SECONDS = 0.5
CALLERS_BURST_SECONDS = 2.0
# An execution that is begun and given up costs a sandbox and several writes to the journal, for two short requests.
TURNS_OF_A_CANCELLED_EXECUTION = 10


class Held(Protocol):
    """A connection, as this module sees it."""

    @property
    def unread_bytes(self) -> int: ...

    def cut(self) -> None:
        """Close at once, let go of what was received, and leave."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    in_all: int
    per_address: int
    per_caller: int
    requests_per_second: float  # of one caller, beyond a burst
    header_bytes: int
    header_seconds: float
    stall_seconds: float
    unidentified_bytes: int  # of all requests whose caller is not known yet
    unread_bytes: int  # of all replies that their callers do not read


class Connections:
    """Every connection of the API. Those at the front of a line have been in it for the longest time."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[Held, str] = {}  # with the address that each comes from
        self._of_address: Counter[str] = Counter()
        self._served: dict[Held, str] = {}  # with the caller of its request
        self._of_caller: Counter[str] = Counter()
        self._paces = Paces(
            max(1, round(limits.requests_per_second * CALLERS_BURST_SECONDS)), 1 / limits.requests_per_second
        )
        self._callerless: dict[Held, None] = {}
        self._holding: dict[Held, int] = {}  # bytes of requests whose caller is not known yet
        self._held_bytes = 0
        self._stalled: dict[Held, None] = {}
        self._events = _Events()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Held, address: str) -> bool:
        """Take a connection in, in place of another one if need be."""
        crowded = self._of_address[address] >= self.limits.per_address
        if crowded or len(self._open) >= self.limits.in_all:
            rivals = (other for other in self._callerless if not crowded or self._open[other] == address)
            victim = next(rivals, None)
            if victim is None:
                self.note("refused")
                return False
            self._replace(victim)
        self._open[connection] = address
        self._of_address[address] += 1
        self._callerless[connection] = None
        return True

    def hold(self, connection: Held, size: int) -> bool:
        """Count what a stranger sends before it is kept; say whether there is room for it."""
        while self._held_bytes + size > self.limits.unidentified_bytes:
            victim = next((other for other in self._holding if other is not connection), None)
            if victim is None:
                return False
            self._replace(victim)
        self._holding[connection] = self._holding.get(connection, 0) + size
        self._held_bytes += size
        return True

    def let_go(self, connection: Held) -> None:
        self._held_bytes -= self._holding.pop(connection, 0)

    def serve(self, connection: Held, caller: str) -> None:
        """From now on the connection has a caller, and counts as one of the caller's."""
        if connection not in self._open:
            return  # its client has just left
        if self._of_caller[caller] >= self.limits.per_caller:
            message = f"You already use {self._of_caller[caller]} connections."
            raise TooManyConnections(message, retry_after_seconds=RETRY_AFTER_SECONDS)
        self._served[connection] = caller
        self._of_caller[caller] += 1
        self._callerless.pop(connection, None)
        self.let_go(connection)

    def take_turn(self, caller: str) -> float:
        """Return the seconds that the caller's next request has to wait."""
        return self._paces.take(caller)

    def note_cancelled(self, caller: str) -> None:
        """Let the caller's next requests wait for what it began and gave up."""
        self._paces.take(caller, TURNS_OF_A_CANCELLED_EXECUTION)

    def serves(self, connection: Held) -> bool:
        return connection in self._served

    def rest(self, connection: Held) -> None:
        """The request is answered: the connection goes to the end of the line of those without a caller."""
        self._release_caller(connection)
        if connection in self._open:
            self._callerless.pop(connection, None)
            self._callerless[connection] = None

    def stall(self, connection: Held) -> None:
        """A caller does not read its reply. Together the unread replies must not become too large: then the caller
        that leaves most of them unread loses those that it has left for the longest time."""
        self._stalled[connection] = None
        while len(self._stalled) > 1:
            unread: Counter[str | None] = Counter()
            for each in self._stalled:
                unread[self._served.get(each)] += each.unread_bytes
            if unread.total() <= self.limits.unread_bytes:
                return
            ((greediest, _),) = unread.most_common(1)
            self._replace(next(each for each in self._stalled if self._served.get(each) == greediest))

    def go_on(self, connection: Held) -> None:
        self._stalled.pop(connection, None)

    def leave(self, connection: Held) -> None:
        address = self._open.pop(connection, None)
        if address is not None:
            count_down(self._of_address, address)
        self._release_caller(connection)
        self.let_go(connection)
        self._callerless.pop(connection, None)
        self._stalled.pop(connection, None)

    def note(self, event: str) -> None:
        self._events.note(event)

    def _replace(self, victim: Held) -> None:
        self.note("replaced")
        victim.cut()

    def _release_caller(self, connection: Held) -> None:
        caller = self._served.pop(connection, None)
        if caller is not None:
            count_down(self._of_caller, caller)


class _Events:
    """Tells of what strangers can cause at will in at most one log line a minute."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._next_line = 0.0

    def note(self, event: str) -> None:
        self._counts[event] += 1
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LOG_SECONDS
            log.warning("connections.closed", **self._counts)
            self._counts.clear()
