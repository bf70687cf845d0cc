"""Takes up new tools, shapes and roles without holding up the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from orchestrator.domain.access import Role
from orchestrator.service.provisions import Gathered, Provisions

LOOK_EVERY_SECONDS = 1.0

E = TypeVar("E")
L = TypeVar("L")
T = TypeVar("T")


class Editions(Protocol[L, E]):
    """The catalog: an edition of it is drafted from what is listed, and holds once it is published."""

    def listed(self) -> L: ...

    def draft(self, listed: L) -> E: ...

    def publish(self, edition: E) -> None: ...


class Observed(Protocol):
    def publish(self) -> bool:
        """Tell whether the types of results have changed."""


class Renewal(Generic[L, E]):
    """Makes the catalog and the files of all roles anew, in a thread, and puts both in force at the same moment.

    One at a time: what changes meanwhile is taken up together, by the next.
    """

    def __init__(
        self,
        catalog: Editions[L, E],
        provisions: Provisions,
        observed: Observed,
        roles: Callable[[], tuple[Role, ...]],
        changed: asyncio.Event,
    ) -> None:
        self._catalog = catalog
        self._provisions = provisions
        self._observed = observed
        self._roles = roles
        self._changed = changed
        self._done_for: tuple[Role, ...] = ()

    async def take_up_changes(self) -> None:
        """Wait a moment for a change, and take it up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await self._changed.wait()
        has_learned = self._observed.publish()
        if self._changed.is_set() or has_learned or self._roles() != self._done_for:
            await self.renew()

    async def renew(self) -> None:
        self._changed.clear()
        self._done_for = ()  # should this fail, it is tried again after a moment
        listed, roles = self._catalog.listed(), self._roles()

        def make() -> tuple[E, Gathered]:
            return self._catalog.draft(listed), self._provisions.gather(roles)

        edition, gathered = await _in_a_thread_of_its_own(make)
        self._catalog.publish(edition)
        self._provisions.put_in_force(gathered)
        self._done_for = roles


async def _in_a_thread_of_its_own(work: Callable[[], T]) -> T:
    """Do it like asyncio.to_thread, but without anybody waiting for its end when the daemon stops."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody wants to know any more
            loop.call_soon_threadsafe(lambda: None if done.done() else outcome())

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            tell(lambda: done.set_exception(failure))
        else:
            tell(lambda: done.set_result(result))

    threading.Thread(target=run, name="renewal", daemon=True).start()
    return await done
