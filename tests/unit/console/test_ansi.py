"""Terminal colours become styles; every other sequence is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes


def parse(line: str) -> dict[str, Any]:
    answer: dict[str, Any] = ask("lib/ansi.js", "module.parse(line)", line=line)
    return answer


def test_plain_text_has_no_spans() -> None:
    assert parse("hello") == {"text": "hello", "spans": [], "style": {}}


def test_colour_holds_until_it_is_reset() -> None:
    parsed = parse("a \x1b[1;31mred\x1b[0m b")
    assert parsed["text"] == "a red b"
    assert parsed["spans"] == [{"from": 2, "to": 5, "style": {"bold": True, "fg": "1"}}]


def test_colour_goes_on_in_the_next_line() -> None:
    styles = ask("lib/ansi.js", "module.parse('next', module.parse(line).style).spans", line="\x1b[32mgreen")
    assert styles == [{"from": 0, "to": 4, "style": {"fg": "2"}}]


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("38;5;9", {"fg": "9"}),
        ("38;5;196", {"fg": "#ff0000"}),
        ("48;5;244", {"bg": "#808080"}),
        ("38;2;1;2;3", {"fg": "#010203"}),
        ("38:2::1:2:3", {"fg": "#010203"}),
        ("38;2;1;2;999", {}),
        ("97;44;4", {"fg": "15", "bg": "4", "underline": True}),
        ("1;2;22", {}),
        ("4:0", {}),
        ("31;", {}),
        ("8", {}),
        ("999;1", {"bold": True}),
    ],
)
def test_parameters_become_a_style(parameters: str, style: dict[str, Any]) -> None:
    assert ask("lib/ansi.js", "module.styled(module.PLAIN, parameters)", parameters=parameters) == style


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[2J",  # clear the screen
        "\x1b[1A\x1b[2K",  # go up and erase the line
        "\x1b]0;a title\x07",
        "\x1b]52;c;c3RvbGVu\x1b\\",  # write to the clipboard
        "\x1b]8;;https://example.org\x1b\\",  # a link
        "\x1bPq#0;2;0;0;0\x1b\\",  # a picture
        "\x1b[?1049h",
        "\x1b[>4;2m",  # ends with m but sets no colour
        "\x1b(B",
        "\x1bc",  # reset
    ],
)
def test_other_sequences_are_dropped(sequence: str) -> None:
    assert parse(f"a{sequence}b") == {"text": "ab", "spans": [], "style": {}}


def test_concealed_text_is_shown() -> None:
    assert parse("\x1b[8msecret\x1b[28m")["text"] == "secret"


def test_sequence_without_an_end_stays_as_text() -> None:
    assert parse("a\x1b]0;never ended")["text"].endswith("never ended")
