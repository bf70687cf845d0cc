"""The sandboxes that exist: never more than there may be, and no two of the same user. Safe to use from threads."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection
from itertools import count

from orchestrator.domain.errors import EngineUnavailable

# Primes of which none divides a range of users, so that all of these are gone through before one comes again.
STEPS = (101_267, 203_773, 307_631, 402_131, 509_147, 603_457, 701_383, 809_203, 907_397, 1_002_343)


class Places:
    def __init__(self, most: int) -> None:
        self._most = most
        # Between the count and the new entry nobody else may count, however many ask at once.
        self._lock = threading.Lock()
        # A number comes back long after its last sandbox is gone. It begins anywhere, for there may be other daemons,
        # and goes on in steps that nobody knows: a program must not count from its own what others have started.
        self._numbers = count(secrets.randbelow(2**20), secrets.choice(STEPS))
        self._starting: set[int] = set()
        self._users: dict[str, int | None] = {}  # by container; None for one that was there before us

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._users

    @property
    def taken(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._users)

    def reserve(self, users: range) -> int:
        """Take a place for a sandbox that is about to be made; return its user."""
        with self._lock:
            if len(self._users) + len(self._starting) >= self._most:
                raise EngineUnavailable(
                    f"There are {self._most} sandboxes, as many as may be at once.", retry_after_seconds=5
                )
            others = {*self._starting, *self._users.values()}
            user = next(user for number in self._numbers if (user := users[number % len(users)]) not in others)
            self._starting.add(user)
            return user

    def give_back(self, user: int) -> None:
        """Give up a place that no container was made for."""
        with self._lock:
            self._starting.discard(user)

    def occupy(self, user: int, container_id: str) -> None:
        with self._lock:
            self._starting.discard(user)
            self._users[container_id] = user

    def leave(self, container_id: str) -> None:
        with self._lock:
            self._users.pop(container_id, None)

    def correct(self, known: Collection[str], found: Collection[str]) -> None:
        """Compare with a list of what exists: of what was known before it was made, what is not in it is gone."""
        with self._lock:
            for gone in set(known) - set(found):
                self._users.pop(gone, None)
            for container_id in found:
                self._users.setdefault(container_id, None)
