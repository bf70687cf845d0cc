"""Who makes room for whom, without a socket."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from orchestrator.domain.errors import TooManyConnections
from orchestrator.faces.http.connection import network_of
from orchestrator.faces.http.connections import ConnectionLimits, Connections

LIMITS = {
    "in_all": 4,
    "per_address": 3,
    "per_caller": 2,
    "requests_per_second": 10,
    "header_bytes": 100,
    "header_seconds": 1,
    "stall_seconds": 1,
    "unidentified_bytes": 100,
    "unread_bytes": 100,
}


class FakeConnection:
    def __init__(self, connections, unread_bytes=0):
        self._connections = connections
        self.unread_bytes = unread_bytes
        self.is_cut = False

    def cut(self):
        self.is_cut = True
        self._connections.leave(self)


def connections(**changed):
    return Connections(ConnectionLimits(**LIMITS | changed))


def admitted(room, address, count=1):
    made = [FakeConnection(room) for _ in range(count)]
    for connection in made:
        assert room.admit(connection, address)
    return made


def test_the_longest_without_a_caller_makes_room():
    room = connections()
    first, second = admitted(room, "a", 2)
    admitted(room, "b", 2)
    room.rest(first)
    admitted(room, "c")
    assert (first.is_cut, second.is_cut, len(room)) == (False, True, 4)


def test_an_address_that_has_its_share_makes_room_itself():
    room = connections()
    (other,) = admitted(room, "b")
    first, second, _ = admitted(room, "a", 3)
    admitted(room, "a")
    assert (other.is_cut, first.is_cut, second.is_cut) == (False, True, False)


def test_one_that_serves_a_caller_makes_no_room():
    room = connections(per_caller=4)
    for connection in (*admitted(room, "a", 2), *admitted(room, "b", 2)):
        room.serve(connection, "caller")
    late = FakeConnection(room)
    assert not room.admit(late, "c")
    assert len(room) == 4


def test_one_whose_request_is_answered_may_have_to_make_room_again():
    room = connections(per_caller=4)
    (first, *others) = (*admitted(room, "a", 2), *admitted(room, "b", 2))
    for connection in (first, *others):
        room.serve(connection, "caller")
    room.rest(first)
    admitted(room, "c")
    assert first.is_cut


def test_a_caller_has_its_share_and_gets_it_back():
    room = connections()
    first, second, third = admitted(room, "a", 3)
    room.serve(first, "caller")
    room.serve(second, "caller")
    with pytest.raises(TooManyConnections, match="You already use 2 connections"):
        room.serve(third, "caller")
    room.serve(third, "another")
    room.leave(first)
    room.rest(second)
    room.rest(third)
    room.serve(second, "caller")
    room.serve(third, "caller")


def test_what_strangers_send_is_bounded_together_and_the_oldest_makes_room():
    room = connections()
    first, second, third = admitted(room, "a", 3)
    assert room.hold(first, 60)
    assert room.hold(second, 40)
    assert room.hold(third, 50)
    assert (first.is_cut, second.is_cut) == (True, False)
    assert room.hold(third, 10)
    assert not second.is_cut


def test_one_stranger_alone_does_not_make_room_for_itself():
    room = connections()
    (greedy,) = admitted(room, "a")
    assert room.hold(greedy, 100)
    assert not room.hold(greedy, 1)


def test_what_a_caller_sent_is_not_a_strangers_any_more():
    room = connections()
    caller, stranger = admitted(room, "a", 2)
    room.hold(caller, 100)
    room.serve(caller, "caller")
    assert room.hold(stranger, 100)
    assert not caller.is_cut


def test_unread_replies_are_bounded_together_and_the_newest_is_kept():
    room = connections()
    replies = [FakeConnection(room, unread_bytes=size) for size in (60, 60, 500)]
    for reply in replies:
        room.stall(reply)
    assert [reply.is_cut for reply in replies] == [True, True, False]


def test_whoever_leaves_most_unread_loses_it_and_nobody_else():
    room = connections(in_all=9, per_address=9, per_caller=9)
    honest, *hostile = admitted(room, "a", 4)
    room.serve(honest, "honest")
    honest.unread_bytes = 30
    room.stall(honest)
    for reply in hostile:
        room.serve(reply, "hostile")
        reply.unread_bytes = 40
        room.stall(reply)
    assert [each.is_cut for each in (honest, *hostile)] == [False, True, True, False]


def test_one_that_goes_on_reading_is_not_counted():
    room = connections()
    reads, stalls = FakeConnection(room, 100), FakeConnection(room, 100)
    room.stall(reads)
    room.go_on(reads)
    room.stall(stalls)
    assert not reads.is_cut


def test_what_happens_often_is_told_in_one_line():
    room = connections()
    with capture_logs() as lines:
        for _ in range(1000):
            room.note("malformed")
    assert [line["event"] for line in lines] == ["connections.closed"]


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        (("192.0.2.7", 1), "192.0.2.7"),
        (("2001:db8:1:2:3::4", 1, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        (("::ffff:192.0.2.7", 1, 0, 0), "192.0.2.7"),
        (None, ""),
        ("", ""),
    ],
)
def test_a_connection_is_counted_with_its_address_or_its_network(peer, network):
    assert network_of(peer) == network


def test_what_a_caller_begins_and_gives_up_costs_it_several_turns():
    room = connections(requests_per_second=10)
    room.note_cancelled("hostile")
    assert room.take_turn("hostile") == 0  # of a burst of twenty
    room.note_cancelled("hostile")
    assert room.take_turn("hostile") > 0
    assert room.take_turn("honest") == 0


def test_a_caller_waits_for_what_it_asked_itself_and_for_nobody_else():
    room = connections(requests_per_second=0.5)
    assert room.take_turn("hostile") == 0
    assert room.take_turn("hostile") > 0
    assert room.take_turn("honest") == 0
