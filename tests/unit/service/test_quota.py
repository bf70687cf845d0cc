"""How much is kept for whom, also when several ask at the same time."""

import asyncio
from dataclasses import replace

import pytest

from orchestrator.domain.execution import Ending, ExecutionResult, Outcome, Shares
from orchestrator.domain.files import LEAST_BYTES, File
from tests.support.fake_journal import FakeJournal
from tests.support.fake_storage import FakeStorage
from tests.support.samples import DEVELOPER, OTHER_DEVELOPER, record

OWN, OTHERS = DEVELOPER.key_name, OTHER_DEVELOPER.key_name


@pytest.fixture
def storage():
    return FakeStorage(FakeJournal(), stored=Shares(5 * LEAST_BYTES, 3 * LEAST_BYTES))


async def leave(storage, id, caller=DEVELOPER, bytes=LEAST_BYTES):
    begun = record(id=id, caller=caller)
    await storage.files._journal.open(begun)
    ended = begun.ended(Ending(Outcome.COMPLETED), 1.0)
    await storage.files._journal.finish(ExecutionResult(replace(ended, files=(File("a", bytes, "a" * 64),))))


async def test_room_is_promised_once_however_many_ask_at_once(storage):
    rooms = [storage.quota.room(OWN) for _ in range(4)]
    assert sum(await asyncio.gather(*(room.grow_to(LEAST_BYTES) for room in rooms))) == 3
    rooms[0].give_back()
    rooms[0].give_back()
    assert await rooms[3].grow_to(LEAST_BYTES)


async def test_what_others_were_promised_counts_towards_what_all_may_have(storage):
    assert await storage.quota.room(OWN).grow_to(3 * LEAST_BYTES)
    others = storage.quota.room(OTHERS)
    assert not await others.grow_to(3 * LEAST_BYTES)
    assert await others.grow_to(2 * LEAST_BYTES)


async def test_a_room_that_grows_asks_for_the_difference_only(storage):
    room = storage.quota.room(OWN)
    assert [await room.grow_to(times * LEAST_BYTES) for times in (1, 2, 3, 2, 4)] == [True, True, True, True, False]


async def test_files_are_dropped_only_if_that_makes_room(storage):
    await leave(storage, "own")
    await leave(storage, "others", OTHER_DEVELOPER, 3 * LEAST_BYTES)
    assert not await storage.quota.room(OWN).grow_to(3 * LEAST_BYTES), "others have the rest"
    assert await storage.index.files_of("own")
    assert await storage.quota.room(OWN).grow_to(2 * LEAST_BYTES)
    assert not await storage.index.files_of("own")


async def test_what_is_refused_or_given_up_leaves_no_promise(storage):
    with storage.quota.room(OWN) as room:
        assert await room.grow_to(3 * LEAST_BYTES)
    assert not storage.quota._promised
    assert not await storage.quota.room(OWN).grow_to(4 * LEAST_BYTES)
    assert not storage.quota._promised
