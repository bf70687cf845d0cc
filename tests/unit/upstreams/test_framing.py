import asyncio
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.upstreams.faults import ResultTooLarge
from orchestrator.upstreams.framing import LineSplitter, Oversized
from orchestrator.upstreams.jsonrpc import id_in
from orchestrator.upstreams.sse import Event, EventParser, events_in
from orchestrator.upstreams.transport import Alerts, StreamTransport


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


def fed(decoder, chunks):
    return [item for chunk in chunks for item in decoder.feed(chunk)]


@given(
    st.lists(st.binary(max_size=50).map(lambda line: line.replace(b"\n", b"")), max_size=8),
    st.lists(st.integers(0, 400)),
)
def test_lines_are_the_same_wherever_the_chunks_end(lines, places):
    data = b"".join(line + b"\n" for line in lines)
    assert fed(LineSplitter(50), cut(data, places)) == lines


@given(st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 200)))
@example(b"\r\n", list(range(200)))
def test_events_are_the_same_wherever_the_chunks_end(ending, places):
    lines = [
        b": comment",
        b"",
        b"event: endpoint",
        b"data: /m",
        b"",
        b"data:one",
        b"data: two",
        b"id: 7",
        b"",
        b"data: {}",
        b"",
        b"",
    ]
    data = ending.join(lines)
    expected = [Event("endpoint", b"/m"), Event("message", b"one\ntwo", "7"), Event("message", b"{}", "7")]
    assert fed(EventParser(100), cut(data, places)) == expected


def test_an_oversized_line_leaves_its_ends_and_the_next_line_intact():
    data = b'{"result":"' + b"x" * 100_000 + b'","jsonrpc":"2.0","id":42}\nnext\n'
    oversized, following = fed(LineSplitter(1000), cut(data, list(range(0, len(data), 777))))
    assert isinstance(oversized, Oversized)
    assert id_in(oversized.head, oversized.tail) == 42
    assert following == b"next"


def test_an_oversized_line_is_not_kept_while_it_arrives():
    splitter = LineSplitter(1000)
    for _ in range(1000):
        assert list(splitter.feed(b"x" * 1000)) == []
        assert len(splitter._line) <= 2000


@pytest.mark.parametrize("data", [b"data: " + b"x" * 101, b"data: xxxxxxxxx\n" * 11, b"data:\n" * 200])
def test_an_oversized_event_is_told_and_the_next_one_is_intact(data):
    oversized, following = fed(EventParser(100), cut(data + b"\n\ndata: ok\n\n", list(range(0, 2000, 7))))
    assert isinstance(oversized, Oversized)
    assert following == Event("message", b"ok")


def test_an_event_of_just_the_limit_is_kept():
    assert fed(EventParser(100), [b"data: " + b"x" * 100 + b"\n\n"]) == [Event("message", b"x" * 100)]


def test_data_in_many_short_lines_takes_no_more_memory_than_it_is_counted_for():
    parser = EventParser(1_000_000)
    tracemalloc.start()
    try:
        for _ in range(1000):
            assert list(parser.feed(b"data:ab\n" * 100)) == []
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * parser.held
    assert 299_999 <= parser.held <= 300_000
    assert list(parser.feed(b"\n")) == [Event("message", b"\n".join([b"ab"] * 100_000))]


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"text":"', b'..."}}', 3),
        (b'{ "id" : 4 , "jsonrpc":"2.0"', b"}", 4),
        (b'{"result":{', b'}},"jsonrpc":"2.0","id":5}', 5),
        (b'{"result":{', b'}},"id":6,"jsonrpc":"2.0"}\r', 6),
        (b'{"result":{"id":7,', b'"id":8}}', None),
        (b'{"method":"notifications/message","params":{"id":9', b'"}}', None),
    ],
)
def test_whose_an_oversized_message_is_can_be_told_only_from_its_own_id(head, tail, expected):
    assert id_in(head, tail) == expected


@pytest.mark.parametrize(
    "nothing", [b"id: 7\ndata: \n\n", b"id: 7\ndata:\n\n", b"event: message\ndata\n\n", b"retry: 5\n\n"]
)
def test_an_event_without_data_is_none(nothing):
    """Servers that can resume a stream begin it so."""
    (event,) = fed(EventParser(100), [nothing, b"data: {}\n\n"])
    assert (event.kind, event.data) == ("message", b"{}")


@given(st.lists(st.integers(0, 30)))
@example(list(range(30)))
def test_a_byte_order_mark_is_no_part_of_the_first_line_only(places):
    data = b"\xef\xbb\xbfdata: one\n\n\xef\xbb\xbfdata: two\n\n"
    assert fed(EventParser(100), cut(data, places)) == [Event("message", b"one")]


def test_an_empty_chunk_between_the_two_bytes_of_a_line_ending_ends_no_event():
    assert fed(EventParser(100), [b"data: a\r", b"", b"\ndata: b\r\n\r\n"]) == [Event("message", b"a\nb")]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"id: 7\ndata: a", Event("message", b"a", "7")),
        (b"id: 7\nid\ndata: a", Event("message", b"a", "")),
        (b"id: 7\nid: 8\0\ndata: a", Event("message", b"a", "7")),
        (b"event: x\nevent\ndata: a", Event("message", b"a")),
        (b"data:  a ", Event("message", b" a ")),
        (b":data: b\ndata: a\ndatas: c\n data: d", Event("message", b"a")),
    ],
)
def test_fields_are_read_as_the_specification_says(fields, expected):
    assert fed(EventParser(100), [fields + b"\n\n"]) == [expected]


async def chunks(*parts):
    for part in parts:
        yield part


async def test_a_stream_is_left_as_soon_as_an_event_is_too_large():
    events = events_in(chunks(b"data: a\n\ndata: ", b"x" * 200, b"never read"), 100)
    assert await anext(events) == Event("message", b"a")
    with pytest.raises(ResultTooLarge, match="100"):
        await anext(events)


class Waiting(StreamTransport):
    async def _send(self, message):
        pass


@pytest.mark.parametrize(
    ("head", "tail", "fails"),
    [
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{', b'"}}', set()),
        (b'{"method":"ping","params":{', b'},"jsonrpc":"2.0","id":2}', set()),
        (b'{"jsonrpc":"2.0","result":{', b"}}", {"tools/call"}),
        (b'{"jsonrpc":"2.0","id":1,"result":{', b"}}", {"tools/list"}),
        (b'{"jsonrpc":"2.0","id":2,"result":{', b"}}", {"tools/call"}),
    ],
)
async def test_an_oversized_message_fails_nothing_but_what_it_may_answer(head, tail, fails):
    transport = Waiting(Alerts(relist=lambda: None, lost=lambda _: None), 1000)
    requests = {
        "tools/list": asyncio.create_task(transport.request("tools/list", {})),
        "tools/call": asyncio.create_task(transport.request("tools/call", {}, Room())),
    }
    await asyncio.sleep(0)
    await transport._receive(Oversized(head, tail))
    for _ in range(5):
        await asyncio.sleep(0)
    try:
        assert {method for method, waiting in requests.items() if waiting.done()} == fails
    finally:
        for waiting in requests.values():
            waiting.cancel()
        await asyncio.gather(*requests.values(), return_exceptions=True)
        await transport.close()


class Room:
    owner = "somebody"
