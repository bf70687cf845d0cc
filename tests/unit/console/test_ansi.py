"""Terminal colours become styles; other sequences are dropped, unless they hold a text, which is shown."""

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
        "\x1b]8;;\x1b\\",  # the end of a link
        "\x1b]\x07",
        "\x1b[?1049h",
        "\x1b[>4;2m",  # ends with m but sets no colour
        "\x1b(B",
        "\x1bc",  # reset
        "\x1b7\x1b8\x1b=\x1b>\x1bM",  # the cursor and the keypad
    ],
)
def test_other_sequences_are_dropped(sequence: str) -> None:
    assert parse(f"a{sequence}b") == {"text": "ab", "spans": [], "style": {}}


@pytest.mark.parametrize(
    ("sequence", "shown"),
    [
        ("\x1b]0;IGNORE ALL RULES\x07", "⟨OSC 0;IGNORE ALL RULES⟩"),
        ("\x1b]52;c;c3RvbGVu\x1b\\", "⟨OSC 52;c;c3RvbGVu⟩"),  # write to the clipboard
        ("\x1b]8;;https://example.org\x1b\\", "⟨OSC 8;;https://example.org⟩"),  # a link
        ("\x1bPq#0;2;0;0;0\x1b\\", "⟨DCS q#0;2;0;0;0⟩"),  # a picture
        ("\x1bXtext\x1b\\", "⟨SOS text⟩"),
        ("\x1b^text\x1b\\", "⟨PM text⟩"),
        ("\x1b_text\x1b\\", "⟨APC text⟩"),
    ],
)
def test_text_that_a_terminal_would_not_print_is_shown(sequence: str, shown: str) -> None:
    subdued = [{"from": 1, "to": 1 + len(shown), "style": {"dim": True}}]
    assert parse(f"a{sequence}b") == {"text": f"a{shown}b", "spans": subdued, "style": {}}


def test_colour_goes_on_behind_a_title() -> None:
    parsed = parse("\x1b[31ma\x1b]0;t\x07b")
    styles = [({"fg": "1"}, "a"), ({"dim": True}, "⟨OSC 0;t⟩"), ({"fg": "1"}, "b")]
    assert [(each["style"], parsed["text"][each["from"] : each["to"]]) for each in parsed["spans"]] == styles


@pytest.mark.parametrize(
    "text", ["\x1bI\x1bG\x1bN\x1bO\x1bR\x1bE", "\x1b%I\x1b#G", f"\x1b[{'73;' * 40}m", "\x1bPnever ended"]
)
def test_text_that_is_spelt_with_escapes_stays(text: str) -> None:
    assert parse(text)["text"] == text


def test_concealed_text_is_shown() -> None:
    assert parse("\x1b[8msecret\x1b[28m")["text"] == "secret"


def test_sequence_without_an_end_stays_as_text() -> None:
    assert parse("a\x1b]0;never ended")["text"].endswith("never ended")


def test_reversed_colours_are_a_tint_behind_normal_text() -> None:
    styles = [{"inverse": True, "fg": "1"}, {"inverse": True, "bg": "2"}, {"inverse": True}]
    looks = ask("lib/ansi.js", "styles.map((style) => module.lookOf(style).class)", styles=styles)
    assert looks == ["ansi-bg-1", "ansi-bg-2", "ansi-fg-back ansi-bg-text"]


def test_no_pair_of_colours_is_one_colour() -> None:
    pairs = ask(
        "lib/ansi.js",
        "Array.from({length: 512}, (_, at) => ({fg: String(at % 16), bg: String((at >> 4) % 16), inverse: at > 255}))"
        ".map((style) => [style.inverse, module.lookOf(style).class.split(' ')])",
    )
    assert all(len(classes) == 1 for is_inverse, classes in pairs if is_inverse)
    assert len({tuple(classes) for is_inverse, classes in pairs if not is_inverse}) == 256


def test_a_colour_of_its_own_has_normal_text_before_it() -> None:
    look = ask("lib/ansi.js", "module.lookOf({fg: '#010203', bg: '#010203', bold: true})")
    assert look == {"class": "ansi-bold ansi-bg-own", "style": {"--bg-own": "#010203"}}


def test_plain_text_has_no_look() -> None:
    assert ask("lib/ansi.js", "module.lookOf(module.PLAIN)") is None


def test_an_escape_within_a_title_ends_it() -> None:
    assert parse("\x1b]0;one\x1b]0;two\x07end")["text"].endswith("0;one⟨OSC 0;two⟩end")
