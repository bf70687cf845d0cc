"""The check of programs: what is surely wrong is told as a person would want it; what may be right is left alone."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.runner.checked import (
    SUFFIXES,
    Checked,
    Told,
    Written,
    make_workspace,
    sample_shapes,
    sample_tools,
    written,
)
from tests.unit.runner.supervised import RUNNER

TYPESCRIPT = "import { read_text_file } from './servers/filesystem/index.js';\n"
PYTHON = "from servers.filesystem import read_text_file\n"
READ_TYPESCRIPT = "read_text_file(args: { path: string; tail?: number; head?: number }): Promise<{ content: string }>"
READ_PYTHON = 'read_text_file(*, path: str, tail: float = ..., head: float = ...) -> {"content": str}'
# A check of this size takes a second or two on a free CPU; what is quadratic takes minutes.
LARGE_PROGRAM_SECONDS = 60.0


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    tools = sample_tools()
    return make_workspace(tmp_path_factory.mktemp("checked"), tools, sample_shapes(tools))


def every(kind: str) -> list[object]:
    return [
        pytest.param(program, language, id=f"{language}: {program.name}")
        for language, suffix in SUFFIXES.items()
        for program in written(f"{kind}.{suffix}.txt")
    ]


@pytest.mark.parametrize(("program", "language"), every("right"))
def test_what_may_be_right_is_not_rejected(checked: Checked, program: Written, language: str) -> None:
    assert checked.check(program.code, language) == []


@pytest.mark.parametrize(("program", "language"), every("wrong"))
def test_what_is_wrong_is_told_with_its_place(checked: Checked, program: Written, language: str) -> None:
    told = checked.check(program.code, language)
    assert tuple(Told(each.line, each.column, each.without_usage) for each in told) == program.mistakes


@pytest.mark.parametrize(
    ("language", "code", "signature"),
    [
        ("typescript", TYPESCRIPT + "await read_text_file({ pth: 1 });\nawait read_text_file();", READ_TYPESCRIPT),
        ("python", PYTHON + "read_text_file(pth=1)\nread_text_file()", READ_PYTHON),
    ],
)
def test_how_a_tool_is_called_is_told_once(checked: Checked, language: str, code: str, signature: str) -> None:
    first, second = checked.check(code, language)
    assert first.message.endswith(f" Usage: {signature}")
    assert "Usage" not in second.message


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_places_hold_whatever_ends_lines_and_whatever_stands_before(checked: Checked, line_end: str, mark: str) -> None:
    typescript = f"{mark}{TYPESCRIPT}const s = '😀é日'; console.log(nope);\n  await read_text_file({{ pth: s }});\n"
    places = [(each.line, each.column) for each in checked.typescript(typescript.replace("\n", line_end))]
    assert places == [(2, 31), (3, 26)]  # in UTF-16 units, as editors count
    python = f"{mark}{PYTHON}s = '😀é日'; print(nope)\nprint('é', read_text_file(pth=s))\n"
    places = [(each.line, each.column) for each in checked.python(python.replace("\n", line_end))]
    assert places == [(2, 18), (3, 31)]


def test_line_separators_of_javascript_end_lines(checked: Checked) -> None:
    code = TYPESCRIPT + "/* \u2028 */ const a = '\u2029'; console.log(nope);\nawait read_text_file({ pth: a });"
    assert [each.line for each in checked.typescript(code)] == [4, 5]


def test_at_most_eight_mistakes_are_told(checked: Checked) -> None:
    told = checked.python(PYTHON + "read_text_file(pth=1)\n" * 50)
    assert [each.line for each in told] == list(range(2, 10))


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("typescript", TYPESCRIPT + "read_text_file({ pth: nope });\n" * 15_000),
        (
            "typescript",
            TYPESCRIPT + f"const d = [{'[1, 2, `x(${3}`], ' * 40_000}];\nawait read_text_file({{ pth: d }});",
        ),
        ("typescript", TYPESCRIPT + f"/*{'é' * 500_000}*/ await read_text_file({{ pth: 1 }});"),
        ("python", PYTHON + "read_text_file(pth=nope)\n" * 15_000),
        ("python", PYTHON + f"d = [{'[1, 2, 3], ' * 40_000}]\nread_text_file(pth=d)"),
        ("python", PYTHON + f"s = '{'é' * 400_000}'; read_text_file(pth=s)"),
    ],
)
def test_a_large_program_is_checked_in_time(checked: Checked, language: str, code: str) -> None:
    began = time.monotonic()
    checked.check(code, language)
    assert time.monotonic() - began < LARGE_PROGRAM_SECONDS


@pytest.mark.parametrize(
    "code", [b"", b"\xff\xfe", b"x = '\xff'\n", b"\0", b"[" * 100_000, b"# coding: latin-1\n'\xe9'"]
)
@pytest.mark.parametrize("language", SUFFIXES)
def test_the_check_survives_what_is_no_text(checked: Checked, code: bytes, language: str) -> None:
    checked.check(code, language)


def test_packages_of_the_image_keep_nothing_of_the_tools_from_being_checked(
    checked: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their types are not read, which must not go for those on which the types of the tools rest."""
    for name in ("pandas", "numpy", "typing_extensions.py", "_yaml", "pillow-1.dist-info"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CODE_EXECUTOR_PACKAGES", str(tmp_path))
    code = PYTHON + "import pandas\npaths = ['x']\nread_text_file(path=paths)\nprint(read_text_file(path='x')['nope'])"
    assert [told.line for told in checked.python(code)] == [4, 5]


def test_a_program_is_checked_without_the_compilers(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image without them still runs programs."""
    monkeypatch.setenv("CODE_EXECUTOR_TY", "/dev/null")
    monkeypatch.setenv("CODE_EXECUTOR_TSC", "/dev/null")
    assert checked.typescript(TYPESCRIPT + "nope;") == []
    assert checked.python(PYTHON + "print(nope)") == []
    assert len(checked.python(PYTHON + "read_text_file(pth=1)")) == 1


def test_the_check_leaves_nothing_behind(checked: Checked) -> None:
    before = sorted(checked.workspace.rglob("*"))
    checked.python(PYTHON + "x = await read_text_file(path='x')\nprint(x['nope'])")
    assert [path for path in checked.workspace.rglob("*") if path not in before and path.name != "main.py"] == []


def test_all_that_node_defines_is_known(checked: Checked, node_path: str) -> None:
    listed = "Object.getOwnPropertyNames(globalThis).join('\\n')"
    names = subprocess.run([node_path, "-p", listed], capture_output=True, text=True, check=True).stdout.split()
    assert len(names) > 100
    assert checked.typescript(TYPESCRIPT + "".join(f"{name};\n" for name in names)) == []


def test_the_packages_of_the_image_are_known() -> None:
    packages = re.findall(r"declare module '([\w-]+)';", (RUNNER / "checking" / "sandbox.d.ts").read_text())
    assert {"zod", "date-fns", "lodash-es", "papaparse", "cheerio"} <= {*packages}
