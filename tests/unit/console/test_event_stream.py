"""Server-sent events, however the network cuts them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes

STREAM = (
    ": a comment\n\n"
    'id: e-1\nevent: load\ndata: {"running": 1}\n\n'
    'event: execution\r\ndata: {"text":\r\ndata: "two lines"}\r\n\r\n'
    "id: e-2\rdata: 3\r\r"
    "event: nothing\n\n"
    "data: 4\nretry: 5\nunknown\n\n"
    "data: 5\n"
)
EVENTS = [
    {"name": "load", "id": "e-1", "data": {"running": 1}},
    {"name": "execution", "id": "e-1", "data": {"text": "two lines"}},
    {"name": "message", "id": "e-2", "data": 3},
    {"name": "message", "id": "e-2", "data": 4},
]
PARSE = "(() => { const parser = new module.EventParser(); return pieces.flatMap((piece) => parser.push(piece)); })()"


def parse(pieces: list[str]) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = ask("lib/sse.js", PARSE, pieces=pieces)
    return answer


def test_events_of_a_whole_stream() -> None:
    assert parse([STREAM]) == EVENTS


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_may_end_anywhere(size: int) -> None:
    assert parse([STREAM[at : at + size] for at in range(0, len(STREAM), size)]) == EVENTS


def test_event_of_ten_megabytes_in_small_pieces_takes_no_long_time() -> None:
    text = json.dumps("x" * 10_000_000)
    length = ask(
        "lib/sse.js",
        "(() => { const parser = new module.EventParser(); const whole = `data: ${text()}\\n\\n`; const events = [];"
        " for (let at = 0; at < whole.length; at += 16384) events.push(...parser.push(whole.slice(at, at + 16384)));"
        " return events[0].data.length; function text() { return JSON.stringify('x'.repeat(10_000_000)); } })()",
    )
    assert length == len(text) - 2
