import asyncio

import pytest

from orchestrator.domain.errors import QueueFull
from orchestrator.service.admission import Admission


def admission(max_running=2, max_waiting=10, per_caller_running=2, per_caller_waiting=10) -> Admission:
    return Admission(
        max_running=max_running,
        max_waiting=max_waiting,
        max_running_per_caller=per_caller_running,
        max_waiting_per_caller=per_caller_waiting,
    )


async def test_who_comes_first_runs_first():
    book = admission(max_running=1)
    tickets = [book.request("a") for _ in range(3)]
    assert [ticket.position for ticket in tickets] == [0, 1, 2]
    book.leave(tickets[0])
    assert [ticket.position for ticket in tickets[1:]] == [0, 1]


async def test_callers_take_turns_however_often_one_asks():
    book = admission(max_running=1)
    running = book.request("greedy")
    greedy = [book.request("greedy") for _ in range(5)]
    modest = book.request("modest")
    book.leave(running)
    first = next(ticket for ticket in (*greedy, modest) if ticket.position == 0)
    book.leave(first)
    second = next(ticket for ticket in (*greedy, modest) if ticket not in (first,) and ticket.position == 0)
    assert {first.caller, second.caller} == {"greedy", "modest"}


async def test_a_caller_may_not_take_every_place():
    book = admission(max_running=3, per_caller_running=2)
    tickets = [book.request("a") for _ in range(3)]
    assert (book.running, book.waiting, tickets[2].position) == (2, 1, 1)
    other = book.request("b")
    assert other.position == 0


async def test_a_full_queue_refuses_and_says_when_to_come_back():
    book = admission(max_running=1, max_waiting=1)
    book.request("a")
    book.request("b")
    with pytest.raises(QueueFull) as caught:
        book.request("c")
    assert caught.value.retry_after_seconds


async def test_one_callers_full_queue_does_not_refuse_another():
    book = admission(max_running=1, per_caller_waiting=1)
    book.request("a")
    book.request("a")
    with pytest.raises(QueueFull, match="your"):
        book.request("a")
    assert book.request("b").position


async def test_without_a_queue_a_free_place_is_still_given():
    book = admission(max_running=1, max_waiting=0, per_caller_waiting=0)
    ticket = book.request("a")
    with pytest.raises(QueueFull):
        book.request("a")
    book.leave(ticket)
    assert book.request("a").position == 0


async def test_leaving_twice_and_leaving_the_queue_free_places_once():
    book = admission(max_running=1)
    first, second, third = (book.request("a") for _ in range(3))
    book.leave(second)
    book.leave(second)
    book.leave(first)
    book.leave(first)
    assert (book.running, book.waiting, third.position) == (1, 0, 0)


async def test_giving_up_while_waiting_leaves_the_queue():
    book = admission(max_running=1)
    book.request("a")

    async def wait() -> None:
        async with book.request("a"):
            raise AssertionError("it never was its turn")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    assert book.waiting == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert book.waiting == 0


async def test_who_was_accepted_before_waits_even_if_the_queue_is_full():
    book = admission(max_running=1, max_waiting=0)
    first = book.request("a")
    with pytest.raises(QueueFull):
        book.request("a")
    second = book.request("a", was_accepted=True)
    assert second.position == 1
    book.leave(first)
    assert second.position == 0
