"""Slots are lent to one sandbox at a time, repaired, and never lent again while something may live in them."""

import asyncio
from itertools import count

import pytest

from orchestrator.domain.errors import EngineUnavailable
from orchestrator.engines.docker.sandbox import DockerSandbox
from orchestrator.engines.docker.slots import Slots


class FakeSlot:
    def __init__(self, number):
        self.id = f"slot-{number}"
        self.alive = True
        self.served: str | None = None
        self.destroyed = False

    def serve(self, sandbox_id, accept):
        assert self.served is None, "a slot holds one sandbox at a time"
        self.served = sandbox_id

    def disconnect(self):
        self.served = None

    async def destroy(self):
        self.alive, self.destroyed = False, True


class FakeSupervisor:
    alive = True

    def close(self):
        self.alive = False


class Place:
    def __init__(self):
        self.numbers = count(1)
        self.made: list[FakeSlot] = []
        self.slots = Slots(self._make)
        self.removal_fault: Exception | None = None

    async def _make(self):
        self.made.append(FakeSlot(next(self.numbers)))
        return self.made[-1]

    async def sandbox(self):
        slot = await self.slots.borrow()
        sandbox = DockerSandbox(f"in {slot.id}", FakeSupervisor(), slot, self.slots, self._see_off)
        slot.serve(sandbox.id, lambda sandbox_id: asyncio.Protocol())
        return sandbox

    async def _see_off(self, container_id):
        if self.removal_fault is not None:
            raise self.removal_fault


@pytest.fixture
def place():
    return Place()


async def test_sandboxes_after_each_other_share_a_slot(place):
    for _ in range(3):
        await (await place.sandbox()).destroy()
    assert len(place.slots.ids) == 1


async def test_sandboxes_at_once_have_a_slot_each(place):
    together = [await place.sandbox() for _ in range(3)]
    assert len(place.slots.ids) == 3
    for sandbox in together:
        await sandbox.destroy()


async def test_a_dead_slot_is_replaced_and_destroyed(place):
    await (await place.sandbox()).destroy()
    (dead,) = place.made
    dead.alive = False
    assert (await place.sandbox()).alive
    assert dead.destroyed
    assert dead.id not in place.slots.ids


async def test_a_sandbox_whose_slot_died_is_not_alive(place):
    sandbox = await place.sandbox()
    assert sandbox.alive
    place.made[0].alive = False
    assert not sandbox.alive


async def test_a_sandbox_that_cannot_be_removed_takes_its_slot_out_of_use(place):
    sandbox = await place.sandbox()
    place.removal_fault = EngineUnavailable("cannot remove")
    with pytest.raises(EngineUnavailable):
        await sandbox.destroy()
    assert not place.slots.ids
    assert place.made[0].destroyed


async def test_destroying_twice_gives_the_slot_back_once(place):
    sandbox = await place.sandbox()
    await sandbox.destroy()
    await sandbox.destroy()
    first, second = await place.sandbox(), await place.sandbox()
    assert first.id != second.id


async def test_closing_destroys_every_slot(place):
    lent, free = await place.sandbox(), await place.sandbox()
    await free.destroy()
    await place.slots.retire_all()
    assert all(slot.destroyed for slot in place.made)
    await lent.destroy()
    assert not place.slots.ids
