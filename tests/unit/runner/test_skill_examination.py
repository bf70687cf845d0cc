"""What is told of a skill's code, without running it, by the programs that examine it in a sandbox."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runner.checked import CHECKERS
from tests.unit.runner.supervised import RUNNER

pytestmark = pytest.mark.processes

PROGRAMS = RUNNER.parent / "skill-programs"
TOO_DEEP = "nested too deeply"
MUST_PRINT = (
    "The program must end with print(VALUE): what it prints last becomes the result. A function that takes the input "
    "must be called run: `def run(input):`."
)
MUST_NOT_EXIT = (
    "cannot stay when the program becomes a function: let every path reach the print at the end, or raise an"
)
MUST_NOT_EXIT_TS = MUST_NOT_EXIT.replace("the print", "the console.log").replace("raise an", "throw an error")
MUST_NOT_RETURN = "must not return before the print at its end, which gives the result: use if and else."
MUST_NOT_RETURN_TS = MUST_NOT_RETURN.replace("the print", "the console.log")
MUST_BE_QUIET = 'This would run whenever the skill is imported: put it under `if __name__ == "__main__":`, or, if'
MUST_LOG = (
    "The program must end with console.log(VALUE): what it prints last becomes the result. A function that takes the "
    "input must be the default export: `export default async function run(input)`."
)
# Runs what a TypeScript program was turned into, with the input that is given as JSON.
CALL = (
    "const { default: run } = await import(process.argv[1]);"
    "console.log(JSON.stringify(await run(JSON.parse(process.argv[2]))));"
)


class Examiner:
    def __init__(self, workspace: Path, node_path: str | None = None) -> None:
        self.workspace = workspace
        self._node = node_path
        self.tsc = os.environ.get("CODE_EXECUTOR_TSC") or str(CHECKERS / "typescript" / "tsc")

    def __call__(self, code: str, *parameters: str) -> dict[str, Any]:
        request = self.workspace / "request.json"
        request.write_text(json.dumps({"code": code, "parameters": list(parameters) or None}))
        program = "examine.ts" if self._node else "examine.py"
        command = [self._node or sys.executable, str(PROGRAMS / program)]
        environment = {"SKILL_REQUEST": str(request), "CODE_EXECUTOR_TSC": self.tsc}
        ended = subprocess.run(command, cwd=self.workspace, env=environment, capture_output=True, timeout=100)
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert ended.stdout.endswith(b"\n")
        assert ended.stdout.count(b"\n") == 1
        answer: dict[str, Any] = json.loads(ended.stdout)
        request.unlink()
        assert list(self.workspace.iterdir()) == []
        return answer

    def call(self, code: str, given: dict[str, Any]) -> Any:
        """Run what the examination returned."""
        if self._node is None:
            scope: dict[str, Any] = {}
            exec(compile(code, "skill", "exec", dont_inherit=True), scope)
            result = scope["run"](given)
            return asyncio.run(result) if inspect.iscoroutine(result) else result
        path = self.workspace / "skill.mts"
        path.write_text(code)
        options = ["--disable-warning=ExperimentalWarning", "--input-type=module", "-e", CALL, str(path)]
        ended = subprocess.run([self._node, *options, json.dumps(given)], capture_output=True, text=True, timeout=60)
        assert ended.stderr == ""
        path.unlink()
        return json.loads(ended.stdout)


@pytest.fixture
def python_skill(tmp_path: Path) -> Examiner:
    return Examiner(tmp_path)


@pytest.fixture
def typescript_skill(tmp_path: Path, node_path: str) -> Examiner:
    return Examiner(tmp_path, node_path)


@pytest.fixture
def typed_skill(typescript_skill: Examiner) -> Examiner:
    if not Path(typescript_skill.tsc).exists():
        pytest.skip(f"{typescript_skill.tsc} is not there: 'make image' fetches it")
    return typescript_skill


# Python: functions.

PYTHON_TYPES = '''
from __future__ import annotations
import typing as t
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NotRequired, Optional, Required, TypedDict, Union

Row = dict[str, "str | None"]

class Page(TypedDict):
    """Which part."""
    size: int  # how many rows
    # Where to begin.
    after: NotRequired[Union[str, int]]

class Input(Page, total=False):
    table: Required[Annotated[str, "The table."]]
    order: Literal["up", "down"]
    flags: tuple[bool, ...]
    pair: t.Tuple[float, str]
    within: "Input"
    rest: t.Any
    limit: Optional[int]

@dataclass
class Found:
    rows: list[Row]
    note: str = ""
    kind: ClassVar[int] = 1

async def run(given: Input) -> Found | None:
    return None
'''


def test_a_python_function_stays_as_it_is(python_skill: Examiner) -> None:
    code = "def run(anything = None):\n\treturn anything  # é\n"
    assert python_skill(code) == {
        "ok": True,
        "form": "function",
        "code": code,
        "input": None,
        "output": None,
        "defaults": {},
        "imports": [],
    }


def test_python_annotations_become_schemas(python_skill: Examiner) -> None:
    told = python_skill(PYTHON_TYPES)
    assert told["form"] == "function"
    assert told["input"] == {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "description": "how many rows"},
            "after": {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "Where to begin."},
            "table": {"type": "string", "description": "The table."},
            "order": {"type": "string", "enum": ["up", "down"]},
            "flags": {"type": "array", "items": {"type": "boolean"}},
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
            "within": {},
            "rest": {},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["size", "table"],
    }
    row = {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    found = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": row}, "note": {"type": "string"}},
        "required": ["rows"],
    }
    assert told["output"] == {"anyOf": [found, {"type": "null"}]}


def test_python_annotations_that_say_nothing_give_no_schema(python_skill: Examiner) -> None:
    told = python_skill("from typing import Any\ndef run(input: Any) -> 'not a type': ...")
    assert (told["input"], told["output"]) == (None, None)


def test_python_types_that_double_each_other_are_cut_off(python_skill: Examiner) -> None:
    aliases = "\n".join(f"A{n} = tuple[A{n + 1}, A{n + 1}]" for n in range(60))
    classes = "\n".join(f"class B{n}(B{n + 1}, B{n + 1}): ..." for n in range(60))
    told = python_skill(f"{aliases}\n{classes}\ndef run(input: A0) -> B0: ...")
    assert told["ok"]
    assert len(json.dumps(told["input"])) < 100_000


@pytest.mark.parametrize("signature", ["run()", "run(a, b)", "run(*a)", "run(a, *, b)"])
def test_a_python_function_takes_exactly_one_parameter(python_skill: Examiner, signature: str) -> None:
    problem = "Line 2: `run` must take exactly one parameter, the input: write `def run(input):`."
    assert python_skill(f"import os\ndef {signature}: ...") == {"ok": False, "problem": problem}


@pytest.mark.parametrize(
    "code",
    [
        "def run(input):\n    return 1\n\nif __name__ == '__main__':\n    print(run('a'))",
        "def run(input):\n    return 1\nDEFAULTS = run",
        "import sys\ndef run(input):\n    sys.exit(1)",
    ],
)
def test_a_python_function_may_have_anything_around_it_that_is_quiet(python_skill: Examiner, code: str) -> None:
    told = python_skill(code)
    assert (told["ok"], told.get("form"), told.get("code")) == (True, "function", code)


@pytest.mark.parametrize(
    "ending",
    [
        "print(run({'a': 1}))",
        "print(run(dict(a=1)))",
        "print(run(input={'a': 1}))",
        "example = {'a': 1}\nprint(run(example))",
        "main()",
        "import asyncio\nasyncio.run(run({}))",
        "import json\nsample = json.loads('{}')\nprint(run(sample))",
        "for each in [{}]: print(run(each))",
        "found = run({'a': 1})",
    ],
)
def test_a_python_function_is_not_called_when_it_is_imported(python_skill: Examiner, ending: str) -> None:
    code = f"def run(input):\n    return 1\n\n{ending}"
    told = python_skill(code)
    assert not told["ok"]
    assert told["problem"].startswith(f"Line {len(code.splitlines())}: {MUST_BE_QUIET}")


# Python: programs.


@pytest.mark.parametrize(
    "call", ["run('a')", "run(f'a')", "run('a' + '')", "run(x)", "run(sql='a')", "[run(each) for each in 'a'][0]"]
)
def test_a_python_program_may_call_its_helper_run(python_skill: Examiner, call: str) -> None:
    told = python_skill(f"def run(sql):\n    return sql * 2\nx = 'a'\nprint({call})", "x")
    assert (told["ok"], told.get("form")) == (True, "program"), told
    assert python_skill.call(told["code"], {}) == "aa"


@pytest.mark.parametrize("run", ["def run(a, b):", "def run(sql):"])
def test_what_is_wrong_with_a_python_program_is_told_also_beside_a_helper_run(python_skill: Examiner, run: str) -> None:
    told = python_skill(f"import sys\n{run}\n    sys.exit(1)\nprint(run('a'))")
    assert not told["ok"]
    assert told["problem"].startswith(f"Line 3: `sys.exit()` {MUST_NOT_EXIT}")


def test_a_python_program_becomes_a_function(python_skill: Examiner) -> None:
    told = python_skill(
        "import json\n"
        "from servers.postgres import execute_sql\n"
        "\n"
        "table = 'orders'\n"
        'rows = execute_sql(sql=f"select * from {table}")\n'
        "print(json.dumps(rows, indent=2))\n",
        "table",
    )
    assert told["code"] == (
        "import json\n"
        "from servers.postgres import execute_sql\n"
        "\n"
        "\n"
        "def run(input):\n"
        "    table = input.get(\"table\", 'orders')\n"
        '    rows = execute_sql(sql=f"select * from {table}")\n'
        "    return rows\n"
    )
    table = {"type": "string", "default": "orders"}
    assert told["input"] == {"type": "object", "properties": {"table": table}, "additionalProperties": False}
    assert (told["form"], told["output"], told["defaults"]) == ("program", None, {"table": "orders"})
    assert told["imports"] == [["postgres", "execute_sql"]]


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("text = '''é\n  a\nb'''\nif text:\n\tn = 1\nprint([\n  text,\n  n])  # done\n", ["é\n  a\nb", 1]),
        ("x = 1; print(x +\n1)", 2),
        ("def main() -> None:\n    print({'a': 1})\n\nif __name__ == '__main__':\n    # go\n    main()\n", {"a": 1}),
        ("if __name__ == '__main__': print('only')", "only"),
        ("if True:\n  y = 2\nif __name__ == '__main__':\n  z = '''\nx'''\n  print((y, z))\n", (2, "\nx")),
        ("import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    print(3)\nasyncio.run(main())", 3),
        ("import asyncio\nprint([await asyncio.sleep(0, n) for n in (1, 2)])", [1, 2]),
        (
            "import datetime, json\nprint(json.dumps({'d': datetime.date(2024, 1, 2)}, default=str))",
            {"d": "2024-01-02"},
        ),
        ("from json import dumps as d\nprint(d([1], ensure_ascii=False), flush=True)", [1]),
        ("import json; json = json.loads('[1]'); print(json)", [1]),
        ("def f(n):\n    return n if n < 2 else f(n - 1) + k\nk = 1\nprint(f(4))", 4),
        ("ids = [id for id in (1, 2)]\r\nprint(ids)\r\n", [1, 2]),
        ("#!/usr/bin/env python3\nprint(1)", 1),
        ("def exit(n):\n    return n\ndef f(quit):\n    return quit()\nprint(exit(1) + f(lambda: 1))", 2),
        ("import sys\nclass A:\n    def exit(self):\n        return 1\nprint(A().exit())", 1),
        ("try:\n    x = int('a')\nexcept ValueError:\n    x = 1\nif x < 0:\n    raise ValueError(x)\nprint(x)", 1),
        ("def double(n):\n    if n:\n        return n * 2\n    return 0\ndef main():\n    print(double(2))\nmain()", 4),
        ("def main():\n    def f():\n        return 1\n    g = lambda: f()\n    print(g())\nmain()", 1),
        ("from datetime import date\nclass A:\n    date: date = date(2024, 1, 2)\nprint(A.date.year)", 2024),
        ("n = 1\nclass A:\n    n = 2\n    m = n\nprint(n + A.m)", 3),
        ("n = 1\nclass A:\n    m = n\nprint(A.m)", 1),
    ],
)
def test_a_python_program_returns_what_it_printed_last(python_skill: Examiner, code: str, result: object) -> None:
    told = python_skill(code)
    assert told["ok"], told
    assert python_skill.call(told["code"], {}) == result


def test_python_parameters_are_taken_from_the_input(python_skill: Examiner) -> None:
    code = "input: list[int] = [1, -2]\nnote = (\n  'a'\n  'b'\n)\nnothing = None\nprint([input, note, nothing])"
    told = python_skill(code, "input", "note", "nothing")
    assert told["defaults"] == {"input": [1, -2], "note": "ab", "nothing": None}
    assert told["input"]["properties"] == {
        "input": {"type": "array", "items": {"type": "integer"}, "default": [1, -2]},
        "note": {"type": "string", "default": "ab"},
        "nothing": {"default": None},
    }
    assert python_skill.call(told["code"], {}) == [[1, -2], "ab", None]
    assert python_skill.call(told["code"], {"input": [3], "note": "c", "nothing": 4}) == [[3], "c", 4]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print(1)", "`x` must be a variable that the program assigns at its top level."),
        ("for x in ():\n  pass\nprint(1)", "Line 1: `x` must be a variable that the program assigns at its top level."),
        ("x = 1\nx += 1\nprint(x)", "Line 2: `x` must be assigned only once, to be a parameter."),
        ("x = 1\nif x:\n  x = 2\nprint(x)", "Line 3: `x` must be assigned only once, to be a parameter."),
        ("x = print()\nprint(x)", "Line 1: `x` must be assigned a literal, to be a parameter"),
        ("x = {1: 2}\nprint(x)", "Line 1: `x` must be assigned a literal, to be a parameter"),
        ("x = 1e999\nprint(x)", "Line 1: `x` must be assigned a literal, to be a parameter"),
    ],
)
def test_a_python_parameter_is_a_variable_with_a_literal(python_skill: Examiner, code: str, problem: str) -> None:
    told = python_skill(code, "x")
    assert not told["ok"]
    assert told["problem"].startswith(problem)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("", MUST_PRINT),
        ("x = 1\n", f"Line 1: {MUST_PRINT}"),
        ("print(1, 2)", f"Line 1: {MUST_PRINT} Print exactly one value."),
        ("def main():\n    return 1\nmain()", f"Line 2: {MUST_PRINT} So must `main`, which it calls."),
        ("def f():\n    global x\n    x = 1\nprint(1)", "Line 2: `global x` cannot stay when"),
        ("sum = sum([1])\nprint(sum)", "Line 1: `sum` is built in: give"),
        ("import sys\nif 1:\n  sys.exit(1)\nprint(1)", f"Line 3: `sys.exit()` {MUST_NOT_EXIT}"),
        ("import sys as s\ndef f():\n  s.exit()\nprint(1)", f"Line 3: `s.exit()` {MUST_NOT_EXIT}"),
        ("from sys import exit as end\nend()\nprint(1)", f"Line 2: `end()` {MUST_NOT_EXIT}"),
        ("from sys import exit\nexit()\nprint(1)", f"Line 2: `exit()` {MUST_NOT_EXIT}"),
        ("import os\nos._exit(0)\nprint(1)", f"Line 2: `os._exit()` {MUST_NOT_EXIT}"),
        ("import os.path\nos._exit(0)\nprint(1)", f"Line 2: `os._exit()` {MUST_NOT_EXIT}"),
        ("exit(1)\nprint(1)", f"Line 1: `exit()` {MUST_NOT_EXIT}"),
        ("try:\n  x = 1\nexcept OSError:\n  quit()\nprint(1)", f"Line 4: `quit()` {MUST_NOT_EXIT}"),
        ("if 0:\n  raise SystemExit\nprint(1)", f"Line 2: `raise SystemExit` {MUST_NOT_EXIT}"),
        ("if 0:\n  raise SystemExit('no')\nprint(1)", f"Line 2: `raise SystemExit` {MUST_NOT_EXIT}"),
        (
            "def main():\n  if 1:\n    print(0)\n    return\n  print(1)\n\nif __name__ == '__main__':\n  main()",
            f"Line 4: `main` {MUST_NOT_RETURN}",
        ),
        (
            "import asyncio\nasync def go():\n  for x in (1,):\n    return x\n  print(1)\nasyncio.run(go())",
            f"Line 4: `go` {MUST_NOT_RETURN}",
        ),
        ("n = 1\nclass A:\n  n = n\nprint(1)", "Line 3: `n` names a class attribute and a variable"),
        ("n = 1\nclass A:\n  m = n\n  n: int = 2\nprint(1)", "Line 3: `n` names a class attribute and a variable"),
        ("return 1\nprint(1)", "Line 1: The code must be valid Python, but has a syntax error: 'return' outside"),
        ("if __name__ == '__main__':\n  x = 1\nprint(1)", 'Line 1: `if __name__ == "__main__":` must be last'),
        ("x = 1\nfrom os import *\nprint(1)", "The program cannot be turned into a function: import * only"),
    ],
)
def test_what_keeps_a_python_program_from_being_a_function_is_told(
    python_skill: Examiner, code: str, problem: str
) -> None:
    told = python_skill(code)
    assert not told["ok"]
    assert told["problem"].startswith(problem)


def test_python_imports_of_tools_and_skills_are_told(python_skill: Examiner) -> None:
    code = (
        "import servers.a\nimport servers.b.one\nimport servers.c as c\nimport json\n"
        "from servers import d, e as f, discovery\nfrom servers.g import two as _two, _hidden\n"
        "from servers.h.three import ThreeInput\nfrom servers.errors import ToolError\nfrom servers.i import *\n"
        "from skills import other\nfrom skills.another import another\n"
        "def run(input):\n"
        "    from servers.j import four\n"
        "    return c.five(), f.six().seven, servers.a.eight, four.__name__, other.name, discovery.search_tools\n"
    )
    assert sorted(map(tuple, python_skill(code)["imports"]), key=str) == [
        ("a", "eight"),
        ("b", "one"),
        ("c", "five"),
        ("d", None),
        ("e", "six"),
        ("g", "two"),
        ("h", "three"),
        ("i", None),
        ("j", "four"),
        ("skills", "another"),
        ("skills", "other"),
    ]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("(" * 60_000, TOO_DEEP),
        ("[" * 65_536, TOO_DEEP),
        ("-" * 65_000 + "1", TOO_DEEP),
        ("a" + ".b" * 32_000 + "\nprint(1)", TOO_DEEP),
        ("x = " + "+".join("1" * 30_000) + "\nprint(x)", TOO_DEEP),
        ("\n".join(" " * depth + "if 1:" for depth in range(120)), "syntax error"),
        ("x = 'abc", "Line 1: The code must be valid Python, but has a syntax error: unterminated string"),
        ("a\0b", "null bytes"),
        ("'\ud800'", "unpaired surrogates"),
    ],
)
def test_hostile_python_is_only_read(python_skill: Examiner, code: str, problem: str) -> None:
    told = python_skill(code)
    assert not told["ok"]
    assert problem in told["problem"]


def test_python_is_never_run(python_skill: Examiner) -> None:
    mark = python_skill.workspace.parent / f"{python_skill.workspace.name}-mark"
    code = f"from pathlib import Path\nx: Path({str(mark)!r}).touch() = 1\nprint(Path({str(mark)!r}).touch())"
    assert python_skill(code)["ok"]
    assert not mark.exists()


# TypeScript: functions.


@pytest.mark.parametrize(
    "code",
    [
        "export default function run(input) { return input; }",
        "export default async (input) => input;",
        "const run = async (input) => input;\nexport default run;",
        "async function run(input) { return 1; }\nexport default run;",
        "function run(input) { return 1; }\nexport { run as default };",
        "enum Level { Low }\nexport default (input) => Level.Low;",
    ],
)
def test_a_typescript_function_stays_as_it_is(typescript_skill: Examiner, code: str) -> None:
    told = typescript_skill(code)
    assert (told["ok"], told["form"], told["code"], told["input"]) == (True, "function", code, None)


def test_an_exported_run_becomes_the_default(typescript_skill: Examiner) -> None:
    code = "export async function run(input) { return 1; }"
    assert typescript_skill(code)["code"] == f"{code}\nexport default run;"


@pytest.mark.parametrize(
    "code", ["export default { a: 1 };", "const run = 1;\nexport default run;", "export default f();"]
)
def test_a_default_that_is_no_function_is_told(typescript_skill: Examiner, code: str) -> None:
    told = typescript_skill(code)
    assert not told["ok"]
    assert "`export default` must be a function." in told["problem"]


TYPESCRIPT_TYPES = """
import type { Elsewhere } from './nowhere.js';
interface Page {
  /** How many rows. */
  size: number;
  after?: string | number;
}
interface Input extends Page {
  table: 'orders' | "customers" | null;
  readonly flags: readonly boolean[];
  pair: [number, string?];
  within?: Input;
  at: Date;
  byName: Record<string, number>;
  byKey: { [key: string]: Partial<Page> };
  elsewhere: Elsewhere;
  mapped: { [K in 'a']: 1 };
  either: (string | { a: true | false })[];
  both: { a: 1 } & { b?: 2 };
  call(): void;
}
export default async function run({ table, ...rest }: Input) {
  return { rows: [{ id: 1, name: 'a' as string | null }], length: 2, at: new Date() };
}
"""


def test_typescript_types_become_schemas(typed_skill: Examiner) -> None:
    told = typed_skill(TYPESCRIPT_TYPES)
    page = {
        "size": {"type": "number", "description": "How many rows."},
        "after": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    }
    a_or_text = [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}]
    properties = {
        **page,
        "table": {"anyOf": [{"type": "string", "enum": ["orders", "customers"]}, {"type": "null"}]},
        "flags": {"type": "array", "items": {"type": "boolean"}},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "number"}, {"type": "string"}],
            "minItems": 1,
            "maxItems": 2,
        },
        "within": {},
        "at": {"type": "string", "format": "date-time"},
        "byName": {"type": "object", "additionalProperties": {"type": "number"}},
        "byKey": {"type": "object", "additionalProperties": {"type": "object", "properties": page}},
        "elsewhere": {},
        "mapped": {},
        "either": {"type": "array", "items": {"anyOf": a_or_text}},
        "both": {
            "type": "object",
            "properties": {"a": {"type": "number", "enum": [1]}, "b": {"type": "number", "enum": [2]}},
            "required": ["a"],
        },
    }
    assert told["input"]["properties"] == properties
    assert told["input"]["required"] == [
        *("size", "table", "flags", "pair", "at", "byName", "byKey", "elsewhere", "mapped", "either", "both"),
    ]
    row = {"id": {"type": "number"}, "name": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    assert told["output"]["properties"] == {
        "rows": {"type": "array", "items": {"type": "object", "properties": row, "required": ["id", "name"]}},
        "length": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
    }


def test_a_part_of_a_typescript_result_that_may_be_undefined_is_not_required(typed_skill: Examiner) -> None:
    row = "{ id: number; value: any; raw: unknown; by: Record<'a', any> }"
    told = typed_skill(f"export default (input: {row}): Promise<{{ rows: {row}[]; all: any }}> => input as any;")
    by: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
    schema = {"type": "object", "properties": {"id": {"type": "number"}, "value": {}, "raw": {}, "by": by}}
    rows = {"type": "array", "items": {**schema, "required": ["id", "by"]}}
    assert told["output"] == {"type": "object", "properties": {"rows": rows, "all": {}}, "required": ["rows"]}
    assert told["input"]["required"] == ["id", "value", "raw", "by"]
    assert told["input"]["properties"]["by"]["required"] == ["a"]


@pytest.mark.parametrize(
    "code",
    [
        "type M = number | undefined;\nexport default (input: any): { x: M } => input;",
        "export default (input: any): Record<'x', number | undefined> => input;",
        "export default (input: any): Required<{ x?: any }> => input;",
    ],
)
def test_what_may_be_undefined_in_typescript_is_seen_through_other_types(typed_skill: Examiner, code: str) -> None:
    assert "required" not in typed_skill(code)["output"]


@pytest.mark.parametrize(
    "code",
    [
        "export default function run(input: unknown): void {}",
        "export default async (input: any): Promise<undefined> => {};",
        "export default (...inputs: string[]): any => 1;",
    ],
)
def test_typescript_types_that_say_nothing_give_no_schema(typed_skill: Examiner, code: str) -> None:
    told = typed_skill(code)
    assert (told["ok"], told["input"], told["output"]) == (True, None, None)


def test_without_the_compiler_there_are_no_types(typescript_skill: Examiner) -> None:
    typescript_skill.tsc = "/nowhere/tsc"
    told = typescript_skill(TYPESCRIPT_TYPES)
    assert (told["ok"], told["input"], told["output"]) == (True, None, None)


def test_typescript_types_that_double_each_other_are_cut_off(typed_skill: Examiner) -> None:
    aliases = "\n".join(f"type A{n} = [A{n + 1}, A{n + 1}];" for n in range(60))
    told = typed_skill(f"{aliases}\nexport default (input: A0) => 1;")
    assert told["ok"]
    assert len(json.dumps(told["input"])) < 100_000


# TypeScript: programs.


def test_a_typescript_program_becomes_a_function(typescript_skill: Examiner) -> None:
    told = typescript_skill(
        "// Orders.\n"
        "import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';\n"
        "import type { Row } from './rows.js';\n"
        "\n"
        "export const table: string = 'orders';\n"
        "export type Rows = Row[];\n"
        "const rows = (await execute_sql({ sql: `select 'é' from ${table}` })) as Rows;\n"
        "console.log(JSON.stringify(rows as Rows, null, 2)); // all\n",
        "table",
    )
    assert told["code"] == (
        "// Orders.\n"
        "import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';\n"
        "import type { Row } from './rows.js';\n"
        "\n"
        "export default async function run(input: { table?: string }) {\n"
        "const table: string = input.table !== undefined ? input.table : 'orders';\n"
        "type Rows = Row[];\n"
        "const rows = (await execute_sql({ sql: `select 'é' from ${table}` })) as Rows;\n"
        "return rows as Rows; // all\n"
        "}\n"
    )
    table = {"type": "string", "default": "orders"}
    assert told["input"] == {"type": "object", "properties": {"table": table}, "additionalProperties": False}
    assert (told["form"], told["output"], told["defaults"]) == ("program", None, {"table": "orders"})
    assert told["imports"] == [["postgres", "execute_sql"]]


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("const text: '😀é' = `😀é`;\nconsole.log([text, 1 as number]);;\n", ["😀é", 1]),
        ("async function main(): Promise<void> {\n  console.log({ a: 1 });\n}\nmain().catch(console.error);", {"a": 1}),
        ("const main = async (): Promise<void> => { console.log('a'); };\nawait main();", "a"),
        ("(async () => {\n  console.log(\n    // what\n    [1],\n  );\n})();", [1]),
        ("console.log(JSON.stringify({ a: 1, b: 2 }, ['a']))", {"a": 1}),
        (
            "interface A { x: number }\nexport interface B extends A {}\nexport { basename };\n"
            "console.log(basename('/a/b'));\n"
            "import { basename } from 'node:path';",
            "b",
        ),
        (
            "import { resolve as run } from 'node:path';\nconst input: string = '/a/../b';\nconsole.log(run(input));",
            "/b",
        ),
        ("#!/usr/bin/env node\nconsole.log(1);", 1),
        ("#!/usr/bin/env node\nimport { basename } from 'node:path';\nconsole.log(basename('/a/b'));", "b"),
        ("console.log(\n  [1], // one, two\n);", [1]),
        ("console.log(\n  // (a, b\n  ([1] as number[]) /* c, */, /* d, */\n  // e, f\n);", [1]),
        ("console.log /* ( */ (JSON.stringify([1] /* a, b */, /* c, */ null, 2));", [1]),
        ("const main = async () => { console.log(1); };\nmain().catch((e) => { throw e; process.exit(1); });", 1),
        ("(async function () { console.log(1); })().catch(() => process.exit(1));", 1),
        ("const exit = (n: number) => n;\nconst on = { exit };\nconsole.log(exit(1) + on.exit(1));", 2),
        ("process.exitCode = 0;\nconsole.log(1);", 1),
        (
            "function main() {\n"
            "  const one = () => { return 1; };\n"
            "  class A { two() { return 2; } get three() { return 3; } }\n"
            "  const a = new A();\n"
            "  console.log([one(), a.two(), a.three]);\n"
            "}\n"
            "main();",
            [1, 2, 3],
        ),
    ],
)
def test_a_typescript_program_returns_what_it_printed_last(
    typescript_skill: Examiner, code: str, result: object
) -> None:
    told = typescript_skill(code)
    assert told["ok"], told
    assert typescript_skill.call(told["code"], {}) == result


def test_typescript_parameters_are_taken_from_the_input(typescript_skill: Examiner) -> None:
    code = (
        "type Kind = 'a' | 'b';\n"
        "const input = ['x'], kind: Kind = 'a', limit: number | null = -1;\n"
        "let options = { 'deep': [null, { a: true }] } as const;\n"
        "console.log([input, kind, limit, options]);\n"
    )
    told = typescript_skill(code, "input", "kind", "limit", "options")
    defaults = {"input": ["x"], "kind": "a", "limit": -1, "options": {"deep": [None, {"a": True}]}}
    assert told["defaults"] == defaults
    assert told["input"]["properties"] == {
        "input": {"type": "array", "items": {"type": "string"}, "default": ["x"]},
        "kind": {"type": "string", "default": "a"},
        "limit": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": -1},
        "options": {"type": "object", "default": defaults["options"]},
    }
    signature = "{ input?: string[]; kind?: any; limit?: number | null; options?: Record<string, any> }"
    assert f"export default async function run(input_: {signature}) {{" in told["code"]
    assert typescript_skill.call(told["code"], {}) == list(defaults.values())
    assert typescript_skill.call(told["code"], {"input": [], "kind": "b", "options": 1}) == [[], "b", -1, 1]
    assert typescript_skill.call(told["code"], {"limit": None}) == [["x"], "a", None, defaults["options"]]


def test_a_typescript_parameter_keeps_its_type(typed_skill: Examiner) -> None:
    code = (
        "const limit: number | null = 10, name = 'a', pair = ['a', 'b'] as const, either = (true);\n"
        "const both: [number | null, string] = [limit, name];\n"
        "console.log([...both, pair.length, either]);\n"
    )
    told = typed_skill(code, "limit", "name", "pair", "either")
    path = typed_skill.workspace / "skill.ts"
    path.write_text(told["code"])
    options = ["--ignoreConfig", "--noEmit", "--strict", "--target", "esnext", "--module", "esnext", "--types", ""]
    checked = subprocess.run([typed_skill.tsc, *options, str(path)], capture_output=True, text=True, timeout=60)
    path.unlink()
    assert (checked.stdout, checked.returncode) == ("", 0)
    given = {"limit": None, "name": "", "pair": [], "either": False}
    assert typed_skill.call(told["code"], given) == [None, "", 0, False]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("console.log(1);", "`x` must be a variable that the program assigns at its top level."),
        (
            "let x: number;\nconsole.log(1);",
            "Line 1: `x` must be a variable that the program assigns at its top level.",
        ),
        ("let x = 1;\n[x] = [2];\nconsole.log(x);", "Line 2: `x` must be assigned only once, to be a parameter."),
        ("const x = f();\nconsole.log(x);", "Line 1: `x` must be assigned a literal, to be a parameter"),
        ("const x = { ...y };\nconsole.log(x);", "Line 1: `x` must be assigned a literal, to be a parameter"),
        ("const x = 1n;\nconsole.log(x);", "Line 1: `x` must be assigned a literal, to be a parameter"),
    ],
)
def test_a_typescript_parameter_is_a_variable_with_a_literal(
    typescript_skill: Examiner, code: str, problem: str
) -> None:
    told = typescript_skill(code, "x")
    assert not told["ok"]
    assert told["problem"].startswith(problem)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("", MUST_LOG),
        ("const x = 1;\nf(x);", f"Line 2: {MUST_LOG}"),
        ("console.log(1, 2);", f"Line 1: {MUST_LOG} Print exactly one value."),
        ("function main() { return 1; }\nmain();", f"Line 1: {MUST_LOG} So must the function that it calls last."),
        ("enum A { x }\nconsole.log(A.x);", "Line 1: A program with an enum, a namespace,"),
        ("export default function* (input) { yield 1; }", "Line 1: The function must return its result"),
        ("export default (a, b) => 1;", "Line 1: The function must take exactly one parameter, the input."),
        ("const a = 1;\nlet let = 2;", "Line 2: The code must be valid TypeScript, but has a syntax error:"),
        ("if (1) {\n  process.exit(1);\n}\nconsole.log(1);", f"Line 2: `process.exit()` {MUST_NOT_EXIT_TS}"),
        ("const { exit } = process;\nexit(1);\nconsole.log(1);", f"Line 2: `exit()` {MUST_NOT_EXIT_TS}"),
        ("if (0) process.abort();\nconsole.log(1);", f"Line 1: `process.abort()` {MUST_NOT_EXIT_TS}"),
        ("const a = () =>\n  process['exit']();\nconsole.log(1);", f"Line 2: `process.exit()` {MUST_NOT_EXIT_TS}"),
        (
            "import { exit as end } from 'node:process';\nend();\nconsole.log(1);",
            f"Line 2: `end()` {MUST_NOT_EXIT_TS}",
        ),
        ("import p from 'process';\np.exit();\nconsole.log(1);", f"Line 2: `p.exit()` {MUST_NOT_EXIT_TS}"),
        (
            "async function main() {\n  await f().catch(() =>\n    process.exit(1));\n  console.log(1);\n}\nmain();",
            f"Line 3: `process.exit()` {MUST_NOT_EXIT_TS}",
        ),
        (
            "async function main() {\n  if (1)\n    return;\n  console.log(1);\n}\nawait main();",
            f"Line 3: `main` {MUST_NOT_RETURN_TS}",
        ),
        (
            "const main = () => {\n  for (const n of [1]) { return n; }\n  console.log(1);\n};\nmain();",
            f"Line 2: `main` {MUST_NOT_RETURN_TS}",
        ),
        (
            "(async () => {\n  try { return; } finally {}\n  console.log(1);\n})();",
            f"Line 2: The function that the program calls last {MUST_NOT_RETURN_TS}",
        ),
        ("const a = 1;\nreturn 2;\nconsole.log(a);", "Line 2: The code must be valid TypeScript, but has a syntax"),
    ],
)
def test_what_keeps_typescript_from_being_a_skill_is_told(typescript_skill: Examiner, code: str, problem: str) -> None:
    told = typescript_skill(code)
    assert not told["ok"]
    assert told["problem"].startswith(problem)


def test_typescript_imports_of_tools_and_skills_are_told(typescript_skill: Examiner) -> None:
    code = (
        "import { one, type OneInput, two as three } from '/workspace/servers/a/index.js';\n"
        "import { anything } from './servers/b/four.js';\n"
        "import * as c from '../servers/c/index.js';\n"
        "import type { Unused } from '/workspace/servers/unused/index.js';\n"
        "import * as d from '/workspace/servers/d/index.ts';\n"
        "import { searchTools } from '/workspace/servers/discovery.js';\n"
        "import { other } from '/workspace/skills/other.js';\n"
        "import { another } from '/workspace/skills/index.js';\n"
        "import fs from 'node:fs';\n"
        "export default async (input) => {\n"
        "  const { five } = await import('/workspace/servers/e/index.js');\n"
        "  const f = await import(`./servers/f/index.js`);\n"
        "  const six = (await import('/workspace/servers/g/index.js')).six;\n"
        "  import('/workspace/servers/h/seven.js');\n"
        "  return [c.eight(), c['nine'], f.ten(), import(input)];\n"
        "};\n"
    )
    assert sorted(map(tuple, typescript_skill(code)["imports"]), key=str) == [
        ("a", "one"),
        ("a", "two"),
        ("b", "four"),
        ("c", "eight"),
        ("c", "nine"),
        ("d", None),
        ("e", "five"),
        ("f", "ten"),
        ("g", "six"),
        ("h", "seven"),
        ("skills", "another"),
        ("skills", "other"),
    ]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("(" * 60_000, TOO_DEEP),
        ("[" * 65_536, TOO_DEEP),
        ("a" + ".b" * 32_000 + ";console.log(1)", TOO_DEEP),
        ("if(1)" * 12_000 + ";", TOO_DEEP),
        ("let x: " + "[" * 60_000, TOO_DEEP),
        ("let x = 'abc", "Line 1: The code must be valid TypeScript, but has a syntax error: Unterminated string"),
        ("\0", "syntax error"),
        ("'\ud800", "syntax error"),
    ],
)
def test_hostile_typescript_is_only_read(typescript_skill: Examiner, code: str, problem: str) -> None:
    told = typescript_skill(code)
    assert not told["ok"]
    assert problem in told["problem"]


def test_typescript_is_never_run(typescript_skill: Examiner) -> None:
    mark = typescript_skill.workspace.parent / f"{typescript_skill.workspace.name}-mark"
    code = f"import {{ writeFileSync }} from 'node:fs';\nwriteFileSync('{mark}', '');\nexport default (input: 1) => 1;"
    assert typescript_skill(code)["ok"]
    assert not mark.exists()
