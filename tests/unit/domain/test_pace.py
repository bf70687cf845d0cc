"""Turns, with a clock that the test moves."""

import pytest

from orchestrator.domain.pace import Pace, Paces


@pytest.fixture
def clock(monkeypatch):
    """What the module takes for the time, as seconds in a list of one."""
    now = [1000.0]
    monkeypatch.setattr("orchestrator.domain.pace.time.monotonic", lambda: now[0])
    return now


def test_beyond_a_burst_each_waits_a_little_longer_and_a_pause_makes_up_for_it(clock):
    pace = Pace(burst=3, pause_seconds=0.5)
    assert [pace.take() for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    clock[0] += 1.0
    assert pace.take() == 0.5
    clock[0] += 60
    assert [pace.take() for _ in range(4)] == [0, 0, 0, 0.5]


def test_one_can_ask_when_the_next_turn_is_without_taking_it(clock):
    pace = Pace(burst=1, pause_seconds=0.5)
    assert pace.seconds_to_next == 0
    assert pace.take() == 0
    assert [pace.seconds_to_next, pace.seconds_to_next, pace.take()] == [0.5, 0.5, 0.5]


def test_a_caller_waits_for_what_it_asked_itself_and_for_nobody_else(clock):
    paces = Paces(burst=4, pause_seconds=0.5)
    assert [paces.take("hostile") for _ in range(6)] == [0, 0, 0, 0, 0.5, 1.0]
    assert [paces.take("honest") for _ in range(4)] == [0, 0, 0, 0]


def test_who_has_not_asked_for_a_while_is_forgotten(clock):
    paces = Paces(burst=20, pause_seconds=0.1)
    for number in range(1000):
        paces.take(f"caller {number}")
        clock[0] += 0.1
    assert len(paces) < 50
    assert paces.take("caller 0") == 0


def test_who_asks_all_the_time_is_not_forgotten(clock):
    paces = Paces(burst=2, pause_seconds=1)
    for _ in range(50):
        paces.take("hostile")
    clock[0] += 5
    paces.take("honest")
    assert paces.take("hostile") > 40


def test_a_clock_that_goes_on_in_between_does_no_harm(monkeypatch):
    moments = iter(range(1000, 2000))
    monkeypatch.setattr("orchestrator.domain.pace.time.monotonic", lambda: next(moments))
    paces = Paces(burst=2, pause_seconds=0.01)
    assert [paces.take("caller") for _ in range(3)] == [0, 0, 0]
    assert len(paces) == 0
