"""Which language `code-executor run` takes a file for."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.commands.cli import app
from orchestrator.commands.program_file import LanguageUnknown, language_of, read_program
from orchestrator.domain.execution import Language

PYTHON, TYPESCRIPT = Language.PYTHON, Language.TYPESCRIPT


@pytest.mark.parametrize(
    ("file", "language"),
    [
        ("a.py", PYTHON),
        ("a.PY", PYTHON),
        ("a.pyw", PYTHON),
        ("some.dir/a.Py", PYTHON),
        *((f"a.{suffix}", TYPESCRIPT) for suffix in ("ts", "mts", "cts", "js", "mjs", "cjs", "TS", "Mjs", "test.ts")),
    ],
)
def test_the_ending_decides_whatever_its_case(file: str, language: Language) -> None:
    assert language_of(file, "#!/usr/bin/env bash\n") is language


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("#!/usr/bin/python3", PYTHON),
        ("#!/usr/bin/env python3.11", PYTHON),
        ("#! /usr/bin/env -S uv run --script", PYTHON),
        ("#!/usr/bin/env -S PYTHONUTF8=1 python -u", PYTHON),
        ("#!/usr/bin/env node", TYPESCRIPT),
        ("#!/usr/local/bin/ts-node", TYPESCRIPT),
        ("#!/usr/bin/env -S deno run --allow-all", TYPESCRIPT),
    ],
)
@pytest.mark.parametrize("file", ["report", "report.txt", "-"])
def test_without_a_known_ending_the_first_line_decides(file: str, line: str, language: Language) -> None:
    assert language_of(file, f"{line}\nprint(1)\n") is language


def test_standard_input_without_a_first_line_is_typescript() -> None:
    assert language_of("-", "console.log(1)") is TYPESCRIPT


@pytest.mark.parametrize("file", ["a.txt", "report", ".py", "Makefile", "a.rb"])
def test_where_nothing_tells_the_language_the_option_is_named(file: str) -> None:
    with pytest.raises(LanguageUnknown, match="--language python or --language typescript"):
        language_of(file, "print(1)\n#!/usr/bin/python3\n")


@pytest.mark.parametrize(
    ("file", "code", "words"),
    [
        ("deploy", "#!/bin/bash\n", "a program for bash"),
        ("page.tsx", "", "TypeScript with JSX"),
        ("work.ipynb", "{}", "a notebook"),
    ],
)
def test_what_is_not_run_here_is_told_by_its_kind(file: str, code: str, words: str) -> None:
    with pytest.raises(LanguageUnknown, match=words):
        language_of(file, code)


def test_a_byte_order_mark_hides_no_first_line(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"\xef\xbb\xbf#!/usr/bin/env python3\n")
    assert language_of(str(file), read_program(str(file))) is PYTHON


def test_a_file_of_unknown_language_is_bad_use_and_reaches_no_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODE_EXECUTOR_KEY", "key")
    monkeypatch.setenv("CODE_EXECUTOR_URL", "http://127.0.0.1:9")
    file = tmp_path / "a.txt"
    file.write_text("print(1)")
    ended = CliRunner().invoke(app, ["run", str(file)])
    assert ended.exit_code == 64
    assert "--language python" in ended.stderr
    assert CliRunner().invoke(app, ["run", str(file), "--language", "python"]).exit_code == 69, "the control"
