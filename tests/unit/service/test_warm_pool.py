import asyncio

import pytest

from orchestrator.domain.execution import Language, Recipe
from orchestrator.domain.sandbox import PoolSize
from orchestrator.service import warm_pool
from orchestrator.service.sandboxes import STARTS_AT_ONCE, Sandboxes
from orchestrator.service.warm_pool import WarmPool
from tests.support.api import until
from tests.support.fake_engine import FakeEngine
from tests.support.samples import limits

PYTHON = Recipe(Language.PYTHON)
TYPESCRIPT = Recipe(Language.TYPESCRIPT)
GIB = 1024**3


class Pool:
    def __init__(self, floor=2, ceiling=4, memory_bytes=GIB, max_age_seconds=60):
        self.engine = FakeEngine()
        self.sandboxes = Sandboxes(self.engine, accept=lambda sandbox_id: asyncio.Protocol())
        self.wanted = {PYTHON: {}}
        size = PoolSize(floor, ceiling, memory_bytes, max_age_seconds)
        self.pool = WarmPool(self.sandboxes, lambda: self.wanted, limits(), size)

    async def fill(self, rounds=6):
        for _ in range(rounds):
            await self.pool.refill_once()

    async def use(self, recipe=PYTHON):
        async with self.pool.lease(recipe, {}, "e") as lease:
            return lease


@pytest.fixture
async def warm():
    warm = Pool()
    yield warm
    warm.engine.may_start.set()
    warm.pool.close()
    await warm.sandboxes.all_destroyed()
    assert not warm.engine.sandboxes


async def test_a_filled_pool_gives_warm_sandboxes_and_an_empty_one_cold(warm):
    cold = await warm.use()
    await warm.fill()
    hot = await warm.use()
    assert (cold.warm, hot.warm) == (False, True)


async def test_an_execution_that_outlasts_warm_sandboxes_gets_its_own_and_the_pool_goes_on(warm):
    await warm.fill()
    idle = warm.pool.idle
    async with warm.pool.lease(PYTHON, {}, "long", timeout_seconds=86_400) as lease:
        assert (lease.warm, warm.pool.idle) == (False, idle)
        assert 86_400 < lease.sandbox.spec.lifetime_seconds < 25 * 3600
        while not warm.pool.preloaded:
            await asyncio.wait_for(warm.pool.tend(), 5)  # preloads, though a program runs
    assert (await warm.use()).warm


async def test_no_sandbox_is_leased_twice_and_none_comes_back(warm):
    await warm.fill()
    seen = []
    for _ in range(10):
        seen.append((await warm.use()).sandbox.id)
        await warm.fill(1)
    await warm.sandboxes.all_destroyed()
    assert len(set(seen)) == 10
    assert not set(seen) & {sandbox.id for sandbox in warm.engine.sandboxes}


async def test_the_pool_fills_to_its_floor_and_no_further_without_demand(warm):
    await warm.fill()
    assert warm.pool.idle == 2


async def test_demand_raises_the_pool_to_its_ceiling():
    warm = Pool(floor=1, ceiling=3)
    for _ in range(10):
        await warm.use()
    await warm.fill()
    assert warm.pool.idle == 3


async def test_demand_that_has_passed_no_longer_counts(monkeypatch):
    monkeypatch.setattr(warm_pool, "DEMAND_WINDOW_SECONDS", 0.0)
    warm = Pool(floor=1, ceiling=3)
    for _ in range(10):
        await warm.use()
    await warm.fill()
    assert warm.pool.idle == 1


async def test_the_memory_budget_bounds_all_recipes_together():
    warm = Pool(floor=10, ceiling=10, memory_bytes=3 * warm_pool.IDLE_BYTES[Language.TYPESCRIPT])
    warm.wanted = {PYTHON: {}, TYPESCRIPT: {}}
    await warm.fill()
    spent = sum(warm_pool.IDLE_BYTES[recipe.language] * len(idle) for recipe, idle in warm.pool._idle.items())
    assert 0 < spent <= 3 * warm_pool.IDLE_BYTES[Language.TYPESCRIPT]
    assert all(idle for idle in warm.pool._idle.values())


async def test_a_dead_warm_sandbox_is_discarded_without_the_caller_noticing(warm):
    await warm.fill()
    for sandbox in warm.engine.sandboxes:
        sandbox.alive = False
    lease = await warm.use()
    assert not lease.warm
    await warm.sandboxes.all_destroyed()
    assert not warm.engine.sandboxes


async def test_one_that_waited_too_long_is_replaced():
    warm = Pool(max_age_seconds=0)
    await warm.fill(1)
    made = len(warm.engine.made)
    await warm.fill(1)
    assert len(warm.engine.made) > made
    assert not (await warm.use()).warm


async def test_a_recipe_that_is_no_longer_wanted_is_retired(warm):
    await warm.fill()
    changed = Recipe(Language.PYTHON, "other wrappers")
    warm.wanted = {changed: {}}
    await warm.fill()
    await warm.sandboxes.all_destroyed()
    assert set(warm.pool._idle) == {changed}


async def test_refilling_yields_to_an_execution_that_starts_cold(warm):
    warm.engine.may_start.clear()
    cold = asyncio.create_task(warm.use())
    await until(lambda: warm.sandboxes.starting == 1)
    tending = asyncio.create_task(warm.pool.tend())
    await asyncio.sleep(0.05)
    assert (warm.sandboxes.starting, tending.done()) == (1, False)
    warm.engine.may_start.set()
    await cold
    await tending
    await warm.fill()
    assert warm.pool.idle == 2


async def test_at_most_two_are_made_at_a_time():
    warm = Pool(floor=8, ceiling=8)
    warm.engine.may_start.clear()
    filling = asyncio.create_task(warm.pool.refill_once())
    await until(lambda: warm.sandboxes.starting == 2)
    warm.engine.may_start.set()
    await filling
    assert warm.pool.idle == 2


async def test_an_engine_that_is_down_leaves_the_pool_empty_until_it_is_back(warm):
    warm.engine.go_down()
    await warm.fill(1)
    assert warm.pool.idle == 0
    warm.engine.fault = None
    await warm.fill()
    assert warm.pool.idle == 2


async def test_closing_during_a_refill_leaves_nothing(warm):
    warm.engine.may_start.clear()
    filling = asyncio.create_task(warm.pool.refill_once())
    await until(lambda: warm.sandboxes.starting == 2)
    warm.pool.close()
    warm.engine.may_start.set()
    await filling
    await warm.sandboxes.all_destroyed()
    assert not warm.engine.sandboxes


async def test_what_programs_often_need_is_loaded_when_there_is_nothing_else_to_do(warm, monkeypatch):
    monkeypatch.setattr(warm_pool, "LOOK_EVERY_SECONDS", 0.01)
    await warm.pool.tend()
    assert [sandbox.preloads for sandbox in warm.engine.sandboxes] == [0, 0]
    async with warm.pool.lease(PYTHON, {}, "e"):
        await warm.fill()
        await warm.pool.tend()
        assert {sandbox.preloads for sandbox in warm.engine.sandboxes} == {0}
    await warm.sandboxes.all_destroyed()
    for _ in range(4):
        await warm.pool.tend()
    assert {sandbox.preloads for sandbox in warm.engine.sandboxes} == {1}


async def test_no_more_sandboxes_start_at_once_than_the_machine_can_start(warm):
    warm.engine.may_start.clear()
    many = [asyncio.create_task(warm.use()) for _ in range(3 * STARTS_AT_ONCE)]
    await until(lambda: warm.sandboxes.starting == len(many))
    await until(lambda: warm.engine.starting)
    assert warm.engine.starting == STARTS_AT_ONCE
    warm.engine.may_start.set()
    await asyncio.gather(*many)


async def test_a_start_that_nobody_wants_any_more_keeps_its_turn_until_it_has_ended(warm):
    warm.engine.may_start.clear()
    for _ in range(3):
        given_up = [asyncio.create_task(warm.use()) for _ in range(STARTS_AT_ONCE)]
        await until(lambda: warm.sandboxes.starting == STARTS_AT_ONCE)
        for _ in range(10):
            await asyncio.sleep(0)
        for task in given_up:
            task.cancel()
        await asyncio.wait(given_up)
    assert warm.engine.starting == STARTS_AT_ONCE
    honest = asyncio.create_task(warm.use())
    warm.engine.may_start.set()
    await asyncio.wait_for(honest, 10)


async def test_who_waits_for_a_turn_to_start_takes_what_was_refilled_meanwhile(warm):
    warm.engine.may_start.clear()
    refill = asyncio.create_task(warm.pool.refill_once())
    await until(lambda: warm.sandboxes.starting == 2)
    cold = [asyncio.create_task(warm.use()) for _ in range(STARTS_AT_ONCE - 2)]
    late = asyncio.create_task(warm.use())
    await until(lambda: warm.sandboxes.starting == STARTS_AT_ONCE + 1)
    warm.engine.may_start.set()
    assert (await late).warm
    assert not any(lease.warm for lease in await asyncio.gather(*cold))
    await refill


async def test_refilling_waits_for_a_short_program_unless_the_pool_runs_low(monkeypatch):
    monkeypatch.setattr(warm_pool, "LET_PROGRAMS_RUN_SECONDS", 60)
    warm = Pool(floor=4, ceiling=4)
    await warm.fill()
    async with warm.pool.lease(PYTHON, {}, "a"):
        patient = asyncio.create_task(warm.pool.tend())
        await asyncio.sleep(0.1)
        assert (warm.pool.idle, patient.done()) == (3, False)
    await patient
    async with (
        warm.pool.lease(PYTHON, {}, "b"),
        warm.pool.lease(PYTHON, {}, "c"),
        warm.pool.lease(PYTHON, {}, "d"),
    ):
        await asyncio.wait_for(warm.pool.tend(), 10)
        assert warm.pool.idle == 3
    warm.pool.close()
    await warm.sandboxes.all_destroyed()


async def test_a_recipe_that_is_no_longer_wanted_does_not_make_the_pool_hurry(warm):
    await warm.use()
    await warm.fill()
    warm.wanted = {TYPESCRIPT: {}}
    await warm.fill()
    assert not warm.pool._runs_low
