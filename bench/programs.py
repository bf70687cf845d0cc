"""What the contestants run. Each program knows what it must print, so that a fast failure is no success."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OUTPUT_LIMIT = 100 * 1024


class Language(StrEnum):
    TYPESCRIPT = "typescript"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    title: str
    language: Language
    code: str
    begins: str
    least_characters: int
    javascript: str = ""  # the same for a contestant that knows no TypeScript
    tool_calls: int = 0
    packages: bool = False  # it imports what only the runner image brings

    def accepts(self, output: str) -> bool:
        return output.startswith(self.begins) and len(output) >= self.least_characters

    @property
    def suffix(self) -> str:
        return ".ts" if self.language is Language.TYPESCRIPT else ".py"


HELLO_TYPESCRIPT = Program(
    "hello-typescript",
    "hello, TypeScript",
    Language.TYPESCRIPT,
    "const answer: number = 2 + 2;\nconsole.log(`hello ${answer}`);\n",
    "hello 4\n",
    8,
    javascript="const answer = 2 + 2;\nconsole.log(`hello ${answer}`);\n",
)
HELLO_PYTHON = Program("hello-python", "hello, Python", Language.PYTHON, "print(f'hello {2 + 2}')\n", "hello 4\n", 8)
OUTPUT_100_KB = Program(
    "output-100k",
    "100 KB of output",
    Language.PYTHON,
    "for line in range(1024):\n    print('x' * 99)\n",
    "x" * 99 + "\n",
    1024 * 100,
)
FLOOD_10_MB = Program(
    "flood-10m",
    "10 MB of output",
    Language.PYTHON,
    "for line in range(10 * 1024):\n    print('x' * 1023)\n",
    "x" * 1023 + "\n",
    OUTPUT_LIMIT,  # ours stops the program there; the others carry all of it
)

IMPORT_PANDAS = Program(
    "import-pandas",
    "`import pandas`, Python",
    Language.PYTHON,
    "import pandas\nprint('rows', len(pandas.DataFrame({'a': [1, 2]})))\n",
    "rows 2\n",
    7,
    packages=True,
)
IMPORT_ZOD = Program(
    "import-zod",
    "`import` of zod, TypeScript",
    Language.TYPESCRIPT,
    "import { z } from 'zod';\nconsole.log('parsed', z.object({ a: z.number() }).parse({ a: 2 }).a);\n",
    "parsed 2\n",
    9,
    packages=True,
)


def _tool_program(calls: int) -> Program:
    code = "import { read_graph } from '/workspace/servers/memory/index.js';\n"
    code += "const graph: any = await read_graph({});\n"
    code += "await read_graph({});\n" * (calls - 1)
    code += "console.log('entities', graph.entities.length);\n"
    title = "one tool call" if calls == 1 else f"{calls} tool calls"
    return Program(f"tools-{calls}", title, Language.TYPESCRIPT, code, "entities ", 10, tool_calls=calls)


ONE_TOOL_CALL, TWO_TOOL_CALLS = _tool_program(1), _tool_program(2)
ONE_TOOL_CALL_PYTHON = Program(
    "tools-1-python",
    "one tool call",
    Language.PYTHON,
    "from servers.memory import read_graph\ngraph = read_graph()\nprint('entities', len(graph['entities']))\n",
    "entities ",
    10,
    tool_calls=1,
)


def timed_tool_calls(calls: int) -> str:
    """Prints how many milliseconds each call took, as the program sees it."""
    return f"""
import {{ read_graph }} from '/workspace/servers/memory/index.js';
await read_graph({{}});
const taken: number[] = [];
for (let call = 0; call < {calls}; call++) {{
    const began = performance.now();
    await read_graph({{}});
    taken.push(performance.now() - began);
}}
console.log(JSON.stringify(taken));
"""
