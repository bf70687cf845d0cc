from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.faces.mcp.excerpts import LINE, MAX_MATCHES, Matches, Room, matching_lines, page, preview

COUNTER = O200kTokenCounter()
PLENTY = 100_000


def room(tokens: int = PLENTY) -> Room:
    return Room(COUNTER, tokens)


def found_in(data: bytes, wanted: str, from_offset: int = 0, tokens: int = PLENTY) -> Matches:
    return matching_lines(data, wanted, from_offset, room(tokens))


def tokens(text: str) -> int:
    return COUNTER.count(json.dumps(text, ensure_ascii=False))


def test_what_fits_is_shown_whole():
    shown = preview(b"one\ntwo\n", room(100))
    assert (shown.text("GAP"), shown.left_out_bytes) == ("one\ntwo\n", 0)


def test_long_output_shows_both_ends_within_the_budget():
    data = b"".join(b"line %d of the output\n" % number for number in range(20_000))
    shown = preview(data, room(1000))
    assert shown.head.startswith("line 0 of")
    assert shown.tail.endswith("line 19999 of the output\n")
    assert tokens(shown.head) + tokens(shown.tail) <= 1000
    assert tokens(shown.head) + tokens(shown.tail) > 800
    assert shown.head_bytes + shown.left_out_bytes + shown.tail_bytes == len(data)


def test_long_output_is_cut_between_lines():
    data = b"".join(b"line %d\n" % number for number in range(20_000))
    shown = preview(data, room(1000))
    assert shown.head.endswith("\n")
    assert shown.tail.startswith("line ")


def test_one_endless_line_is_cut_all_the_same():
    shown = preview(b"abc " * 100_000, room(500))
    assert 0 < tokens(shown.head) <= 300
    assert 0 < tokens(shown.tail) <= 200


@pytest.mark.parametrize("data", [b"\xff" * 50_000, "é".encode() * 50_000, "𝄞".encode() * 20_000, b'"\n' * 50_000])
def test_awkward_bytes_stay_within_the_budget_and_are_all_accounted_for(data):
    shown = preview(data, room(500))
    assert tokens(shown.head) + tokens(shown.tail) <= 500
    assert shown.head_bytes > 0
    assert shown.left_out_bytes > 0
    assert data[: shown.head_bytes].decode(errors="replace") == shown.head
    assert data[len(data) - shown.tail_bytes :].decode(errors="replace") == shown.tail


@given(data=st.binary(max_size=2000), step=st.integers(min_value=8, max_value=400))
def test_pages_put_together_are_the_whole_output(data, step):
    offset, shown = 0, []
    while offset < len(data):
        piece = data[offset : offset + step]
        read = page(piece, offset, room(1000), is_last=offset + step >= len(data))
        shown.append(data[read.offset : read.offset + read.size])
        following = read.offset + read.size
        assert following > offset
        offset = following
    # Stray continuation bytes at a page's start belong to no character and may be passed over.
    assert len(b"".join(shown)) <= len(data)
    if _is_text(data):
        assert b"".join(shown) == data


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_a_character_on_the_edge_of_two_pages_is_shown_once():
    data = "aé".encode()
    first = page(data[:2], 0, room(100), is_last=False)
    second = page(data[1:], 1, room(100), is_last=True)
    assert (first.text, first.size) == ("a", 1)
    assert second.text == "é"


def test_a_page_that_begins_within_a_character_begins_with_the_next():
    data = "éa".encode()
    read = page(data[1:], 1, room(100), is_last=True)
    assert (read.text, read.offset) == ("a", 2)


@pytest.mark.parametrize("text", ["plain words in a row\n", "𝄞", "e\n"])
def test_a_preview_keeps_within_the_characters_that_a_client_counts(text):
    shown = preview(text.encode() * 20_000, Room(COUNTER, PLENTY, 1000))
    units = len((shown.head + shown.tail).encode("utf-16-le")) // 2
    assert 800 < units <= 1000


def test_the_gap_stands_on_a_line_of_its_own():
    for line in (b"one line\n", b"no line "):
        shown = preview(line * 1000, room(50)).text("[GAP]")
        assert shown.splitlines().count("[GAP]") == 1
        assert "\n\n" not in shown


def test_lines_with_the_text_are_found_with_number_and_offset():
    found = found_in(b"one\nAn Error\nthree\nerror 2", "error")
    assert [(match.line, match.offset, match.text) for match in found.shown] == [(2, 4, "An Error"), (4, 19, "error 2")]
    assert (found.count, found.left) == (2, 0)


def test_signs_of_regular_expressions_mean_themselves():
    assert [match.text for match in found_in(b"a.c\nabc\n", "a.c").shown] == ["a.c"]


def test_a_long_line_is_shown_around_the_match():
    found = found_in(b"x" * 5000 + b"needle" + b"y" * 5000, "needle").shown
    assert "needle" in found[0].text
    assert len(found[0].text) < 500


def test_matches_are_limited_and_counted_and_go_on_from_an_offset():
    data = b"hit\n" * 300
    first = found_in(data, "hit")
    last = found_in(data, "hit", from_offset=4 * 250)
    assert (len(first.shown), first.count, first.left) == (MAX_MATCHES, 300, 200)
    assert found_in(data, "hit", from_offset=first.shown[-1].offset + 1).shown[0].line == MAX_MATCHES + 1
    assert (len(last.shown), last.count, last.left) == (50, 300, 0)


def test_matches_keep_within_the_tokens_but_there_is_always_one():
    data = b"a hit in a line of some length\n" * 300
    few = found_in(data, "hit", tokens=200)
    assert 5 < len(few.shown) < 20
    assert few.left == 300 - len(few.shown)
    assert len(found_in(data, "hit", tokens=1).shown) == 1


@pytest.mark.parametrize("data", [b"", b"a", b"a\n", b"\n\n", b"a\r\nb\rc\n\rd", b"\r", b"a\n\r\n\nb\x0b\x0c\x1c\x85c"])
def test_lines_end_where_python_ends_them(data):
    assert [found[0] for found in LINE.finditer(data)] == data.splitlines(keepends=True)
