import gc
import json
import math

import pytest

from orchestrator.upstreams.faults import NotEncodable, NotJson, RpcError
from orchestrator.upstreams.jsonrpc import decode, encode, request, result_of
from tests.support.event_loop import longest_stop_during


async def test_numbers_that_json_does_not_have_become_null():
    small, large = '{"a": NaN, "b": -Infinity}', '{"a": NaN, "b": "' + "x" * 300_000 + '"}'
    assert await decode(small.encode()) == [{"a": None, "b": None}]
    assert (await decode(large.encode()))[0]["a"] is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"no", b'{"a":', b"7", b'["a"]', b"\xff", b"[" * 200_000, b'{"a":' * 200_000, b'{"a":' + b"9" * 5000 + b"}"],
)
async def test_what_is_not_a_message_is_refused_as_such(raw):
    with pytest.raises(NotJson):
        await decode(raw)


@pytest.fixture
def without_garbage_collection():
    """Its callbacks, of which Hypothesis has one, would hand over the interpreter lock in our place."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_garbage_collection")
async def test_a_batch_without_end_is_refused():
    assert len(await decode(b"[" + b",".join([b"{}"] * 1000) + b"]")) == 1000
    with pytest.raises(NotJson):
        await decode(b"[" + b",".join([b"{}"] * 1001) + b"]")


async def test_a_large_message_is_parsed_while_the_loop_goes_on():
    raw = json.dumps({"items": [{"number": number, "text": "x" * 20} for number in range(150_000)]}).encode()
    share, [message] = await longest_stop_during(lambda: decode(raw))
    assert len(message["items"]) == 150_000
    assert share < 0.5


@pytest.mark.parametrize("reply", [{"result": 7}, {"result": None}, {"id": 1}])
def test_a_reply_without_a_result_object_is_refused(reply):
    with pytest.raises(NotJson):
        result_of(reply)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": -32602, "message": "no"}, -32602, "no"),
        ({"code": "x", "message": None}, -32603, ""),
        ("broken", -32603, "broken"),
    ],
)
def test_an_error_of_any_form_is_an_error(error, code, message):
    with pytest.raises(RpcError) as raised:
        result_of({"error": error})
    assert (raised.value.code, raised.value.message) == (code, message)


@pytest.mark.parametrize("value", [math.nan, object(), {1, 2}])
def test_arguments_that_json_has_no_form_for_are_refused(value):
    with pytest.raises(NotEncodable):
        encode(request(1, "tools/call", {"arguments": {"a": value}}))
