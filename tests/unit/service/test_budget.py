"""Bytes that are reserved before they are taken: who gets them, in which order, and what is left behind."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.service.budget import Budget


class Party:
    """Those who reserve bytes of one budget; notes in which order they got them."""

    def __init__(self, total, share):
        self.budget = Budget(total, share)
        self.holding = []
        self.tasks = {}

    async def ask(self, name, size, owner=None):
        """Ask for bytes; return when they were given or when it is clear that they must be waited for."""
        go = asyncio.Event()

        async def hold():
            async with self.budget.reserve(owner or name[0], size):
                self.holding.append(name)
                await go.wait()
            self.holding.remove(name)

        self.tasks[name] = asyncio.create_task(hold()), go
        await settle()

    async def leave(self, name):
        task, go = self.tasks.pop(name)
        go.set()
        await task
        await settle()

    async def give_up(self, name):
        task, _ = self.tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await settle()


@pytest.fixture
async def party():
    """Ten bytes, six of which one owner may have."""
    party = Party(10, 6)
    yield party
    party.holding.clear()
    for task, _ in party.tasks.values():
        task.cancel()
    await asyncio.gather(*(task for task, _ in party.tasks.values()), return_exceptions=True)
    await settle()
    assert party.budget.taken == 0


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_room_that_is_there_is_given_without_giving_way(party):
    others_ran = asyncio.Event()
    asyncio.get_running_loop().call_soon(others_ran.set)
    async with party.budget.reserve("a", 6):
        assert not others_ran.is_set()
        assert party.budget.taken == 6
    assert party.budget.taken == 0


async def test_what_does_not_fit_waits_until_it_does(party):
    await party.ask("a1", 5)
    await party.ask("b1", 5)
    await party.ask("c1", 1)
    assert party.holding == ["a1", "b1"]
    await party.leave("a1")
    assert party.holding == ["b1", "c1"]


async def test_an_owner_whose_share_is_used_up_keeps_nobody_else_waiting(party):
    await party.ask("a1", 6)
    await party.ask("a2", 1)
    await party.ask("b1", 4)
    assert party.holding == ["a1", "b1"]


async def test_an_owner_gets_its_own_in_the_order_in_which_it_asked(party):
    await party.ask("a1", 6)
    await party.ask("a2", 5)
    await party.ask("a3", 1)
    await party.ask("a4", 1)
    await party.leave("a1")
    assert party.holding == ["a2", "a3"]


async def test_owners_take_turns_however_often_one_asks(party):
    await party.ask("c1", 6)
    await party.ask("d1", 4)
    for number in range(1, 6):
        await party.ask(f"a{number}", 3)
    await party.ask("b1", 3)
    await party.leave("c1")
    assert party.holding == ["d1", "a1", "b1"]


async def test_small_requests_of_others_never_starve_a_large_one(party):
    await party.ask("a1", 5)
    await party.ask("b1", 5)
    await party.ask("c1", 6)
    for number in range(1, 5):
        await party.ask(f"d{number}", 1)
    await party.leave("a1")
    assert party.holding == ["b1"]
    await party.leave("b1")
    assert party.holding[0] == "c1"
    assert party.holding[1:] == ["d1", "d2", "d3", "d4"]


async def test_who_gives_up_waiting_leaves_nothing_behind_and_lets_others_pass(party):
    await party.ask("a1", 5)
    await party.ask("b1", 1)
    await party.ask("c1", 6)
    await party.ask("d1", 1)
    assert party.holding == ["a1", "b1"]
    await party.give_up("c1")
    assert party.holding == ["a1", "b1", "d1"]
    assert party.budget.taken == 7


async def test_who_is_cancelled_just_as_the_room_is_given_gives_it_back(party):
    await party.ask("a1", 6)
    await party.ask("a2", 6)
    waiting, _ = party.tasks.pop("a2")
    _, go = party.tasks["a1"]
    go.set()
    await asyncio.sleep(0)  # a1 has left, so a2 has the room, but has not run yet
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (party.holding, party.budget.taken) == ([], 0)


async def test_an_error_within_gives_the_room_back(party):
    with pytest.raises(RuntimeError):
        async with party.budget.reserve("a", 6):
            raise RuntimeError
    assert party.budget.taken == 0


async def test_what_turns_out_not_to_be_needed_is_given_to_who_waits(party):
    reservation = party.budget.reserve("a", 6)
    async with reservation:
        await party.ask("a2", 5)
        assert party.holding == []
        reservation.shrink(1)
        await settle()
        assert (party.holding, party.budget.taken) == (["a2"], 6)
        reservation.shrink(3)  # it never grows
        assert party.budget.taken == 6
    assert party.budget.taken == 5


@pytest.mark.parametrize("size", [-1, 7, 11])
async def test_what_could_never_fit_is_refused(party, size):
    with pytest.raises(ValueError, match="0 to 6 bytes"):
        party.budget.reserve("a", size)


async def test_a_share_is_never_more_than_the_total():
    with pytest.raises(ValueError, match="0 to 10 bytes"):
        Budget(10, 50).reserve("a", 11)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abcd"), st.integers(0, 6)),
        st.tuples(st.just("leave"), st.integers(0, 30), st.none()),
        st.tuples(st.just("give up"), st.integers(0, 30), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_more_is_ever_held_than_may_be_and_everybody_is_served_in_the_end(steps):
    async def play():
        party, sizes = Party(10, 6), {}
        for number, (step, which, size) in enumerate(steps):
            if step == "ask":
                sizes[f"{which}{number}"] = size
                await party.ask(f"{which}{number}", size)
            elif step == "leave" and party.holding:
                await party.leave(party.holding[which % len(party.holding)])
            elif step == "give up" and party.tasks:
                name = list(party.tasks)[which % len(party.tasks)]
                if name in party.holding:
                    party.holding.remove(name)
                await party.give_up(name)
            held = {owner: sum(sizes[name] for name in party.holding if name[0] == owner) for owner in "abcd"}
            assert party.budget.taken == sum(held.values()) <= 10
            assert max(held.values()) <= 6
        while party.tasks:  # however they wait, there is always one who holds something
            assert party.holding
            await party.leave(party.holding[0])
        assert party.budget.taken == 0
        assert not party.budget._queues
        assert not party.budget._taken_by
        assert not party.budget._holding

    asyncio.run(play())


async def test_many_that_wait_are_all_served():
    budget, served = Budget(100, 60), []

    async def use(number):
        async with budget.reserve(f"owner {number % 7}", 1 + number % 60):
            assert budget.taken <= 100
            await asyncio.sleep(0)
            served.append(number)

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(budget.reserve("first", 60))
        tasks = [asyncio.create_task(use(number)) for number in range(300)]
        await settle()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks)
    assert sorted(served) == list(range(300))
    assert budget.taken == 0
