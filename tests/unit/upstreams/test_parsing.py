"""JSON that is made to hold up whoever reads it."""

import asyncio
import gc
import json

import pytest

from orchestrator.upstreams.faults import NotJson
from orchestrator.upstreams.jsonrpc import decode
from tests.support.event_loop import longest_stop_during

DENSE = {
    "lists": (b"[],", 490_000),
    "strings": (b'"",', 900_000),
    "names": (b"null,", 900_000),
    "numbers": (b"1,", 900_000),
}


@pytest.fixture
def without_garbage_collection():
    """Its callbacks, of which Hypothesis has one, would hand over the interpreter lock in our place."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_garbage_collection")
@pytest.mark.parametrize("kind", DENSE)
async def test_the_loop_goes_on_while_what_holds_no_object_is_parsed(kind):
    piece, number = DENSE[kind]
    raw = b'{"a":[' + piece * number + b"0]}"
    share, [message] = await longest_stop_during(lambda: decode(raw))
    assert len(message["a"]) == number + 1
    assert share < 0.5


@pytest.mark.usefixtures("without_garbage_collection")
async def test_the_parser_alone_would_stop_the_loop():
    """The control: in a thread like ours, but with nothing to call in between, it stands still most of the time."""
    raw = b'{"a":[' + b"[]," * 490_000 + b"0]}"
    share, _ = await longest_stop_during(lambda: asyncio.to_thread(json.loads, raw))
    assert share > 0.5


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"0,", b'"",'])
async def test_more_values_than_memory_should_hold_are_refused(piece):
    with pytest.raises(NotJson, match="more than 1000000 values"):
        await decode(b'{"a":[' + piece * 1_000_001 + b"0]}")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_brackets_and_commas_in_text_are_text_wherever_it_is_cut(encoding):
    text = '[{,"\\' * 400_001
    raw = json.dumps({"a": [text, "é\\"], "b": 1.5}, ensure_ascii=False).encode(encoding)
    assert await decode(raw) == [{"a": [text, "é\\"], "b": 1.5}]


async def test_both_ways_to_parse_come_to_the_same():
    values = [*range(-3, 3), 1e300, 0.5, True, None, "", "é😀\n", [], {}, [[{"a": [1, {"b": "c"}]}]]]
    for number in (100, 20_000):
        raw = json.dumps({"values": [values] * number, "padding": "x" * 70_000}).encode()
        assert (await decode(raw))[0]["values"] == [values] * number
    for end in (b"NaN", b"-Infinity", b"1e999", b"-1.5e400"):
        assert (await decode(b'{"a":[' + b'"",' * 100_000 + end + b"]}"))[0]["a"][-1] is None
    for broken in (b"", b"]", b"x", b'"', b",]}"):
        with pytest.raises(NotJson):
            await decode(b'{"a":[' + b'"",' * 100_000 + broken)


@pytest.mark.parametrize("padding", [0, 100_000])
@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400 + ".0", "Infinity", "NaN"])
async def test_a_number_that_is_not_finite_is_read_as_null(number, padding):
    """What Python reads as infinity, it writes as Infinity, and nobody else could read the tools that hold it."""
    raw = f'{{"padding":"{"x" * padding}","default":{number},"small":1.5}}'.encode()
    (message,) = await decode(raw)
    assert (message["default"], message["small"]) == (None, 1.5)
    json.dumps(message, allow_nan=False)
