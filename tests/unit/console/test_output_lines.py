"""Megabytes of output as lines that are cheap to show and to search."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.console.javascript import STATIC, ask

pytestmark = pytest.mark.processes

LINES = """(() => {
  const lines = new module.Lines();
  for (const [text, stream] of pieces) lines.append(text, stream);
  return QUESTION;
})()"""
ALL = "Array.from({length: lines.count}, (_, index) => lines.at(index))"


def asked(question: str, *pieces: str | tuple[str, str], **names: Any) -> Any:
    given = [(piece, "stdout") if isinstance(piece, str) else piece for piece in pieces]
    return ask("lib/lines.js", LINES.replace("QUESTION", question), pieces=given, **names)


def texts(*pieces: str | tuple[str, str]) -> list[str]:
    return [line["text"] for line in asked(ALL, *pieces)]


def test_line_goes_on_in_the_next_piece() -> None:
    assert texts("one\ntw", "o\r\nthr", "ee") == ["one", "two", "three"]


def test_nothing_printed_has_no_lines() -> None:
    assert texts("") == []


def test_blank_lines_count() -> None:
    assert texts("\n\na\n\n") == ["", "", "a", ""]


def test_each_stream_goes_on_with_its_own_line() -> None:
    lines = asked(ALL, ("half", "stdout"), ("error\n", "stderr"), (" and half\nopen", "stdout"), ("too", "stderr"))
    assert [(line["text"], line["stream"]) for line in lines] == [
        ("error", "stderr"),
        ("half and half", "stdout"),
        ("open", "stdout"),
        ("too", "stderr"),
    ]


def test_colour_that_is_cut_by_a_piece_holds_in_the_lines_that_follow() -> None:
    lines = asked(ALL, "\x1b[3", "1mred\nstill\x1b[0m plain\n")
    assert [line["text"] for line in lines] == ["red", "still plain"]
    assert lines[1]["spans"] == [{"from": 0, "to": 5, "style": {"fg": "1"}}]


def test_colour_is_where_it_was_though_pictures_are_longer() -> None:
    (line,) = asked(ALL, "\u202e\x1b[31mred\x1b[0m\n")
    assert line["text"] == "⟨U+202E⟩red"
    assert line["spans"] == [{"from": 8, "to": 11, "style": {"fg": "1"}}]


def test_colour_between_an_emoji_and_its_selector_marks_nothing() -> None:
    (line,) = asked(ALL, "\x1b[31m❤\x1b[32m\ufe0f\x1b[0m x\u200b\x1b[1mbold\n")
    assert line["text"] == "❤\ufe0f x⟨U+200B⟩bold"
    assert line["spans"] == [
        {"from": 0, "to": 1, "style": {"fg": "1"}},
        {"from": 1, "to": 2, "style": {"fg": "2"}},
        {"from": 12, "to": 16, "style": {"bold": True}},
    ]


def test_lines_show_every_character_that_is_hidden_elsewhere() -> None:
    missed = ask(
        "lib/lines.js",
        "(async () => { const {visible} = await import(format); const missed = [];"
        " for (let code = 0; code < 0x110000; code += 1) { const text = String.fromCodePoint(code);"
        " if (code === 10 || code === 13 || code === 27 || visible(text) === text) continue;"
        " const lines = new module.Lines(); lines.append(`a${text}\\n`);"
        " if (lines.at(0).text !== `a${visible(text)}`) missed.push(code); } return missed; })()",
        format=(STATIC / "lib" / "format.js").as_uri(),
    )
    assert missed == []


def test_what_a_title_holds_is_shown() -> None:
    assert texts("a\x1b]0;b\u200b\x07\n") == ["a⟨OSC 0;b⟨U+200B⟩⟩"]


def test_tabs_lead_to_the_next_column_that_counts() -> None:
    assert texts("a\tb\n1234567\tc\n") == ["a       b", "1234567 c"]


def test_markup_stays_text() -> None:
    assert texts("<script>alert(1)</script>\n") == ["<script>alert(1)</script>"]


def test_line_of_a_megabyte_is_cut() -> None:
    longest = asked("[lines.count, lines.widest]", "x" * 1_000_000 + "\n")
    assert longest == [250, 4000]


def test_line_of_a_megabyte_without_an_end_is_cut_too() -> None:
    assert asked("lines.count", *["y" * 10_000] * 100) == 250


def test_search_finds_whatever_the_case_and_across_pieces() -> None:
    found = asked("lines.find('NEEDLE')", "a needle\nnone\nNee", "dle and needle")
    assert [(match["line"], match["from"]) for match in found["matches"]] == [(0, 2), (2, 0), (2, 11)]


def test_search_ends_when_it_has_found_enough() -> None:
    assert asked("lines.find('x', 3)", "x\n" * 10)["more"] is True


def test_ten_megabytes_are_read_and_searched_in_no_time() -> None:
    milliseconds = asked(
        "(() => { const line = (each) => `${each} the quick brown fox jumps over the lazy dog\\n`;"
        " const text = Array.from({length: 170000}, (_, each) => line(each)).join('');"
        " const start = performance.now(); for (let at = 0; at < text.length; at += 65536)"
        " lines.append(text.slice(at, at + 65536)); const found = lines.find('169999 the').matches[0];"
        " return [lines.count, found.line, performance.now() - start]; })()"
    )
    assert milliseconds[:2] == [170_000, 169_999]
    assert milliseconds[2] < 5000


HOSTILE = [
    "\x1b]",
    "\x1b]" * 40 + "\n",
    "\u202e",
    "\u202e\n",
    "\t\u202e\x1b[31m\u202e",
    "\x1b[1",
    "\t" + "\x1b[31m" + "\u202e" * 14,
    "\u200d",
    "👩\u200d",
    "\x1b]0;\u200d\x07",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_is_taken_in_while_nobody_notices(piece: str) -> None:
    milliseconds = asked(
        "Math.min(...Array.from({length: 5}, () => { const fresh = new module.Lines(); const start = performance.now();"
        " fresh.append(text); return performance.now() - start; }))",
        text=(piece * 16_384)[:16_384],
    )
    assert milliseconds < 100  # on a machine with nothing else to do, 10


def test_colour_is_where_it_was_behind_tabs() -> None:
    (line,) = asked(ALL, "ab\t\u202e\x1b[31mred\x1b[0m\tend\n")
    assert line["text"] == "ab      ⟨U+202E⟩red    end"
    assert line["spans"] == [{"from": 16, "to": 19, "style": {"fg": "1"}}]


def test_wrapped_rows_hold_every_character() -> None:
    rows = ask(
        "lib/rows.js",
        "(async () => { const {Lines} = await import(lines); const all = new Lines(); all.append(text);"
        " const rows = new module.Rows(all, 10); return Array.from({length: rows.count}, (_, row) => {"
        " const {line, from, to} = rows.at(row); return all.at(line).text.slice(from, to); }); })()",
        text="short\n\n" + "0123456789" * 2 + "abc\n日本語日本語\nopen line that goes on",
        lines=(STATIC / "lib" / "lines.js").as_uri(),
    )
    assert rows[:5] == ["short", "", "0123456789", "0123456789", "abc"]
    assert rows[5:] == ["日本語日本", "語", "open line ", "that goes ", "on"]


def test_match_is_in_the_row_that_shows_it() -> None:
    row = ask(
        "lib/rows.js",
        "(async () => { const {Lines} = await import(lines); const all = new Lines(); all.append(text);"
        " return new module.Rows(all, 10).rowOf(1, 25); })()",
        text="first\n" + "x" * 40 + "\n",
        lines=(STATIC / "lib" / "lines.js").as_uri(),
    )
    assert row == 3


def test_pieces_have_one_look_each() -> None:
    line = {"text": "a red needle", "spans": [{"from": 2, "to": 8, "style": {"fg": "1"}}], "stream": "stdout"}
    marks = [{"from": 6, "to": 12, "current": True}]
    pieces = ask("lib/lines.js", "module.pieces(line, 0, Infinity, marks)", line=line, marks=marks)
    assert [(piece["text"], piece["style"], piece["mark"]) for piece in pieces] == [
        ("a ", {}, ""),
        ("red ", {"fg": "1"}, ""),
        ("ne", {"fg": "1"}, "current"),
        ("edle", {}, "current"),
    ]
