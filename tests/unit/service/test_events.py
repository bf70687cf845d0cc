"""Who hears of what happens, and what becomes of those who are too slow."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from orchestrator.domain.events import Gap, Load
from orchestrator.domain.execution import State
from orchestrator.domain.ledger import CallRecord
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from orchestrator.service.events import HELD_OF_A_CALLER, MOST_AT_ONCE, Events
from tests.support.samples import ADMIN, DEVELOPER, OTHER_DEVELOPER, record, tool_call

QUIET = Load(0, 0, 2, 2, True, None)


def status(server: str = "postgres", state: UpstreamState = UpstreamState.CONNECTED) -> UpstreamStatus:
    return UpstreamStatus(server, state, 3, None, since=1.0)


def subjects(events):
    return [event.subject for event in events]


def ids(events):
    return [event.subject.id for event in events]


def test_a_caller_hears_of_its_own_executions_only():
    events = Events()
    events.tell_execution(record("mine", DEVELOPER))
    events.tell_execution(record("others", OTHER_DEVELOPER))
    assert ids(events.since(DEVELOPER, 0)) == ["mine"]
    assert ids(events.since(OTHER_DEVELOPER, 0)) == ["others"]
    assert ids(events.since(ADMIN, 0)) == ["mine", "others"]


def test_calls_are_heard_of_by_those_who_see_their_execution():
    events, call = Events(), CallRecord("mine", 0, tool_call())
    events.tell_call(DEVELOPER.key_name, call)
    assert subjects(events.since(DEVELOPER, 0)) == [call]
    assert subjects(events.since(ADMIN, 0)) == [call]
    assert subjects(events.since(OTHER_DEVELOPER, 0)) == []


def test_only_what_is_new_is_told_in_order():
    events = Events()
    for number in range(4):
        events.tell_execution(record(str(number), DEVELOPER if number % 2 else OTHER_DEVELOPER))
    first = events.since(ADMIN, 0)
    assert ids(events.since(ADMIN, first[1].number)) == ["2", "3"]
    assert events.since(ADMIN, events.number) == []


def test_what_may_be_large_is_left_out():
    events = Events()
    events.tell_execution(replace(record("e1"), tool_calls=(tool_call(), tool_call())))
    (told,) = subjects(events.since(ADMIN, 0))
    assert (told.tool_calls, told.call_count) == ((), 2)


def test_of_the_load_and_the_servers_only_the_newest_is_held():
    events = Events()
    for running in range(5):
        events.tell_load(Load(running, 0, 0, 0, True, None))
        events.tell_servers([status(state=UpstreamState.DOWN if running % 2 else UpstreamState.CONNECTED)])
    load, server = subjects(events.state(ADMIN))
    assert (load.running, server.state) == (4, UpstreamState.CONNECTED)
    assert len(events.since(ADMIN, 0)) == 2


def test_what_has_not_changed_is_not_told_again():
    events = Events()
    for since in (1.0, 2.0):
        events.tell_load(QUIET)
        events.tell_servers([UpstreamStatus("postgres", UpstreamState.CONNECTED, 3, None, since)])
    assert events.number == 2


def test_who_watches_hears_that_a_server_is_gone_and_who_is_new_does_not():
    events = Events()
    events.tell_servers([status("postgres"), status("minio")])
    number = events.number
    events.tell_servers([status("minio")])
    (gone,) = subjects(events.since(ADMIN, number))
    assert (gone.server, gone.state, gone.problem) == ("postgres", UpstreamState.DOWN, "it is no longer configured")
    assert [server.server for server in subjects(events.state(ADMIN))] == ["minio"]
    events.tell_servers([status("minio"), status("postgres")])
    assert [server.state for server in subjects(events.since(ADMIN, number))] == [UpstreamState.CONNECTED]


def test_a_role_hears_of_its_servers_only():
    events = Events()
    events.tell_servers([status("postgres"), status("payroll")])
    assert [server.server for server in subjects(events.state(DEVELOPER))] == ["postgres"]
    assert len(events.state(ADMIN)) == 2


def test_whoever_is_too_slow_is_told_that_something_is_gone():
    events = Events()
    for number in range(HELD_OF_A_CALLER + 10):
        events.tell_execution(record(str(number)))
    (gap,) = events.since(DEVELOPER, 5)
    assert isinstance(gap.subject, Gap)
    assert ids(events.since(DEVELOPER, gap.number))[0] == "10"


def test_after_a_gap_everything_that_is_still_held_follows():
    events = Events()
    events.tell_load(QUIET)
    for number in range(HELD_OF_A_CALLER + 1):
        events.tell_execution(record(str(number)))
    events.tell_load(Load(1, 0, 0, 0, True, None))
    heard, number = [], 1
    while found := events.since(DEVELOPER, number):
        heard += found
        number = found[-1].number
    assert isinstance(heard[0].subject, Gap)
    assert len(heard) == 1 + HELD_OF_A_CALLER + 1
    assert heard[-1].subject.running == 1


def test_one_that_does_much_pushes_nobody_elses_events_out():
    events = Events()
    events.tell_execution(record("mine", DEVELOPER))
    for number in range(3 * HELD_OF_A_CALLER):
        events.tell_execution(record(str(number), OTHER_DEVELOPER))
    assert ids(events.since(DEVELOPER, 0)) == ["mine"]


def test_much_at_once_comes_in_pieces():
    events = Events()
    for number in range(MOST_AT_ONCE + 1):
        events.tell_execution(record(str(number)))
    first = events.since(DEVELOPER, 0)
    assert len(first) == MOST_AT_ONCE
    assert ids(events.since(DEVELOPER, first[-1].number)) == [str(MOST_AT_ONCE)]


async def test_whoever_waits_wakes_when_something_happens():
    events = Events()
    waiting = asyncio.create_task(events.wait(0, 60))
    await asyncio.sleep(0)
    events.tell_execution(record(state=State.RUNNING))
    await asyncio.wait_for(waiting, 5)


async def test_nobody_waits_for_what_has_happened_or_for_ever():
    events = Events()
    await events.wait(0, 0.01)
    events.tell_load(QUIET)
    await asyncio.wait_for(events.wait(0, 60), 5)
    assert not events._waiting
