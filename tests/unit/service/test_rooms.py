"""What tool calls make the daemon and the servers hold, and who waits for whom."""

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

from orchestrator.domain.errors import LimitExceeded
from orchestrator.domain.execution import RoomLimits, Shares
from orchestrator.service.budget import Budget
from orchestrator.service.rooms import ResultRoom, Rooms
from tests.support.api import until

LIMITS = RoomLimits(
    result_bytes=Shares(100, 60),
    request_bytes=Shares(100, 60),
    calls_per_server=Shares(4, 3),
    request_bytes_per_server=Shares(100, 60),
)


@pytest.fixture
def rooms():
    rooms = Rooms(LIMITS)
    yield rooms
    assert (rooms.results.taken, rooms.readers.taken, rooms.executions_reading.taken) == (0, 0, 0)


def room_of(rooms, caller="a", execution="e1", own=None):
    return ResultRoom(rooms, own or Budget(50, 50), caller, execution)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def waits(work):
    task = asyncio.create_task(work)
    await settle()
    assert not task.done()
    return task


async def test_a_result_takes_up_its_executions_room_and_everybodys(rooms):
    own = Budget(50, 50)
    with room_of(rooms, own=own) as room:
        await room.reserve(40)
        assert (own.taken, rooms.results.taken) == (40, 40)
        room.shrink(10)
        assert (own.taken, rooms.results.taken) == (10, 10)
    assert (own.taken, rooms.results.taken) == (0, 0)


async def test_one_execution_waits_for_itself_and_leaves_its_callers_others_their_room(rooms):
    own = Budget(50, 50)
    with room_of(rooms, own=own) as first, room_of(rooms, own=own) as second, room_of(rooms) as other:
        await first.reserve(40)
        waiting = await waits(second.reserve(40))
        await other.reserve(20)
        first.__exit__()
        await waiting


async def test_the_executions_of_one_caller_leave_another_its_room(rooms):
    with room_of(rooms) as first, room_of(rooms) as second, room_of(rooms, "b") as other:
        await first.reserve(50)
        waiting = await waits(second.reserve(50))
        await other.reserve(40)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_result_is_given_room_once(rooms):
    with room_of(rooms) as room:
        await room.reserve(30)
        await room.reserve(30)
        assert rooms.results.taken == 30


async def test_who_leaves_while_somebody_waits_on_its_behalf_gets_nothing(rooms):
    with room_of(rooms, "b") as other:
        await other.reserve(50)
        with room_of(rooms, "c") as third, room_of(rooms) as room:
            await third.reserve(50)
            waiting = await waits(room.reserve(10))
        with pytest.raises(LimitExceeded, match="no longer wanted"):
            await waiting
    assert rooms.results.taken == 0


async def test_a_wait_that_is_given_up_gives_back_what_it_had(rooms):
    own = Budget(50, 50)
    with room_of(rooms, "b") as other, room_of(rooms, "c") as third, room_of(rooms, own=own) as room:
        await other.reserve(50)
        await third.reserve(50)
        waiting = await waits(room.reserve(10))
        assert own.taken == 10
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert own.taken == 0


async def test_a_result_that_could_never_fit_is_refused(rooms):
    with room_of(rooms) as room, pytest.raises(LimitExceeded, match="larger than all"):
        await room.reserve(51)


class Threads:
    """What is read in threads, until the test lets it go on."""

    def __init__(self, rooms):
        self._rooms = rooms
        self._go_on = threading.Event()
        self.under_way = []

    def read(self, caller, execution, name):
        def work():
            self.under_way.append(name)
            assert self._go_on.wait(10)
            return name

        return asyncio.create_task(room_of(self._rooms, caller, execution).in_turn(work))

    def let_go(self):
        self._go_on.set()


@pytest.fixture
async def threads(rooms):
    threads = Threads(rooms)
    yield threads
    threads.let_go()
    await until(lambda: rooms.executions_reading.taken == 0)


async def test_each_execution_reads_one_large_result_at_a_time(threads):
    first, second = threads.read("a", "e1", 1), threads.read("a", "e1", 2)
    other = threads.read("a", "e2", 3)
    await until(lambda: len(threads.under_way) == 2)
    assert set(threads.under_way) == {1, 3}
    threads.let_go()
    assert await asyncio.gather(first, second, other) == [1, 2, 3]


async def test_the_executions_of_one_caller_leave_another_its_readers(threads):
    hostile = [threads.read("hostile", f"e{number}", number) for number in range(6)]
    await until(lambda: len(threads.under_way) == 2)
    honest = threads.read("honest", "e", "honest")
    await until(lambda: "honest" in threads.under_way)
    assert len(threads.under_way) == 3
    threads.let_go()
    assert await asyncio.gather(*hostile, honest) == [*range(6), "honest"]


async def test_a_thread_keeps_its_turn_when_nobody_wants_its_work_any_more(rooms, threads):
    for number in range(3):
        task = threads.read("a", "e1", number)
        await until(lambda: threads.under_way)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (threads.under_way, rooms.readers.taken) == ([0], 1)
    threads.let_go()
    await until(lambda: rooms.readers.taken == 0)


async def test_a_server_is_given_only_so_many_calls_of_one_caller_at_once(rooms):
    async with AsyncExitStack() as held:
        for _ in range(3):
            await held.enter_async_context(rooms.at_server("postgres", "a", 0))
        waiting = await waits(held.enter_async_context(rooms.at_server("postgres", "a", 0)))
        await held.enter_async_context(rooms.at_server("postgres", "b", 0))
        await held.enter_async_context(rooms.at_server("files", "a", 0))
        full = await waits(held.enter_async_context(rooms.at_server("postgres", "c", 0)))
        for task in (waiting, full):
            task.cancel()
        await asyncio.gather(waiting, full, return_exceptions=True)


async def test_a_server_is_given_only_so_many_bytes_of_one_caller_at_once(rooms):
    async with AsyncExitStack() as held:
        await held.enter_async_context(rooms.at_server("postgres", "a", 50))
        waiting = await waits(held.enter_async_context(rooms.at_server("postgres", "a", 20)))
        await held.enter_async_context(rooms.at_server("postgres", "b", 50))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await held.enter_async_context(rooms.at_server("files", "a", 50))


async def test_a_request_that_is_larger_than_its_share_goes_alone(rooms):
    async with rooms.at_server("postgres", "a", 1000), rooms.for_request("a", 1000):
        waiting = await waits(rooms.for_request("a", 1).__aenter__())
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
