import asyncio

from orchestrator.domain.errors import EngineUnavailable
from orchestrator.domain.sandbox import OwnedContainer
from orchestrator.service.reaper import OVERDUE_AFTER_SECONDS, Reaper
from tests.support.fake_engine import FakeEngine


def orphan(id: str, of_this_epoch: bool = False) -> OwnedContainer:
    return OwnedContainer(id, of_this_epoch)


def reaper(engine: FakeEngine, owned=frozenset(), stray_after_seconds: float = 60) -> Reaper:
    return Reaper(engine, lambda: frozenset(owned), stray_after_seconds=stray_after_seconds)


async def test_what_an_earlier_start_left_is_removed():
    engine = FakeEngine()
    engine.orphans = [orphan("old-1"), orphan("old-2")]
    assert await reaper(engine).remove_orphans() == 2
    assert engine.removed == ["old-1", "old-2"]


async def test_what_is_owned_is_left_alone():
    engine = FakeEngine()
    engine.orphans = [orphan("mine", of_this_epoch=True)]
    assert await reaper(engine, owned={"mine"}, stray_after_seconds=0).remove_orphans() == 0


async def test_a_container_just_being_made_gets_time_before_it_counts_as_a_stray():
    engine = FakeEngine()
    engine.orphans = [orphan("new", of_this_epoch=True)]
    patient, strict = reaper(engine), reaper(engine, stray_after_seconds=-1)
    assert await patient.remove_orphans() == 0
    assert await strict.remove_orphans() == 1


async def test_one_that_cannot_be_removed_does_not_stop_the_others():
    engine = FakeEngine()
    engine.orphans = [orphan("a"), orphan("b")]
    engine.removal_fault = EngineUnavailable("test")
    assert await reaper(engine).remove_orphans() == 0
    engine.removal_fault = None
    assert await reaper(engine).remove_orphans() == 2


async def test_one_that_was_tampered_with_is_removed_even_if_it_is_owned():
    engine = FakeEngine()
    engine.orphans = [OwnedContainer("mine", of_this_epoch=True, tampered=True)]
    assert await reaper(engine, owned={"mine"}).remove_orphans() == 1


async def test_one_that_outlives_its_lifetime_is_removed_even_if_it_is_owned(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("orchestrator.service.reaper.time.monotonic", lambda: clock[0])
    engine = FakeEngine()
    engine.orphans = [
        OwnedContainer("overdue", of_this_epoch=True, lifetime_seconds=30),
        OwnedContainer("young", of_this_epoch=True, lifetime_seconds=300),
        OwnedContainer("endless", of_this_epoch=True),
    ]
    watching = reaper(engine, owned={"overdue", "young", "endless"})
    assert await watching.remove_orphans() == 0
    clock[0] += 30 + OVERDUE_AFTER_SECONDS
    assert await watching.remove_orphans() == 0
    clock[0] += 1
    assert await watching.remove_orphans() == 1
    assert engine.removed == ["overdue"]


async def test_one_that_was_owned_for_long_still_gets_time_while_it_is_destroyed(monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("orchestrator.service.reaper.time.monotonic", lambda: clock[0])
    engine = FakeEngine()
    engine.orphans = [orphan("leaving", of_this_epoch=True)]
    owned = {"leaving"}
    watching = Reaper(engine, lambda: frozenset(owned), stray_after_seconds=60)
    await watching.remove_orphans()
    clock[0] += 600
    owned.clear()
    assert await watching.remove_orphans() == 0
    clock[0] += 61
    assert await watching.remove_orphans() == 1


async def test_a_daemon_that_stops_removes_what_the_engine_made_for_nobody():
    engine = FakeEngine()
    engine.orphans = [OwnedContainer("stray", of_this_epoch=True), OwnedContainer("another daemon's", False)]
    await Reaper(engine, frozenset, stray_after_seconds=60).remove_what_is_left(within_seconds=5)
    assert engine.removed == ["stray"]


async def test_a_daemon_that_stops_does_not_wait_for_an_engine_that_is_gone():
    engine = FakeEngine()
    engine.go_down()
    await Reaper(engine, frozenset, stray_after_seconds=60).remove_what_is_left(within_seconds=5)
    engine.fault, engine.list_owned = None, asyncio.Event().wait
    await Reaper(engine, frozenset, stray_after_seconds=60).remove_what_is_left(within_seconds=0.05)
    assert engine.removed == []
