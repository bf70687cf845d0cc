"""Figures and texts as people read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.console.javascript import STATIC, ask

pytestmark = pytest.mark.processes

NONE = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("function", "values", "texts"),
    [
        ("ms", [None, 0, 0.04, 1.25, 9, 18.4, 999.4], "NONE|0 ms|0 ms|1.3 ms|9 ms|18 ms|999 ms"),
        ("ms", [1234, 30_000, 59_940, 65_000, 7_800_000], "1.23 s|30 s|59.9 s|1 min 05 s|2 h 10 min"),
        ("bytes", [None, 0, 12, 1023], "NONE|0 B|12 B|1023 B"),
        ("bytes", [1024, 4200, 150_000, 1_572_864], "1 KiB|4.1 KiB|146 KiB|1.5 MiB"),
        ("count", [None, 0, 12345], "NONE|0|12,345"),
        ("tokens", [None, 950, 6298, 1_234_567], "NONE|950|6.3 k|1.2 M"),
    ],
)
def test_figures_have_as_many_digits_as_matter(function: str, values: list[Any], texts: str) -> None:
    answer = ask("lib/format.js", "values.map((value) => module[name](value))", values=values, name=function)
    assert answer == texts.replace("NONE", NONE).split("|")


def test_time_that_has_passed_is_rounded_down() -> None:
    seconds = [0, 12, 61, 7300, 200_000]
    answer = ask("lib/format.js", "seconds.map((each) => module.ago(1e12 - each * 1000, 1e12))", seconds=seconds)
    assert answer == ["now", "12 s ago", "1 min ago", "2 h ago", "2 d ago"]


def test_full_time_names_its_zone() -> None:
    shown = ask("lib/format.js", "module.fullTime('2023-11-14T12:13:20Z')")
    assert re.fullmatch(r"1[45] Nov 2023, \d\d:13:20 \S+", shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\x00b\x1b[31m", "a␀b␛[31m"),
        ("a\rb\x7f", "a␍b␡"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        ("evil\u202egnp.exe", "evil⟨U+202E⟩gnp.exe"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("a\U000e0100b", "a⟨U+E0100⟩b"),
        ("a\ufe00\ufe01\ufe0f", "a⟨U+FE00⟩⟨U+FE01⟩⟨U+FE0F⟩"),
        ("👍\ufe0f\ufe0e", "👍\ufe0f⟨U+FE0E⟩"),
        ("5\ufe0f", "5⟨U+FE0F⟩"),
        ("a\u200c\u200db", "a⟨U+200C⟩⟨U+200D⟩b"),
        ("a\u200d b", "a⟨U+200D⟩ b"),
        ("👩\u200d\u200d💻", "👩⟨U+200D⟩⟨U+200D⟩💻"),
        ("👩\u200c💻", "👩⟨U+200C⟩💻"),
        ("\u034f\u115f\u17b4\u180b\u2800", "⟨U+034F⟩⟨U+115F⟩⟨U+17B4⟩⟨U+180B⟩⟨U+2800⟩"),
        ("\u3164\uffa0\U0001d173", "⟨U+3164⟩⟨U+FFA0⟩⟨U+1D173⟩"),
    ],
)
def test_what_would_be_invisible_is_shown(text: str, shown: str) -> None:
    assert ask("lib/format.js", "module.visible(text)", text=text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d💻 é 日本",
        "👨\u200d👩\u200d👧\u200d👦",  # a family
        "👩\u200d❤\ufe0f\u200d💋\u200d👨",
        "🏳\ufe0f\u200d🌈",
        "🇫🇮",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",  # keycaps
        "👍🏽 👩🏽\u200d🔬",  # skin tones
        "❤\ufe0f ❤\ufe0e ©\ufe0f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
        "क्\u200dष",  # Devanagari
        "ශ්\u200dරී",  # Sinhala
        "한국어 e\u0301",
    ],
)
def test_what_scripts_and_emoji_need_stays(text: str) -> None:
    assert ask("lib/format.js", "[module.visible(text), module.growth(text)]", text=text) == [text, []]


def test_growth_is_what_becomes_longer() -> None:
    grown = ask("lib/format.js", "module.growth(text)", text="a\u200bb\x00\U000e0041")
    assert grown == [{"at": 1, "by": 7}, {"at": 3, "by": 0}, {"at": 4, "by": 7}]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a b.txt", "a b.txt"), (" ", '" "'), ("\u3000", '"\u3000"'), ("", '""'), ("a ", '"a "'), ("\u2800", "⟨U+2800⟩")],
)
def test_name_that_could_be_overlooked_is_in_quotes(name: str, shown: str) -> None:
    assert ask("lib/format.js", "module.fileName(name)", name=name) == shown


def test_the_editor_marks_the_same_characters() -> None:
    def expression(path: Path) -> str:
        return path.read_text(encoding="utf-8").partition("const HIDDEN =\n")[2].partition("\n")[0]

    written = expression(STATIC / "lib" / "format.js")
    assert written.endswith("/gu;")
    assert expression(STATIC.parent / "editor" / "editor.js") == written


def test_lone_surrogate_is_replaced() -> None:
    assert ask("lib/format.js", "module.visible('a' + String.fromCharCode(0xd800) + 'b')") == "a\ufffdb"
