"""New tools are taken up in a thread, together, and put in force at one moment."""

import asyncio
import threading
import time

import pytest

from orchestrator.domain.access import Role
from orchestrator.domain.execution import Language
from orchestrator.service import renewal
from orchestrator.service.provisions import Provisions
from orchestrator.service.renewal import Renewal
from tests.support.api import until

ADMIN, DEVELOPER = Role("admin", frozenset({"*"})), Role("developer", frozenset({"postgres"}))


class SlowCatalog:
    """Drafts what is listed, when it is let."""

    def __init__(self):
        self.now = "nothing"
        self.latest = self.in_force = "nothing"
        self.let = threading.Event()
        self.let.set()
        self.drafting = threading.Event()
        self.drafts = []

    def listed(self):
        return self.now

    def draft(self, listed):
        self.drafting.set()
        assert self.let.wait(10)
        if listed == "broken":
            self.now = "mended"
            raise ZeroDivisionError
        self.drafts.append((listed, threading.current_thread()))
        self.latest = listed
        return listed

    def publish(self, edition):
        self.in_force = edition


class Wrappers:
    def __init__(self, catalog):
        self._catalog = catalog

    @property
    def version(self):
        return self._catalog.latest

    def files(self, role, language):
        return {f"{role.name}.{language}": self._catalog.latest}


class Observed:
    def __init__(self):
        self.news = False

    def publish(self):
        news, self.news = self.news, False
        return news


class Place:
    def __init__(self):
        self.catalog, self.observed, self.changed = SlowCatalog(), Observed(), asyncio.Event()
        self.provisions = Provisions([Wrappers(self.catalog)])
        self.roles = (ADMIN,)
        self.renewal = Renewal(self.catalog, self.provisions, self.observed, lambda: self.roles, self.changed)

    def list(self, tools):
        self.catalog.now = tools
        self.changed.set()

    async def wrapped(self, role=ADMIN):
        _, files = await self.provisions.for_role(role, Language.PYTHON)
        return files[f"{role.name}.python"]


@pytest.fixture
async def place(monkeypatch):
    monkeypatch.setattr(renewal, "LOOK_EVERY_SECONDS", 0.05)
    place = Place()
    await place.renewal.renew()
    yield place
    place.catalog.let.set()


async def test_the_old_tools_hold_while_the_new_ones_are_made_and_then_all_change_together(place):
    place.catalog.let.clear()
    place.list("new")
    taking_up = asyncio.create_task(place.renewal.take_up_changes())
    await until(place.catalog.drafting.is_set)
    assert (place.catalog.in_force, await place.wrapped()) == ("nothing", "nothing")
    place.catalog.let.set()
    async with asyncio.timeout(10):
        await taking_up
    assert (place.catalog.in_force, await place.wrapped()) == ("new", "new")
    assert place.catalog.drafts[-1][1] is not threading.current_thread()


async def test_what_changes_meanwhile_is_taken_up_together_by_the_next(place):
    place.catalog.let.clear()
    place.catalog.drafting.clear()
    place.list("first")
    taking_up = asyncio.create_task(place.renewal.take_up_changes())
    await until(place.catalog.drafting.is_set)
    for tools in ("second", "third", "fourth"):
        place.list(tools)
    place.catalog.let.set()
    async with asyncio.timeout(10):
        await taking_up
        await place.renewal.take_up_changes()
    assert [listed for listed, _ in place.catalog.drafts][-2:] == ["first", "fourth"]
    assert place.catalog.in_force == "fourth"
    assert not place.changed.is_set()


async def test_new_roles_and_new_shapes_are_taken_up_without_anything_listed(place):
    place.roles = (ADMIN, DEVELOPER)
    drafts = len(place.catalog.drafts)
    async with asyncio.timeout(10):
        await place.renewal.take_up_changes()
    assert len(place.catalog.drafts) == drafts + 1
    assert await place.wrapped(DEVELOPER) == "nothing"
    async with asyncio.timeout(10):
        await place.renewal.take_up_changes()
    assert len(place.catalog.drafts) == drafts + 1  # there was nothing new
    place.observed.news = True
    async with asyncio.timeout(10):
        await place.renewal.take_up_changes()
    assert len(place.catalog.drafts) == drafts + 2


async def test_a_failure_leaves_the_old_tools_in_force_and_is_tried_again(place):
    place.list("broken")
    with pytest.raises(ZeroDivisionError):
        await place.renewal.take_up_changes()
    assert (place.catalog.in_force, await place.wrapped()) == ("nothing", "nothing")
    async with asyncio.timeout(10):
        await place.renewal.take_up_changes()
    assert (place.catalog.in_force, await place.wrapped()) == ("mended", "mended")


async def test_who_stops_does_not_wait_for_what_is_being_made(place):
    place.catalog.let.clear()
    place.list("never")
    place.catalog.drafting.clear()
    taking_up = asyncio.create_task(place.renewal.take_up_changes())
    await until(place.catalog.drafting.is_set)
    began = time.monotonic()
    taking_up.cancel()
    await asyncio.gather(taking_up, return_exceptions=True)
    assert time.monotonic() - began < 5
    making = [thread for thread in threading.enumerate() if thread.name == "renewal"]
    assert making
    assert all(thread.daemon for thread in making)
    assert place.catalog.in_force == "nothing"
