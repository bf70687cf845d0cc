"""What happens, for whoever watches: told once, held for a while, and seen by those who may see it.

Each caller's events are held apart and bounded, so that one who does much pushes nobody else's out. A watcher has no
queue of its own, only a place: one that is too slow finds that events are gone, and is told so.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice

from orchestrator.domain.access import Caller
from orchestrator.domain.events import Event, Gap, Load, Subject
from orchestrator.domain.execution import ExecutionRecord
from orchestrator.domain.ledger import CallRecord
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus

HELD_OF_A_CALLER = 2000
MOST_AT_ONCE = 500
NOT_CONFIGURED = "it is no longer configured"


@dataclass(slots=True)
class _Held:
    """The newest events of one caller, and the number of the last that is no longer among them."""

    events: deque[Event] = field(default_factory=deque)
    gone: int = 0

    def add(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) > HELD_OF_A_CALLER:
            self.gone = self.events.popleft().number

    def after(self, number: int) -> list[Event]:
        found: list[Event] = []
        for event in reversed(self.events):
            if event.number <= number:
                break
            found.append(event)
        return found[::-1]


class Events:
    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)  # numbers of another start of the daemon mean nothing here
        self._number = 0
        self._held: dict[str, _Held] = {}
        # Of these only the newest is of interest.
        self._load: Event | None = None
        self._servers: dict[str, Event] = {}
        self._removed: dict[str, Event] = {}  # servers that are no longer configured
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def number(self) -> int:
        """Return the number of the newest event."""
        return self._number

    def tell_execution(self, record: ExecutionRecord) -> None:
        """Tell that an execution began, went on or ended; what may be large is read apart."""
        short = replace(record.counted, tool_calls=(), files=(), left_out=(), mistakes=(), input_files=())
        self._hold(record.caller, short)

    def tell_call(self, caller: str, call: CallRecord) -> None:
        self._hold(caller, call)

    def tell_load(self, load: Load) -> None:
        if self._load is None or self._load.subject != load:
            self._load = self._new(load)

    def tell_servers(self, statuses: Iterable[UpstreamStatus]) -> None:
        now = {status.server: replace(status, since=0.0) for status in statuses}
        for name in self._servers.keys() - now:
            del self._servers[name]
            gone = UpstreamStatus(name, UpstreamState.DOWN, 0, NOT_CONFIGURED, since=0.0)
            self._removed[name] = self._new(gone)
        for name, status in now.items():
            self._removed.pop(name, None)
            known = self._servers.get(name)
            if known is None or known.subject != status:
                self._servers[name] = self._new(status)

    def state(self, caller: Caller) -> list[Event]:
        """Return how the daemon and the servers are now."""
        return sorted(self._states_for(caller), key=_number)

    def since(self, caller: Caller, number: int) -> list[Event]:
        """Return what the caller may see of what happened after an event, in order, or that some of it is gone."""
        owners = [held for name, held in self._held.items() if caller.may_see(name)]
        states = [event for event in self._changes_for(caller) if event.number > number]
        gone = max((held.gone for held in owners), default=0)
        if number < gone:
            return [*(event for event in states if event.number <= gone), Event(gone, Gap())]
        facts = (held.after(number) for held in owners)
        return list(islice(merge(states, *facts, key=_number), MOST_AT_ONCE))

    async def wait(self, number: int, seconds: float) -> None:
        """Return when there is an event after this one, visible or not, or the time is over."""
        if self._number > number:
            return
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await news
        finally:
            self._waiting.discard(news)

    def _states_for(self, caller: Caller) -> list[Event]:
        return [*([] if self._load is None else [self._load]), *_visible(self._servers, caller)]

    def _changes_for(self, caller: Caller) -> list[Event]:
        return sorted([*self._states_for(caller), *_visible(self._removed, caller)], key=_number)

    def _hold(self, caller: str, subject: Subject) -> None:
        self._held.setdefault(caller, _Held()).add(self._new(subject))

    def _new(self, subject: Subject) -> Event:
        self._number += 1
        for news in self._waiting:
            if not news.done():
                news.set_result(None)
        return Event(self._number, subject)


def _visible(servers: Mapping[str, Event], caller: Caller) -> list[Event]:
    return [event for name, event in servers.items() if caller.role.sees_server(name)]


def _number(event: Event) -> int:
    return event.number
