"""What narrows an execution to a skill: its tools, the recording of its calls, their replay, its one result."""

import json

import pytest

from orchestrator.domain.errors import LimitExceeded, OrchestratorError, ToolDenied, ToolUnavailable
from orchestrator.domain.json_text import JsonObject
from orchestrator.service.scopes import (
    LARGEST_ARGUMENTS_BYTES,
    LARGEST_RECORDING_BYTES,
    MOST_NAMED,
    NAMED_CHARACTERS,
    RecordedCall,
    Recording,
    Replay,
    Scope,
)

QUERY, UPLOAD = "postgres/query", "minio/upload"


def result(number):
    return {"structuredContent": {"number": number}}


def call(number, arguments=None, path=QUERY):
    return RecordedCall(path, {"text": "a"} if arguments is None else arguments, result(number))


# The recording.


def test_a_call_is_recorded_with_what_it_was_asked_and_answered():
    recording = Recording()
    recording.note(QUERY, {"text": "a"}, result(1), None)
    recording.note(UPLOAD, {}, None, ToolUnavailable("It is down."))
    assert recording.calls == [
        RecordedCall(QUERY, {"text": "a"}, result(1)),
        RecordedCall(UPLOAD, {}, None, ("tool_unavailable", "It is down.")),
    ]


def test_what_happens_to_arguments_and_results_afterwards_does_not_change_the_recording():
    recording, arguments, answer = Recording(), {"rows": [1]}, result(1)
    recording.note(QUERY, arguments, answer, None)
    arguments["rows"].append(2)
    answer["structuredContent"]["number"] = 2
    assert recording.calls == [RecordedCall(QUERY, {"rows": [1]}, result(1))]


def test_a_large_result_that_nobody_has_decoded_is_recorded_as_plain_values():
    recording = Recording()
    recording.note(QUERY, JsonObject(b'{"text": "a"}'), JsonObject(json.dumps(result(1)).encode()), None)
    assert json.loads(json.dumps(recording.calls[0].as_document()))["result"] == result(1)
    assert recording.calls == [call(1)]


def test_a_recording_that_is_too_large_ends_and_says_so():
    recording = Recording()
    assert recording.has_room(LARGEST_RECORDING_BYTES)
    assert not recording.overflowed
    assert not recording.has_room(1)
    assert not recording.has_room(0), "what came after is missing, too"
    assert recording.overflowed


def test_a_scope_notes_only_the_first_calls_that_it_refuses_and_cuts_their_names():
    scope = Scope(frozenset(), ("skill",))
    for number in range(100):
        with pytest.raises(ToolDenied, match="does not declare"):
            scope.require(f"{number}/{'x' * 500}")
    assert len(scope.refused) == MOST_NAMED
    assert max(map(len, scope.refused)) == NAMED_CHARACTERS


@pytest.mark.parametrize("kept", [{"recording": Recording()}, {"replay": Replay(())}])
def test_arguments_that_are_too_large_to_be_recorded_are_refused(kept):
    scope = Scope(frozenset({QUERY}), ("skill",), **kept)
    scope.require(QUERY, LARGEST_ARGUMENTS_BYTES)
    with pytest.raises(LimitExceeded):
        scope.require(QUERY, LARGEST_ARGUMENTS_BYTES + 1)
    Scope(frozenset({QUERY}), ("skill",)).require(QUERY, LARGEST_ARGUMENTS_BYTES + 1)


@pytest.mark.parametrize(
    "recorded",
    [call(1), RecordedCall(QUERY, {}, None, ("tool_denied", "No.")), RecordedCall(QUERY, {"deep": [{"a": None}]}, {})],
)
def test_a_call_is_the_same_after_it_was_written_and_read(recorded):
    assert RecordedCall.from_document(json.loads(json.dumps(recorded.as_document()))) == recorded


# The replay.


def test_calls_that_are_alike_are_answered_in_their_order_and_each_once():
    replay = Replay((call(1), call(2, {"text": "b"}), call(3)))
    assert [replay.answer(QUERY, {"text": text}) for text in "aba"] == [result(1), result(2), result(3)]
    with pytest.raises(ToolUnavailable, match="The recording has no call of postgres/query with these arguments"):
        replay.answer(QUERY, {"text": "a"})


def test_calls_that_differ_may_come_in_another_order():
    replay = Replay((call(1, {"text": "a"}), call(2, {"text": "b"})))
    assert [replay.answer(QUERY, {"text": text}) for text in "ba"] == [result(2), result(1)]
    assert (replay.unknown, replay.left) == ([], [])


def test_arguments_are_the_same_whatever_the_order_of_their_names():
    replay = Replay((call(1, {"a": 1, "b": {"c": 2, "d": 3}}),))
    assert replay.answer(QUERY, {"b": {"d": 3, "c": 2}, "a": 1}) == result(1)


@pytest.mark.parametrize(
    ("path", "arguments"), [(QUERY, {"text": "other"}), (QUERY, {}), (UPLOAD, {"text": "a"}), (QUERY, {"text": None})]
)
def test_what_was_not_recorded_is_noted_and_not_answered(path, arguments):
    replay = Replay((call(1),))
    with pytest.raises(ToolUnavailable):
        replay.answer(path, arguments)
    assert replay.unknown == [path]
    assert replay.left == [QUERY]


def test_what_was_recorded_and_not_asked_for_is_named():
    replay = Replay((call(1), call(2), call(3, path=UPLOAD)))
    replay.answer(QUERY, {"text": "a"})
    assert replay.left == [UPLOAD, QUERY]


def test_an_error_that_was_recorded_is_raised_as_it_was():
    replay = Replay((RecordedCall(QUERY, {}, None, ("tool_denied", "Not this table.")),))
    with pytest.raises(ToolDenied, match="Not this table"):
        replay.answer(QUERY, {})
    assert replay.left == []


def test_an_error_of_a_code_that_is_not_known_any_more_is_an_error_still():
    replay = Replay((RecordedCall(QUERY, {}, None, ("gone", "It failed.")),))
    with pytest.raises(OrchestratorError, match="It failed"):
        replay.answer(QUERY, {})


@pytest.mark.parametrize("odd", ["\ud800", float("nan"), float("inf")])
def test_arguments_that_no_encoding_has_are_replayed_like_others(odd):
    recording = Recording()
    recording.note(QUERY, {"text": odd}, result(1), None)
    assert Replay(tuple(recording.calls)).answer(QUERY, {"text": odd}) == result(1)


def test_a_replay_leaves_the_recording_for_the_next_one():
    calls = (call(1),)
    for _ in range(2):
        assert Replay(calls).answer(QUERY, {"text": "a"}) == result(1)


# The scope.


def test_only_what_is_declared_may_be_called_and_the_rest_is_noted():
    scope = Scope(frozenset({QUERY}), ("outer", "inner"))
    scope.require(QUERY)
    with pytest.raises(ToolDenied, match="The skill inner does not declare minio/upload"):
        scope.require(UPLOAD)
    assert scope.refused == [UPLOAD]


@pytest.mark.parametrize("value", [{"count": 1}, None, False])
def test_a_result_is_handed_back_once(value):
    scope = Scope(frozenset(), ("one",), returns=True)
    scope.hand_back(value)
    with pytest.raises(LimitExceeded, match="A result is handed back once"):
        scope.hand_back("another")
    assert (scope.returned, scope.has_returned) == (value, True)


def test_what_nobody_waits_for_is_not_handed_back():
    scope = Scope(frozenset(), ("one",))
    with pytest.raises(LimitExceeded):
        scope.hand_back(1)
    assert not scope.has_returned
