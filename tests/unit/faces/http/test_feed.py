"""The stream of everything that happens, as its clients get it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest

from orchestrator.domain.events import Load
from orchestrator.domain.ledger import CallOutcome, CallRecord
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from orchestrator.faces.http.feed import MOST_OF_A_CALLER
from orchestrator.service.events import HELD_OF_A_CALLER, Events
from tests.support.http_face import http_face, services
from tests.support.samples import ADMIN, DEVELOPER, OTHER_DEVELOPER, record, tool_call

QUIET = Load(0, 0, 2, 2, True, None)


class Listener:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.last_id = ""

    async def next(self):
        """Return the name and the fields of the next event."""
        block = (await asyncio.wait_for(self._response.content.readuntil(b"\n\n"), 5)).decode()
        fields = dict(line.split(": ", 1) for line in block.strip().splitlines())
        self.last_id = fields["id"]
        return fields["event"], json.loads(fields["data"])


class Place:
    def __init__(self, client: aiohttp.ClientSession, events: Events) -> None:
        self.client, self.events = client, events

    @asynccontextmanager
    async def listening(self, caller, last_id=None):
        headers = {"Authorization": f"Bearer {caller.key_name}"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        async with self.client.get("/events", headers=headers) as response:
            assert response.status == 200
            yield Listener(response)


@asynccontextmanager
async def a_place(heartbeat_seconds):
    events = Events()
    made_up = services(ADMIN, DEVELOPER, OTHER_DEVELOPER, events=events, heartbeat_seconds=heartbeat_seconds)
    async with http_face(made_up) as url, aiohttp.ClientSession(url) as client:
        yield Place(client, events)


@pytest.fixture
async def place():
    async with a_place(heartbeat_seconds=60) as made:
        yield made


@pytest.fixture
async def lively_place():
    async with a_place(heartbeat_seconds=0.2) as made:
        yield made


async def test_how_things_are_comes_first_and_then_what_happens(place):
    place.events.tell_execution(record("before"))
    place.events.tell_load(QUIET)
    place.events.tell_servers([UpstreamStatus("postgres", UpstreamState.DOWN, 0, "refused", 0)])
    async with place.listening(DEVELOPER) as listener:
        assert await listener.next() == (
            "load",
            {"running": 0, "waiting": 0, "warm": 2, "sandboxes": 2, "ready": True, "problem": None},
        )
        assert await listener.next() == (
            "server",
            {"server": "postgres", "state": "down", "tools": 0, "problem": "refused"},
        )
        place.events.tell_execution(record("e1"))
        name, fields = await listener.next()
        assert (name, fields["executionId"], fields["state"]) == ("execution", "e1", "queued")
        place.events.tell_call(DEVELOPER.key_name, CallRecord("e1", 4, tool_call(CallOutcome.IN_FLIGHT)))
        name, fields = await listener.next()
        assert (name, fields["executionId"], fields["number"], fields["outcome"]) == ("tool_call", "e1", 4, "in_flight")


async def test_nobody_hears_of_what_is_anothers(place):
    async with place.listening(OTHER_DEVELOPER) as listener:
        place.events.tell_execution(record("e1", DEVELOPER))
        place.events.tell_call(DEVELOPER.key_name, CallRecord("e1", 0, tool_call()))
        place.events.tell_execution(record("own", OTHER_DEVELOPER))
        _, fields = await listener.next()
        assert fields["executionId"] == "own"


async def test_a_client_that_comes_back_hears_what_it_missed(place):
    async with place.listening(DEVELOPER) as listener:
        place.events.tell_execution(record("first"))
        await listener.next()
        last_id = listener.last_id
    place.events.tell_execution(record("missed"))
    async with place.listening(DEVELOPER, last_id) as listener:
        _, fields = await listener.next()
        assert fields["executionId"] == "missed"


async def test_a_client_of_an_earlier_start_is_told_to_look_again(place):
    place.events.tell_load(QUIET)
    async with place.listening(DEVELOPER, "00000000-7") as listener:
        assert await listener.next() == ("gap", {})
        assert (await listener.next())[0] == "load"


async def test_a_client_that_missed_too_much_is_told_to_look_again(place):
    place.events.tell_execution(record("first"))
    last_id = f"{place.events.epoch}-1"
    for number in range(HELD_OF_A_CALLER + 1):
        place.events.tell_execution(record(str(number)))
    async with place.listening(DEVELOPER, last_id) as listener:
        assert (await listener.next())[0] == "gap"
        _, fields = await listener.next()
        assert fields["executionId"] == "1"


async def test_silence_is_broken_now_and_then(lively_place):
    async with lively_place.listening(DEVELOPER) as listener:
        assert await listener.next() == ("heartbeat", {})


@pytest.mark.parametrize("last_id", ["nonsense", "12", "g0000000-1", "0a1b2c3d-1-2", "0a1b2c3d-" + "9" * 40])
async def test_an_id_of_something_else_is_refused(place, last_id):
    headers = {"Authorization": f"Bearer {DEVELOPER.key_name}", "Last-Event-ID": last_id}
    async with place.client.get("/events", headers=headers) as response:
        assert response.status == 422
        assert "Last-Event-ID" in (await response.json())["detail"]


async def test_a_caller_watches_with_so_many_streams_and_no_more(lively_place):
    async with AsyncExitStack() as streams:
        for _ in range(MOST_OF_A_CALLER):
            await streams.enter_async_context(lively_place.listening(DEVELOPER))
        headers = {"Authorization": f"Bearer {DEVELOPER.key_name}"}
        async with lively_place.client.get("/events", headers=headers) as response:
            assert (response.status, (await response.json())["code"]) == (429, "too_many_streams")
        async with lively_place.listening(OTHER_DEVELOPER) as listener:
            assert await listener.next() == ("heartbeat", {})


async def test_a_stream_that_has_ended_makes_room(place):
    for _ in range(MOST_OF_A_CALLER + 1):
        async with place.listening(DEVELOPER):
            pass


async def test_all_watchers_are_sent_the_same(place):
    async with place.listening(DEVELOPER) as one, place.listening(ADMIN) as other:
        place.events.tell_execution(record("e1"))
        assert await one.next() == await other.next()
        assert one.last_id == other.last_id


async def test_the_id_may_stand_in_the_query(place):
    headers = {"Authorization": f"Bearer {DEVELOPER.key_name}"}
    async with place.client.get("/events?lastEventId=00000000-7", headers=headers) as response:
        assert (await Listener(response).next())[0] == "gap"


async def test_a_gap_is_told_though_others_were_sent_the_event_whose_number_it_has(place):
    place.events.tell_execution(record("first"))
    last_id = f"{place.events.epoch}-1"
    async with place.listening(DEVELOPER) as listener:
        for number in range(HELD_OF_A_CALLER + 1):
            place.events.tell_execution(record(str(number)))
        for _ in range(HELD_OF_A_CALLER):
            await listener.next()
        async with place.listening(DEVELOPER, last_id) as late:
            assert (await late.next())[0] == "gap"
