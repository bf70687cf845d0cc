"""Bodies, with requests that a test feeds piece by piece."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from orchestrator.domain.errors import BodyTooSlow, CodeTooLarge, IntakeFull, MalformedJson
from orchestrator.faces.intake import MAX_VALUES, MAX_WAITING_OF_A_CALLER, Intake, has_too_many_values

LARGE = 100_000


class FakeRequest:
    def __init__(self, content_length):
        protocol = BaseProtocol(asyncio.get_running_loop())
        protocol.transport = object()  # it is connected
        self.content = StreamReader(protocol, 2**16)
        self.content_length = content_length
        self.body_exists = True

    def complete(self, body):
        self.content.feed_data(body)
        self.content.feed_eof()


def intake(**changed):
    limits = {"total_bytes": LARGE, "per_caller_bytes": LARGE, "max_body_bytes": LARGE, "body_seconds": 30}
    return Intake(**limits | changed)


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


async def receive(into, request, caller="a", done=None):
    async with into.body(request, caller) as body:
        if done is not None:
            done.append(caller)
        return body


async def test_a_body_is_read_whole_and_its_place_is_given_back():
    into, request = intake(), FakeRequest(LARGE)
    received = asyncio.create_task(receive(into, request))
    await settled()
    assert into.taken == LARGE
    request.complete(b"x" * LARGE)
    assert await received == b"x" * LARGE
    assert into.taken == 0


async def test_a_body_of_unknown_length_takes_the_largest_place():
    into, request = intake(), FakeRequest(None)
    received = asyncio.create_task(receive(into, request))
    await settled()
    assert into.taken == LARGE
    request.complete(b"short")
    assert await received == b"short"


async def test_a_body_that_turns_out_short_gives_back_what_it_does_not_need():
    into, request = intake(), FakeRequest(None)
    request.complete(b"short")
    async with into.body(request, "a") as body:
        assert (body, into.taken) == (b"short", 5)
    assert into.taken == 0


async def test_a_request_without_a_body_takes_no_place():
    into, request = intake(), FakeRequest(None)
    request.body_exists = False
    assert await receive(into, request) == b""


async def test_one_who_leaves_gives_its_place_back():
    into, request = intake(), FakeRequest(LARGE)
    received = asyncio.create_task(receive(into, request))
    await settled()
    received.cancel()
    await asyncio.wait((received,))
    assert into.taken == 0


async def test_two_callers_take_turns_however_many_bodies_one_sends():
    into, done = intake(), []
    requests = [(FakeRequest(LARGE), caller) for caller in "aaaab"]
    tasks = []
    for request, caller in requests:
        tasks.append(asyncio.create_task(receive(into, request, caller, done)))
        await settled()
    for request, _ in requests:
        request.complete(b"x")
    await asyncio.gather(*tasks)
    assert done.index("b") <= 2


async def test_a_small_body_does_not_wait_for_large_ones():
    into, large, small = intake(), FakeRequest(LARGE), FakeRequest(5)
    waiting = asyncio.create_task(receive(into, large))
    await settled()
    small.complete(b"small")
    assert await asyncio.wait_for(receive(into, small), 5) == b"small"
    large.complete(b"")
    await waiting


async def test_a_body_that_says_it_is_too_large_is_not_read():
    with pytest.raises(CodeTooLarge):
        await receive(intake(), FakeRequest(LARGE + 1))


async def test_a_body_that_turns_out_too_large_is_not_read_to_its_end():
    request = FakeRequest(None)
    request.content.feed_data(b"x" * (LARGE + 1))
    with pytest.raises(CodeTooLarge):
        await receive(intake(), request)


async def test_a_body_that_does_not_come_is_given_up():
    into = intake(body_seconds=0.01)
    with pytest.raises(BodyTooSlow):
        await receive(into, FakeRequest(LARGE))
    assert into.taken == 0


async def test_one_who_waits_too_long_is_told_to_come_back():
    into, patient = intake(body_seconds=0.05), FakeRequest(LARGE)
    patient.complete(b"x")
    async with into.body(patient, "a"):
        with pytest.raises(IntakeFull) as refused:
            await receive(into, FakeRequest(LARGE), "b")
    assert refused.value.retry_after_seconds == 5
    assert into.taken == 0


async def test_a_caller_with_many_waiting_bodies_is_refused_and_another_is_not():
    into = intake()
    requests = [FakeRequest(LARGE) for _ in range(MAX_WAITING_OF_A_CALLER + 1)]
    tasks = [asyncio.create_task(receive(into, request)) for request in requests]
    await settled()
    with pytest.raises(IntakeFull):
        await receive(into, FakeRequest(LARGE))
    other = asyncio.create_task(receive(into, FakeRequest(LARGE), "b"))
    await settled()
    assert not other.done()
    for task in (*tasks, other):
        task.cancel()
    await asyncio.wait((*tasks, other))
    assert into.taken == 0


async def test_the_largest_body_fits_whatever_the_shares_are():
    request = FakeRequest(LARGE)
    request.complete(b"x" * LARGE)
    assert len(await receive(intake(total_bytes=1, per_caller_bytes=1), request)) == LARGE


MANY = MAX_VALUES + 1
TOO_MANY = {
    "arrays": b"[" + b"[]," * MANY + b"0]",
    "objects": b"[" + b"{}," * MANY + b"0]",
    "strings": b"[" + b'"",' * MANY + b"0]",
    "numbers": b"[" + b"0," * MANY + b"0]",
    "depth": b"[" * MANY,
    "names": b"{" + b'"a":0,' * MANY + b"}",
    "after a string": b'["' + b"," * MANY + b'"' + b",0" * MANY + b"]",
    "after an escaped quote": b'["\\""' + b",0" * MANY + b"]",
    "after a backslash": b'["\\\\"' + b",0" * MANY + b"]",
}
FEW = {
    "nothing": b"",
    "commas in a string": b'{"code": "' + b"[{,:" * MANY + b'"}',
    "quotes in a string": b'{"code": "' + b'\\",' * MANY + b'"}',
    "backslashes in a string": b'{"code": "' + b"\\\\," * MANY + b'"}',
    "a string that does not end": b'{"code": "' + b"," * MANY,
    "a string that ends in a backslash": b'{"code": "' + b"," * MANY + b"\\",
    "just as many as may be": b"[" + b"0," * (MAX_VALUES - 1) + b"0]",
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_many_values_are_found(name):
    assert has_too_many_values(TOO_MANY[name])


@pytest.mark.parametrize("name", FEW)
def test_text_that_looks_like_values_is_none(name):
    assert not has_too_many_values(FEW[name])


def test_quotes_without_number_are_looked_at_once():
    assert not has_too_many_values(b'{"code": "' + b'\\",' * 2_000_000)


async def test_too_many_values_are_refused():
    request = FakeRequest(LARGE)
    request.complete(TOO_MANY["arrays"])
    with pytest.raises(MalformedJson, match="at most 10000 values"):
        await receive(intake(), request)
