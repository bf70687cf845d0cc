"""Programs as coloured pieces, and as commands that others can run."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes


def pieces(code: str, language: str | None) -> list[list[list[str]]]:
    question = "module.highlight(code, language).map((line) => line.map(({kind, text}) => [kind, text]))"
    answer: list[list[list[str]]] = ask("lib/highlight.js", question, code=code, language=language)
    return answer


@pytest.mark.parametrize("language", ["typescript", "python", "json", None])
@pytest.mark.parametrize(
    "code",
    [
        "",
        "\n\n",
        "a = 'it''s' # \"x\n",
        "`open ${'template",
        "/* never ended\n",
        '"""doc\nstring',
        "x\u2028y",
        "'" * 1001,
    ],
)
def test_no_character_is_lost(code: str, language: str | None) -> None:
    assert "\n".join("".join(text for _, text in line) for line in pieces(code, language)) == code


def test_python_words_strings_and_comments() -> None:
    assert pieces('return f(1, "a")  # why', "python") == [
        [
            ["keyword", "return"],
            ["", " "],
            ["call", "f"],
            ["", "("],
            ["number", "1"],
            ["", ", "],
            ["string", '"a"'],
            ["", ")  "],
            ["comment", "# why"],
        ]
    ]


def test_comment_over_several_lines_is_one_in_each() -> None:
    assert pieces("/* one\ntwo */ 3", "typescript") == [
        [["comment", "/* one"]],
        [["comment", "two */"], ["", " "], ["number", "3"]],
    ]


def test_keys_of_json_are_told_apart_from_strings() -> None:
    assert [kind for kind, text in pieces('{"a": "b"}', "json")[0] if text.strip("{}: ")] == ["key", "string"]


def test_unknown_language_stays_plain() -> None:
    assert pieces("return 1", "cobol") == [[["", "return 1"]]]


def test_long_program_is_coloured_in_no_time() -> None:
    assert len(pieces("x = call('it') # comment\n" * 5000, "python")) == 5001


def test_a_program_of_very_many_pieces_stays_plain() -> None:
    lines = ask(
        "lib/highlight.js",
        "[7, 8].map((most) => module.calmed(module.highlight('a = 1\\nb = 2 # c', 'python'), most))",
    )
    pieces = [[(piece["kind"], piece["text"]) for piece in line] for line in lines[0]]
    assert pieces == [[("", "a = 1")], [("", "b = 2 # c")]]
    assert sum(len(line) for line in lines[1]) == 8


def test_what_a_terminal_would_obey_is_spelled_out_in_a_command() -> None:
    body = {"code": "# \x7f\x9b31m\u202e\u200b\u2028\U000e0100\u3164 größer 数 😀"}
    command = ask("lib/curl.js", "module.curl('http://127.0.0.1:9091/execute', body)", body=body)
    words = shlex.split(command)
    assert json.loads(words[words.index("--data-raw") + 1]) == body
    assert all(character.isprintable() or character == "\n" for character in command)
    assert "größer 数 😀" in command
    assert "\u3164" not in command


def test_command_survives_a_shell() -> None:
    body: dict[str, Any] = {"language": "python", "code": "print('it''s', \"$HOME\", `x`)\n!\\"}
    command = ask("lib/curl.js", "module.curl('http://127.0.0.1:9091/execute', body)", body=body)
    words = shlex.split(command)
    assert json.loads(words[words.index("--data-raw") + 1]) == body
    assert "Authorization: Bearer $CODE_EXECUTOR_KEY" in words
