"""The ids of events: whatever was told in whatever order, they say what is missing."""

import random
from itertools import accumulate

import pytest

from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Stream
from orchestrator.faces.http.events import Delivery, Place

PRINTED = {
    Stream.STDOUT: "naïve €uro 𝄞 日本語\n".encode() + b"\xff\xe2\x82 and \xf0\x9d\x84",
    Stream.STDERR: "weiß, ÄÖÜ, 𝄢".encode() + b"\xe2",
}
CALLS = 6


def live(seed):
    """What happens, in some order: pieces of any size, and calls that do not end in the order in which they began."""
    chance = random.Random(seed)
    left, calls = dict(PRINTED), chance.sample(range(CALLS), CALLS)
    told = []
    while left or calls:
        choice = chance.choice([*left, "call"] if calls else [*left])
        if choice == "call":
            told.append(calls.pop())
            continue
        size = chance.randint(1, 5)
        told.append((choice, left[choice][:size]))
        if not (rest := left.pop(choice)[size:]):
            continue
        left[choice] = rest
    return told


def stored():
    """The same from the journal."""
    return [*PRINTED.items(), *range(CALLS)]


class Client:
    def __init__(self):
        self.text = dict.fromkeys(Stream, "")
        self.calls = []

    def read(self, happenings, after=None, at_most=None):
        """Take what there is, and return the id after each event."""
        delivery, ids, offsets = Delivery(Place.parse(after)), [after or ""], dict.fromkeys(Stream, 0)
        for happening in happenings if at_most is None else happenings[:at_most]:
            if isinstance(happening, int):
                if delivery.take_call(happening):
                    self.calls.append(happening)
            else:
                stream, data = happening
                self.text[stream] += delivery.take(stream, offsets[stream], data)
                offsets[stream] += len(data)
            ids.append(delivery.id)
        if at_most is None:
            for stream in Stream:
                self.text[stream] += delivery.take_rest(stream, cut=False)
            for number in range(CALLS):
                if delivery.take_call(number):
                    self.calls.append(number)
        return ids


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_leaves_anywhere_goes_on_live_or_from_the_journal(seed):
    first = live(seed)
    for rest in (first, live(seed + 100), stored()):  # pieces and order differ
        for left_after in range(len(first) + 1):
            client = Client()
            event_id = client.read(first, at_most=left_after)[-1]
            client.read(rest, event_id)
            assert client.text == {name: data.decode(errors="replace") for name, data in PRINTED.items()}, event_id
            assert sorted(client.calls) == list(range(CALLS)), event_id


def test_a_client_that_leaves_again_and_again_misses_nothing():
    client, event_id = Client(), None
    steps = list(accumulate([7] * 8))
    for seed, step in enumerate(steps):
        event_id = client.read(live(seed), event_id, at_most=step)[-1] or None
    client.read(stored(), event_id)
    assert client.text == {name: data.decode(errors="replace") for name, data in PRINTED.items()}
    assert sorted(client.calls) == list(range(CALLS))


def test_an_id_names_the_calls_that_took_longer_than_later_ones():
    delivery = Delivery(Place.parse(None))
    ids = []
    for number in (2, 0, 3, 1):
        assert delivery.take_call(number)
        assert not delivery.take_call(number)
        ids.append(delivery.id)
    assert ids == ["0-0-3.0.1", "0-0-3.1", "0-0-4.1", "0-0-4"]


def test_an_id_does_not_count_a_character_of_which_only_some_bytes_have_come():
    delivery = Delivery(Place.parse(None))
    assert delivery.take(Stream.STDOUT, 0, "a€".encode()[:2]) == "a"
    assert delivery.id == "1-0-0"
    assert delivery.take(Stream.STDOUT, 2, "€".encode()[1:]) == "€"
    assert delivery.id == "4-0-0"


@pytest.mark.parametrize("wrong", ["0", "a-b-c", "1-2-3-4", "1-2-3.3", "0-0-1.-1", " 0-0-0", "0-0-0\n", "9" * 5000])
def test_what_is_no_id_is_refused(wrong):
    with pytest.raises(InvalidRequest, match="`Last-Event-ID` must be the id of an event of this execution"):
        Place.parse(wrong)


@pytest.mark.parametrize(("event_id", "fits"), [("3-2-1", True), ("4-2-1", False), ("3-3-1", False), ("0-0-2", False)])
def test_an_id_beyond_what_there_is_is_of_another_execution(event_id, fits):
    place = Place.parse(event_id)
    if fits:
        place.require_within(3, 2, 1)
    else:
        with pytest.raises(InvalidRequest, match="which has 3 bytes of stdout, 2 of stderr and 1 tool calls"):
            place.require_within(3, 2, 1)
