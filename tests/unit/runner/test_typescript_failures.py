"""What a TypeScript program that failed is told: a short trace, and a hint where the cause is known."""

from __future__ import annotations

import json

import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from tests.unit.client_library.gateway import running_gateway
from tests.unit.client_library.workspace import Workspace
from tests.unit.runner.missing_files import MISSING_FILES
from tests.unit.runner.supervised import Ended, Supervised
from tests.unit.runner.test_python_failures import SQL_ERROR, TOOLS

NO_NETWORK = (
    "A sandbox has no network: call a tool instead. searchTools('what it should do') from "
    "'/workspace/servers/discovery.js' finds one."
)
IS_PYTHON = 'This looks like Python: set language to "python".'
QUERY = "import { execute_sql } from './servers/postgres/execute_sql.js';\n"


def failed(typescript: Supervised, code: str) -> Ended:
    Workspace(typescript.workspace).add_tools(*TOOLS)
    ended = typescript.run(code)
    assert ended.exit_code == 1
    return ended


def last_line(typescript: Supervised, code: str) -> str:
    return failed(typescript, code).errors.splitlines()[-1]


def package(name: str, source: str, **about: object) -> dict[str, str]:
    described = {"name": name, "type": "module", "exports": "./index.js", **about}
    return {
        f"node_modules/{name}/package.json": json.dumps(described),
        f"node_modules/{name}/index.js": source,
    }


def test_frames_of_a_package_are_one_line(typescript: Supervised) -> None:
    deep = (
        "const last = () => { throw new RangeError('deep'); };\n"
        "export const first = (then) => (then ? then() : last());\n"
    )
    typescript.prepare(package("frames", deep))
    code = "import { first } from 'frames';\nfunction own() {\n  first();\n}\nfirst(own);\n"
    main = f"{typescript.workspace}/main.ts"
    assert failed(typescript, code).errors == (
        "RangeError: deep\n"
        "    … 2 frames in frames\n"
        f"    at own ({main}:3:3)\n"
        "    … 1 frame in frames\n"
        f"    at {main}:5:1\n"
    )


def test_properties_behind_a_frame_of_a_package_are_shown(typescript: Supervised) -> None:
    typescript.prepare(
        package("frames", "export const fail = () => { throw Object.assign(new Error('e'), { code: 7 }); };")
    )
    code = "import { fail } from 'frames';\nPromise.resolve().then(fail);"
    assert failed(typescript, code).errors == "Error: e\n    … 1 frame in frames {\n  code: 7\n}\n"


def test_an_error_of_a_tool_costs_few_tokens(typescript: Supervised) -> None:
    Workspace(typescript.workspace).add_tools(*TOOLS)
    code = f"{QUERY}const rows = await execute_sql({{ sql: 'SELECT * FROM orderz' }});\nconsole.log(rows);"
    with running_gateway() as gateway:
        gateway.answers(SQL_ERROR)
        errors = typescript.run(code, environment=gateway.environment).errors
    at_home = errors.replace(str(typescript.workspace), "/workspace")
    assert at_home == (
        'ToolError: postgres/execute_sql: ERROR: relation "orderz" does not exist (SQLSTATE 42P01)\n'
        "    at async /workspace/main.ts:2:14\n"
    )
    assert O200kTokenCounter().count(at_home) <= 50


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("import axios from 'axios';", NO_NETWORK),
        ("const pg = require('pg');", NO_NETWORK),
        ("await fetch('http://nowhere.invalid');", NO_NETWORK),
        (
            "import moment from 'moment';",
            "moment is not in the sandbox, and nothing can be installed. There are: @scope/some, cheerio, zod.",
        ),
        (
            "const x = require('zodd');",
            "zodd is not in the sandbox, and nothing can be installed. Did you mean 'zod'? "
            "There are: @scope/some, cheerio, zod.",
        ),
        (
            "import { execute_sql } from './servers/postgers/execute_sql.js';",
            "There is no server 'postgers'; there are: filesystem, postgres. Did you mean 'postgres'?",
        ),
        (
            "const tools = await import('./servers/github/index.js');",
            "There is no server 'github'; there are: filesystem, postgres.",
        ),
        (
            "import { exec_sql } from './servers/postgres/exec_sql.js';",
            "The server 'postgres' has no tool 'exec_sql'; it has: execute_sql. Did you mean 'execute_sql'?",
        ),
        (
            "import { exec_sql } from './servers/postgres/index.js';",
            "The server 'postgres' has no tool 'exec_sql'; it has: execute_sql. Did you mean 'execute_sql'?",
        ),
        (
            "import { execute_sql } from './servers/postgres.js';",
            "The tools of the server 'postgres' are imported from '/workspace/servers/postgres/index.js'.",
        ),
        (
            "import { execute_sql } from 'servers/postgres';",
            "Tools are imported from '/workspace/servers/SERVER/TOOL.js'; there are: filesystem, postgres.",
        ),
        (
            "import { readFileSync } from 'node:fs';\nreadFileSync('/workspace/report.csv');",
            "The sandbox has files of its own: a file of the server 'filesystem' is read with read_text_file from "
            "'/workspace/servers/filesystem/read_text_file.js'.",
        ),
    ],
)
def test_a_hint_says_what_to_do(typescript: Supervised, code: str, hint: str) -> None:
    typescript.prepare(
        {
            **package("zod", ""),
            **package("cheerio", "", dependencies={"parse5": "*"}),
            **package("parse5", ""),
            **package("@scope/some", ""),
            **package("@types/node", ""),
            **package("undici-types", ""),
        }
    )
    assert last_line(typescript, code) == hint


@pytest.mark.parametrize(("brought", "path", "hint"), MISSING_FILES)
def test_a_missing_file_is_answered_with_those_that_are_there(
    typescript: Supervised, brought: dict[str, str], path: str, hint: str
) -> None:
    typescript.prepare(brought)
    code = f"import {{ readFileSync }} from 'node:fs';\nreadFileSync('{path}');"
    assert last_line(typescript, code).endswith(hint.format(typescript.workspace))


@pytest.mark.parametrize(
    "code",
    [
        "import json\nprint(json.dumps({}))",
        "from servers.postgres import execute_sql\nrows = execute_sql(sql='x')",
        "def total(rows):\n    return sum(rows)\n",
        "print('hello')",
        "x = 5\nif x > 3:\n    print(x)",
        "for n in range(3):\n    print(n)",
    ],
)
def test_python_sent_as_typescript_is_recognized(typescript: Supervised, code: str) -> None:
    assert last_line(typescript, code) == IS_PYTHON


@pytest.mark.parametrize(
    "code",
    [
        "const a: = 1;\nconst script = `print('x')`;",
        "console.log(undefinedName);",
        "const source = `\nimport json\nprint(1)\n`;\nlet source = 1;",
        "let a = 1; let a = 2;",
    ],
)
def test_wrong_typescript_is_not_taken_for_python(typescript: Supervised, code: str) -> None:
    assert "Python" not in failed(typescript, code).errors


@pytest.mark.parametrize("code", ["import './nowhere.js';", "throw new Error('own');", "process.chdir('/nowhere');"])
def test_an_error_without_a_server_for_files_or_of_unknown_cause_has_no_hint(typescript: Supervised, code: str) -> None:
    errors = typescript.run(code).errors
    assert "sandbox" not in errors
    assert "There" not in errors


@pytest.mark.parametrize(
    ("print_it", "output"),
    [
        ("console.log(rows);", "Promise { <pending> }\n"),
        ("console.log({ rows });", "{ rows: Promise { <pending> } }\n"),
        ("console.log(`${rows}`);", "[object Promise]\n"),
        ("console.log(JSON.stringify({ rows }));", '{"rows":{}}\n'),
        ("console.log(rows); console.log(rows); process.exit();", "Promise { <pending> }\n" * 2),
    ],
)
def test_a_printed_promise_is_told_at_the_end(typescript: Supervised, print_it: str, output: str) -> None:
    ended = typescript.run(f"const rows: Promise<number> = new Promise(() => {{}});\n\n{print_it}")
    assert (ended.output, ended.errors) == (output, "A Promise was printed at main.ts:3: await it first.\n")
    assert ended.exit_code == 0


def test_a_promise_that_is_not_printed_is_not_told(typescript: Supervised) -> None:
    code = (
        "const all = [Promise.resolve(1), (async () => 2)()];\n"
        "console.log(await Promise.all(all), JSON.stringify(await all[0]), Object.keys(Promise.prototype).length);"
    )
    ended = typescript.run(code)
    assert (ended.output, ended.errors) == ("[ 1, 2 ] 1 0\n", "")


def test_the_exit_code_and_the_trace_of_a_program_that_printed_a_promise_are_its_own(typescript: Supervised) -> None:
    ended = typescript.run("console.log(Promise.resolve(1));\nthrow new Error('own');")
    assert ended.exit_code == 1
    assert ended.errors.startswith("Error: own\n")
    assert ended.errors.endswith("\nA Promise was printed at main.ts:1: await it first.\n")
