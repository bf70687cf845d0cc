"""What a Python program that failed is told: a short trace, and a hint where the cause is known."""

from __future__ import annotations

from textwrap import dedent

import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.domain.tools import Tool
from tests.unit.client_library.gateway import running_gateway, text
from tests.unit.client_library.workspace import Workspace
from tests.unit.runner.missing_files import MISSING_FILES
from tests.unit.runner.supervised import Ended, Supervised

TOOLS = (
    Tool("postgres", "execute_sql", input_schema={"properties": {"sql": {"type": "string"}}, "required": ["sql"]}),
    Tool("filesystem", "read_text_file", input_schema={"properties": {"path": {"type": "string"}}}),
)
SQL_ERROR = (200, {**text('ERROR: relation "orderz" does not exist (SQLSTATE 42P01)')[1], "isError": True})
NO_NETWORK = (
    "A sandbox has no network: call a tool instead. servers.discovery.search_tools('what it should do') finds one."
)
IS_TYPESCRIPT = 'This looks like TypeScript: set language to "typescript".'


def failed(python: Supervised, code: str) -> Ended:
    Workspace(python.workspace).add_tools(*TOOLS)
    ended = python.run(dedent(code))
    assert ended.exit_code == 1
    return ended


def last_line(python: Supervised, code: str) -> str:
    return failed(python, code).errors.splitlines()[-1]


def test_frames_of_a_library_are_one_line(python: Supervised) -> None:
    ended = failed(python, "import json\nprint(json.loads('{'))")
    assert ended.errors == (
        "Traceback (most recent call last):\n"
        f"  File \"{python.workspace}/main.py\", line 2, in <module>\n    print(json.loads('{{'))\n"
        "          ^^^^^^^^^^^^^^^\n"
        "  … 3 frames in json\n"
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"
    )


def test_frames_of_the_program_below_a_library_are_shown(python: Supervised) -> None:
    python.prepare({"orders.py": "import functools\ndef add(a, b):\n    return a + b\n"})
    code = "import functools, orders\nfunctools.partial(orders.add, 1)('x')\nawait None"
    errors = failed(python, code).errors
    assert f'  File "{python.workspace}/orders.py", line 3, in add\n    return a + b\n' in errors


def test_frames_between_those_of_the_program_are_summarized(python: Supervised) -> None:
    errors = failed(python, "import asyncio\nasync def main():\n    1 / 0\nasyncio.run(main())").errors
    lines = [line for line in errors.splitlines() if not line.startswith("    ")]
    assert lines == [
        "Traceback (most recent call last):",
        f'  File "{python.workspace}/main.py", line 4, in <module>',
        "  … 3 frames in asyncio",
        f'  File "{python.workspace}/main.py", line 3, in main',
        "ZeroDivisionError: division by zero",
    ]


def test_errors_of_a_group_are_shortened_too(python: Supervised) -> None:
    code = """
        import asyncio, json
        async def parse(): json.loads("{")
        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(parse())
        asyncio.run(main())
    """
    errors = failed(python, code).errors
    assert "    |   … 3 frames in json\n" in errors
    assert "decoder.py" not in errors


def test_an_error_that_a_library_raised_again_is_told_once(python: Supervised) -> None:
    python.prepare(
        {
            "site-packages/frames/__init__.py": (
                "def find():\n    raise KeyError('b')\n"
                "def get():\n    try:\n        find()\n    except KeyError as error:\n"
                "        raise KeyError('b') from error\n"
            )
        }
    )
    # What is below the workspace would be the program's own.
    code = f"""
        import os, sys
        os.rename("{python.workspace}/site-packages", "{python.workspace}-site-packages")
        os.mkdir("{python.workspace}-root")
        os.rename("{python.workspace}-site-packages", "{python.workspace}-root/site-packages")
        sys.path.append("{python.workspace}-root/site-packages")
        import frames
        frames.get()
    """
    errors = failed(python, code).errors
    assert errors.count("KeyError: 'b'") == 1
    assert "frames.get()\n  … 1 frame in frames\nKeyError: 'b'\n" in errors


def test_suggestions_of_python_are_kept(python: Supervised) -> None:
    hint = "AttributeError: 'list' object has no attribute 'appendd'. Did you mean: 'append'?"
    assert last_line(python, "[].appendd(1)") == hint


@pytest.mark.parametrize(
    ("code", "most"),
    [
        ("from servers.postgres import execute_sql\n\nprint(execute_sql(sql='SELECT * FROM orderz'))\n", 100),
        (
            "import asyncio\nfrom servers.postgres import execute_sql\nasync def main():\n"
            "    print(await asyncio.gather(execute_sql(sql='SELECT * FROM orderz')))\nasyncio.run(main())\n",
            130,
        ),
    ],
    ids=["plain", "asyncio"],
)
def test_an_error_of_a_tool_costs_few_tokens(python: Supervised, code: str, most: int) -> None:
    Workspace(python.workspace).add_tools(*TOOLS)
    with running_gateway() as gateway:
        gateway.answers(SQL_ERROR)
        errors = python.run(code, environment=gateway.environment).errors
    assert 'servers.errors.ToolError: postgres/execute_sql: ERROR: relation "orderz" does not exist' in errors
    assert O200kTokenCounter().count(errors.replace(str(python.workspace), "/workspace")) <= most


def test_an_error_is_shown_even_if_the_program_broke_what_shortens_it(python: Supervised) -> None:
    ended = failed(python, "import re, sys\nre.compile = None\nsys.modules['itertools'] = None\nraise ValueError('v')")
    assert ended.errors.endswith("ValueError: v\n")


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("import selenium.webdriver", NO_NETWORK),
        ("import psycopg2", NO_NETWORK),
        ("import urllib.request\nurllib.request.urlopen('http://nowhere.invalid')", NO_NETWORK),
        ("import jsn", "jsn is not in the sandbox, and nothing can be installed. Did you mean json? There "),
        ("import postgres", "The tools of a server are imported from servers.postgres."),
        (
            "from servers.postgers import execute_sql",
            "There is no server 'postgers'; there are: filesystem, postgres. Did you mean postgres?",
        ),
        ("import servers.github", "There is no server 'github'; there are: filesystem, postgres."),
        (
            "from servers import postgers",
            "ImportError: There is no server 'postgers'; there are: filesystem, postgres. Did you mean 'postgres'?",
        ),
        (
            "from servers.postgres import exec_sql",
            "ImportError: servers.postgres has no tool 'exec_sql'; it has: execute_sql. Did you mean 'execute_sql'?",
        ),
        (
            "from servers.postgres.query import query",
            "The server 'postgres' has no tool 'query'; it has: execute_sql.",
        ),
        (
            "open('/workspace/report.csv')",
            "The sandbox has files of its own: a file of the server 'filesystem' is read with "
            "servers.filesystem.read_text_file(path=...).",
        ),
    ],
)
def test_a_hint_says_what_to_do(python: Supervised, code: str, hint: str) -> None:
    assert last_line(python, code).startswith(hint)


@pytest.mark.parametrize(("brought", "path", "hint"), MISSING_FILES)
def test_a_missing_file_is_answered_with_those_that_are_there(
    python: Supervised, brought: dict[str, str], path: str, hint: str
) -> None:
    python.prepare(brought)
    assert last_line(python, f"open({path!r})").endswith(hint.format(python.workspace))


def test_what_is_installed_is_named_by_how_it_is_imported(python: Supervised) -> None:
    python.prepare(
        {
            "wheels/PIL/__init__.py": "",
            "wheels/pillow-1.dist-info/METADATA": "Name: pillow\n",
            "wheels/pillow-1.dist-info/top_level.txt": "PIL\n",
            "wheels/six.py": "",
            "wheels/six-1.dist-info/METADATA": "Name: six\n",
            "wheels/six-1.dist-info/top_level.txt": "six\n",
        }
    )
    code = "import sys\nsys.path[:] = ['wheels', *(path for path in sys.path if 'site-packages' not in path)]\n"
    assert last_line(python, f"{code}import scipy") == (
        "scipy is not in the sandbox, and nothing can be installed. There are: PIL."
    )


def test_a_package_is_told_by_the_name_under_which_it_is_published(python: Supervised) -> None:
    python.prepare(
        {
            "wheels/PIL/__init__.py": "",
            "wheels/pillow-1.dist-info/METADATA": "Name: pillow\n",
            "wheels/pillow-1.dist-info/top_level.txt": "PIL\n",
        }
    )
    assert last_line(python, "import sys\nsys.path.append('wheels')\nimport pillow") == "It is imported as PIL."


@pytest.mark.parametrize(
    "code",
    [
        "const rows = [1];\nconsole.log(rows);",
        "console.log(2 + 2)",
        "import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';",
        "const rows = await execute_sql({ sql: 'x' });",
        "async function main() {\n  return 1;\n}",
    ],
)
def test_typescript_sent_as_python_is_recognized(python: Supervised, code: str) -> None:
    assert last_line(python, code) == IS_TYPESCRIPT


@pytest.mark.parametrize(
    "code",
    [
        "if x\n    print('const a = 1')",
        "def f(:\n    script = 'console.log(1)'",
        "import json\nconst = 1\nlet x",
        "print(undefined)",
        "x = [1, 2",
        "print(true)",
    ],
)
def test_wrong_python_is_not_taken_for_typescript(python: Supervised, code: str) -> None:
    assert "TypeScript" not in failed(python, code).errors


@pytest.mark.parametrize(
    "code",
    [
        "import json.nothing",
        "raise KeyError('k')",
        "import subprocess\nsubprocess.run(['no-such-program'])",
        "open('servers', 'w')",
    ],
)
def test_an_error_of_unknown_cause_has_no_hint(python: Supervised, code: str) -> None:
    last = last_line(python, code)
    assert last.split(":")[0] in {"ModuleNotFoundError", "KeyError", "FileNotFoundError", "IsADirectoryError"}
