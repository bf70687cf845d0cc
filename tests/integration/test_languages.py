"""What a program may rely on, seen from outside."""

from base64 import b64decode
from textwrap import dedent

import pytest

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OK = ("completed", 0, "")
LANGUAGES = ["python", "typescript"]


def ending(result):
    return result["outcome"], result["exitCode"], result["stderr"]


async def test_python_prints_and_completes(api):
    result = await api.python("print(2 + 2)")
    assert (*ending(result), result["output"]) == (*OK, "4\n")


async def test_typescript_prints_and_completes(api):
    result = await api.typescript("const n: number = 2; console.log(n + n)")
    assert (*ending(result), result["output"]) == (*OK, "4\n")


async def test_typescript_is_the_default_language(api):
    status, result = await api.post("/execute", {"code": "console.log((1 as number) + 1)"})
    assert (status, result["output"]) == (200, "2\n")


# --- TypeScript ---


async def run_typescript(api, code):
    result = await api.typescript(code)
    assert ending(result) == OK, result
    return result["output"]


async def test_typescript_awaits_at_the_top_level(api):
    code = (
        "const value = await new Promise<string>((done) => setTimeout(() => done('awaited'), 5)); console.log(value);"
    )
    assert await run_typescript(api, code) == "awaited\n"


async def test_typescript_in_the_classic_async_wrapper_runs(api):
    code = "(async () => { await null; console.log('classic'); })();"
    assert await run_typescript(api, code) == "classic\n"


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("enum Colour { Red = 1, Green } console.log(Colour.Green, Colour[1])", "2 Red\n"),
        ("namespace Shapes { export const sides = 4 } console.log(Shapes.sides)", "4\n"),
        ("class P { constructor(public x: number) {} } console.log(new P(7).x)", "7\n"),
        ("interface A { a: 1 } type B = A | null; let b: B = { a: 1 }; console.log(b!.a satisfies 1)", "1\n"),
        (
            "function f<T extends object>(x: T): keyof T { return Object.keys(x)[0] as any } console.log(f({k: 1}))",
            "k\n",
        ),
    ],
    ids=["enum", "namespace", "parameter property", "erased types", "generics"],
)
async def test_typescript_syntax_beyond_javascript_works(api, code, output):
    assert await run_typescript(api, code) == output


async def test_typescript_is_an_es_module(api):
    assert await run_typescript(api, "console.log(typeof import.meta.url, this === undefined)") == "string true\n"


async def test_import_dynamic_import_and_require_all_work(api):
    code = """
        import { join } from 'node:path';
        const { basename } = await import('node:path');
        const { dirname } = require('node:path');
        console.log(join('a', 'b'), basename('/c/d'), dirname('/e/f'));
    """
    assert await run_typescript(api, code) == "a/b d /e\n"


WRITE_MODULES = """
    import { mkdirSync, writeFileSync } from 'node:fs';
    mkdirSync('/workspace/lib', { recursive: true });
    writeFileSync('/workspace/lib/one.ts', `
        import { two } from './two.js';
        export enum One { Value = 1 }
        export const sum: number = One.Value + two;
    `);
    writeFileSync('/workspace/lib/two.ts', 'export const two: number = 2;');
"""


@pytest.mark.parametrize(
    "use",
    [
        "const { sum } = await import('./lib/one.js');",
        "const { sum } = await import('/workspace/lib/one.js');",
        "const { sum } = require('./lib/one.js');",
        "const { sum } = await import('./lib/one.ts');",
    ],
    ids=["relative", "absolute", "require", "with its own suffix"],
)
async def test_a_js_import_finds_the_typescript_file_in_the_workspace(api, use):
    assert await run_typescript(api, f"{WRITE_MODULES}\n{use}\nconsole.log(sum);") == "3\n"


async def test_a_real_js_file_wins_over_the_typescript_file(api):
    code = """
        import { writeFileSync } from 'node:fs';
        writeFileSync('/workspace/both.js', 'export default "js";');
        writeFileSync('/workspace/both.ts', 'export default "ts";');
        console.log((await import('./both.js')).default);
    """
    assert await run_typescript(api, code) == "js\n"


async def test_an_import_of_nothing_fails_with_its_name(api):
    result = await api.typescript("await import('./missing.js');")
    assert (result["outcome"], result["exitCode"]) == ("failed", 1)
    assert "missing.js" in result["stderr"]


@pytest.mark.parametrize(
    "prefix", ["const x: number = 1;", "enum E { A }"], ids=["types stripped", "syntax transformed"]
)
async def test_an_uncaught_typescript_error_points_at_the_users_own_line(api, prefix):
    result = await api.typescript(
        f"{prefix}\n\nfunction broken(): never {{\n  throw new Error('pointed');\n}}\nbroken();\n"
    )
    assert (result["outcome"], result["exitCode"], result["output"]) == ("failed", 1, "")
    assert "Error: pointed" in result["stderr"]
    assert "/workspace/main.ts:4" in result["stderr"]
    assert "/workspace/main.ts:6" in result["stderr"]
    assert "/opt/runner" not in result["stderr"]
    assert "node:internal" not in result["stderr"]


@pytest.mark.parametrize(
    "code",
    ["setTimeout(() => { throw new Error('late') }, 1)", "Promise.reject(new Error('late'))"],
    ids=["timer", "rejection"],
)
async def test_a_late_typescript_error_also_ends_with_exit_code_1(api, code):
    result = await api.typescript(f"\n{code}\n")
    assert (result["outcome"], result["exitCode"]) == ("failed", 1)
    assert "Error: late" in result["stderr"]
    assert "/workspace/main.ts:2" in result["stderr"]


async def test_a_typescript_syntax_error_names_line_and_column(api):
    result = await api.typescript("const a = 1;\nconst b: = 2;\n")
    assert (result["outcome"], result["exitCode"]) == ("failed", 1)
    assert "main.ts:2:" in result["stderr"]
    assert "const b: = 2;" in result["stderr"]


async def test_process_exit_keeps_its_code_and_all_output(api):
    result = await api.typescript("console.log('x'.repeat(90_000)); process.exit(7)")
    assert (result["outcome"], result["exitCode"], result["outputBytes"]) == ("failed", 7, 90_001)


async def test_a_top_level_await_that_never_settles_is_said(api):
    result = await api.typescript("await new Promise(() => {})")
    assert (result["outcome"], result["exitCode"]) == ("failed", 13)
    assert "await" in result["stderr"]


# --- Python ---


async def run_python(api, code):
    result = await api.python(code)
    assert ending(result) == OK, result
    return result["output"]


async def test_python_awaits_at_the_top_level(api):
    code = "import asyncio\nvalue = await asyncio.sleep(0.001, 'awaited')\nprint(value)"
    assert await run_python(api, code) == "awaited\n"


async def test_python_runs_as_main(api):
    code = """
import dataclasses, pickle, sys
@dataclasses.dataclass
class Point:
    x: int
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Point(3))).x, sys.argv, __file__)
"""
    assert await run_python(api, code) == "3 ['main.py'] /workspace/main.py\n"


async def test_python_imports_modules_from_the_workspace(api):
    code = "open('/workspace/mine.py', 'w').write('value = 5')\nimport mine\nprint(mine.value)"
    assert await run_python(api, code) == "5\n"


@pytest.mark.parametrize("prefix", ["", "import asyncio; await asyncio.sleep(0)"], ids=["plain", "with await"])
async def test_a_python_traceback_points_at_the_users_own_line(api, prefix):
    result = await api.python(f"{prefix}\ndef broken():\n    return {{}}['pointed']\n\nbroken()\n")
    assert (result["outcome"], result["exitCode"], result["output"]) == ("failed", 1, "")
    lines = result["stderr"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == '  File "/workspace/main.py", line 5, in <module>'
    assert '  File "/workspace/main.py", line 3, in broken' in lines
    assert lines[-1] == "KeyError: 'pointed'"
    assert "/opt/runner" not in result["stderr"]


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('spoken')", 1, "spoken\n"),
        ("raise SystemExit", 0, ""),
        ("exit(3)", 3, ""),
        ("import os; os._exit(9)", 9, ""),
        ("import sys; sys.exit(256 + 4)", 4, ""),
    ],
)
async def test_python_exit_codes_are_the_usual_ones(api, code, exit_code, stderr):
    result = await api.python(code)
    outcome = "completed" if exit_code == 0 else "failed"
    assert ending(result) == (outcome, exit_code, stderr)


async def test_a_python_syntax_error_is_shown_with_line_and_caret(api):
    result = await api.python("x = 1\ny = = 2\n")
    assert (result["outcome"], result["exitCode"]) == ("failed", 1)
    assert result["stderr"].splitlines()[0] == '  File "/workspace/main.py", line 2'
    assert result["stderr"].splitlines()[-1] == "SyntaxError: invalid syntax"


async def test_python_code_with_a_null_byte_fails_as_a_program(api):
    result = await api.python("print(1)\x00")
    assert (result["outcome"], result["exitCode"]) == ("failed", 1)
    assert "null bytes" in result["stderr"]


# --- both ---


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import sys; print(repr(sys.stdin.read()))"),
        ("typescript", "console.log(`'${require('node:fs').readFileSync(0, 'utf8')}'`)"),
    ],
    ids=LANGUAGES,
)
async def test_standard_input_is_empty(api, language, code):
    result = await api.execute(code, language)
    assert (*ending(result), result["output"]) == (*OK, "''\n")


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "import os; print(os.getcwd())"), ("typescript", "console.log(process.cwd())")],
    ids=LANGUAGES,
)
async def test_the_working_directory_is_the_workspace(api, language, code):
    assert (await api.execute(code, language))["output"] == "/workspace\n"


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; print(*sorted(os.environ))"),
        ("typescript", "console.log(Object.keys(process.env).sort().join(' '))"),
    ],
    ids=LANGUAGES,
)
async def test_the_environment_holds_nothing_of_the_host(api, language, code, monkeypatch):
    monkeypatch.setenv("CODE_EXECUTOR_TEST_SECRET", "of the host")
    names = (await api.execute(code, language))["output"].split()
    assert names == [
        "CODE_EXECUTOR_GATEWAY",
        "CODE_EXECUTOR_GRANT",
        "HOME",
        "LANG",
        "LOGNAME",
        "MPLBACKEND",
        "MPLCONFIGDIR",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "TMPDIR",
        "USER",
    ]


@pytest.mark.parametrize(
    ("language", "write", "look"),
    [
        ("python", "open('/workspace/left', 'w')", "import os; print(sorted(os.listdir('/workspace')))"),
        (
            "typescript",
            "require('node:fs').writeFileSync('/workspace/left', '')",
            "console.log(require('node:fs').readdirSync('/workspace'))",
        ),
    ],
    ids=LANGUAGES,
)
async def test_nothing_is_left_for_the_next_execution(api, language, write, look):
    assert "left" in (await api.execute(f"{write}\n{look}", language))["output"]
    assert "left" not in (await api.execute(look, language))["output"]


async def test_unicode_goes_in_and_out_unchanged(api):
    text = "grüße 世界 👩‍👩‍👧 \u202e"
    assert await run_python(api, f"print({text!r})") == f"{text}\n"
    assert await run_typescript(api, f"console.log({text!r})") == f"{text}\n"


# --- pictures ---

FIGURES = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.show()
figure, axes = plt.subplots()
axes.bar(["a", "b"], [1, 2])
"""
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def pictures_of(result):
    pictures = [(image["mimeType"], b64decode(image["data"])) for image in result["images"]]
    assert [image["bytes"] for image in result["images"]] == [len(data) for _, data in pictures]
    assert all(kind == "image/png" and data.startswith(SIGNATURE) for kind, data in pictures)
    return pictures


async def test_a_program_without_pictures_lists_none(api):
    assert (await api.python("print(1)"))["images"] == []


async def test_figures_are_pictures_of_the_reply_and_the_journal_keeps_none(api):
    result = await api.python(FIGURES)
    assert ending(result) == OK, result
    assert len(pictures_of(result)) == 2
    status, stored = await api.get(f"/executions/{result['executionId']}")
    assert (status, stored["images"]) == (200, None)


async def test_a_stream_ends_with_the_pictures(api):
    events = [event async for event in api.stream(FIGURES, "python")]
    assert len(pictures_of(events[-1][1])) == 2


@pytest.mark.parametrize("last", ["raise ValueError('v')", "import asyncio\nawait asyncio.sleep(0)"])
async def test_figures_are_shown_however_the_program_ends_and_awaits(api, last):
    assert len(pictures_of(await api.python(FIGURES + last))) == 2


async def test_figures_beyond_the_limit_are_told_in_one_line(api):
    code = "import matplotlib.pyplot as plt\nfor n in range(12):\n    plt.figure()\n    plt.plot([n, 1])\n"
    result = await api.python(code)
    assert (result["outcome"], len(pictures_of(result))) == ("completed", 10)
    assert result["stderr"] == (
        "2 pictures were not shown: An execution may show at most 10 pictures of 4194304 bytes in total.\n"
    )


async def test_pictures_of_every_kind_are_shown(api):
    code = """
        import io
        import matplotlib.pyplot as plt
        import pandas
        from PIL import Image
        from servers.output import emit_image
        drawn = Image.new("RGB", (2, 2), "red")
        drawn.save("/tmp/drawn.png")
        written = io.BytesIO()
        Image.new("RGB", (3, 3)).save(written, "PNG")
        emit_image("/tmp/drawn.png")
        emit_image(Image.new("CMYK", (4, 4)))
        emit_image(written.getvalue())
        figure = plt.figure()
        figure.text(0, 0, "of a figure")
        emit_image(figure)
        plt.close(figure)
        emit_image(pandas.DataFrame({"n": [1, 2]}).plot())
    """
    result = await api.python(dedent(code))
    assert ending(result) == OK, result
    assert len(pictures_of(result)) == 5


async def test_typescript_shows_a_picture_by_its_path(api):
    code = f"""
        import {{ writeFileSync }} from 'node:fs';
        import {{ emitImage }} from '/workspace/servers/output.js';
        writeFileSync('pixel.png', Buffer.from('{PIXEL}', 'base64'));
        await emitImage('pixel.png');
    """
    result = await api.typescript(code)
    assert ending(result) == OK, result
    assert pictures_of(result) == [("image/png", b64decode(PIXEL))]


# --- errors ---


@pytest.mark.parametrize(
    ("language", "code", "hint"),
    [
        ("python", "import requests", "A sandbox has no network: call a tool instead."),
        ("typescript", "import axios from 'axios';", "A sandbox has no network: call a tool instead."),
        ("python", "import urllib.request\nurllib.request.urlopen('http://example.com')", "A sandbox has no network"),
        ("typescript", "await fetch('http://example.com');", "A sandbox has no network"),
        ("python", "import scipy", "scipy is not in the sandbox, and nothing can be installed. There are: bs4, "),
        ("typescript", "import moment from 'moment';", "moment is not in the sandbox, and nothing can be installed. "),
        ("python", "import pillow", "It is imported as PIL."),
        ("python", "const n = 1;\nconsole.log(n);", 'This looks like TypeScript: set language to "typescript".'),
        ("typescript", "import json\nprint(json.dumps({}))", 'This looks like Python: set language to "python".'),
        ("python", "from servers.nothing import tool", "There is no server 'nothing'; "),
        ("typescript", "import { tool } from '/workspace/servers/nothing/tool.js';", "There is no server 'nothing'; "),
    ],
)
async def test_the_last_line_of_an_error_says_what_to_do(api, language, code, hint):
    result = await api.execute(code, language, check="off")
    assert result["exitCode"] == 1
    assert result["stderr"].splitlines()[-1].startswith(hint)


async def test_frames_of_packages_are_one_line(api):
    result = await api.python("import pandas\npandas.DataFrame({'a': [1]})['b']")
    assert [line for line in result["stderr"].splitlines() if not line.startswith("    ")] == [
        "Traceback (most recent call last):",
        '  File "/workspace/main.py", line 2, in <module>',
        "  … 2 frames in pandas",
        "KeyError: 'b'",
    ]


async def test_a_printed_promise_is_told(api):
    result = await api.typescript("const later = Promise.resolve(1);\nconsole.log(later);")
    assert (result["output"], result["exitCode"]) == ("Promise { 1 }\n", 0)
    assert result["stderr"] == "A Promise was printed at main.ts:2: await it first.\n"
