"""How a TypeScript program behaves: like `node main.ts`, plus all of TypeScript's syntax and `require`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.runner.supervised import RUNNER, Supervised


def test_types_are_stripped_and_top_level_await_works(typescript: Supervised) -> None:
    code = "interface A { n: number }\nconst a: A = await Promise.resolve({ n: 4 });\nconsole.log(a.n as number);"
    ended = typescript.run(code)
    assert (ended.output, ended.errors, ended.exit_code) == ("4\n", "", 0)
    assert (typescript.workspace / "main.ts").read_text() == code


def test_syntax_that_is_more_than_types_works(typescript: Supervised) -> None:
    code = (
        "enum Level { Low = 1, High }\n"
        "namespace Names { export const of = (level: Level) => Level[level]; }\n"
        "class Point { constructor(private readonly x: number) {} get(): number { return this.x; } }\n"
        "console.log(Names.of(Level.High), new Point(3).get());"
    )
    ended = typescript.run(code)
    assert (ended.output, ended.errors) == ("High 3\n", "")


def test_imports_of_every_form_work(typescript: Supervised) -> None:
    typescript.prepare(
        {
            "servers/tool.ts": "import { twice } from './deep/index.js';\nexport const six: number = twice(3);",
            "servers/deep/index.ts": "export const twice = (n: number): number => 2 * n;",
            "servers/levels.mts": "export enum Level { Low = 7 }",
            "classic.cjs": "module.exports = { old: true };",
        }
    )
    code = (
        "import { six } from './servers/tool.js';\n"
        "import type { Nothing } from './servers/nowhere.js';\n"
        "import fs from 'node:fs';\n"
        "const { Level } = await import('./servers/levels.mjs');\n"
        f"const absolute = await import('{typescript.workspace}/servers/tool.js');\n"
        "const bare = await import('./servers/deep');\n"
        "console.log(six, Level.Low, absolute.six, bare.twice(1));\n"
        "console.log(require('./classic.cjs').old, require('./servers/tool.js').six, require('node:os').EOL.length);\n"
        "console.log(fs.existsSync('main.ts'), typeof require.resolve, __filename === process.argv[1]);\n"
    )
    ended = typescript.run(code)
    assert ended.errors == ""
    assert ended.output == "6 7 6 2\ntrue 6 1\ntrue function true\n"


def test_idioms_of_commonjs_work(typescript: Supervised) -> None:
    code = (
        "function main(): void { console.log('main', module.filename === __filename); }\n"
        "exports.one = 1;\n"
        "console.log(module.exports.one);\n"
        "module.exports = { main };\n"
        "if (require.main === module) main();\n"
    )
    ended = typescript.run(code)
    assert (ended.output, ended.errors) == ("1\nmain true\n", "")


def test_commonjs_files_have_a_module_of_their_own(typescript: Supervised) -> None:
    typescript.prepare({"classic.cjs": "exports.isMain = require.main === module; exports.own = module.filename;"})
    ended = typescript.run("console.log(require('./classic.cjs'), module.exports, exports);")
    own = f"{{ isMain: false, own: '{typescript.workspace}/classic.cjs' }}"
    assert " ".join(ended.output.split()) == f"{own} {{}} {{}}"


def test_names_of_commonjs_may_be_the_programs_own(typescript: Supervised) -> None:
    code = "const module = 1, exports = 2, require = 3;\nconsole.log(module + exports + require);"
    assert typescript.run(code).output == "6\n"


def test_existing_javascript_is_preferred_to_typescript(typescript: Supervised) -> None:
    typescript.prepare({"both.js": "export default 'js'", "both.ts": "export default 'ts'"})
    assert typescript.run("import both from './both.js'; console.log(both)").output == "js\n"


def test_classic_async_main_works(typescript: Supervised) -> None:
    code = "(async () => { await new Promise((done) => setImmediate(done)); console.log('done'); })();"
    assert typescript.run(code).output == "done\n"


def test_program_is_the_entry_point(typescript: Supervised) -> None:
    ended = typescript.run("console.log(import.meta.main, process.argv.length, process.argv[1])")
    assert ended.output == f"true 2 {typescript.workspace}/main.ts\n"


def test_environment_of_the_message_is_set(typescript: Supervised) -> None:
    code = "console.log(process.env.GRANT, Object.keys(process.env).sort().join())"
    ended = typescript.run(code, environment={"GRANT": "t0ken"})
    names = "GRANT,HOME,LANG,LOGNAME,MPLBACKEND,MPLCONFIGDIR,OPENBLAS_NUM_THREADS,PATH,TMPDIR,USER"
    assert ended.output == f"t0ken {names}\n"


def test_uncaught_error_shows_only_the_programs_frames(typescript: Supervised) -> None:
    code = "interface Unused { a: 1 }\nfunction fail(): never {\n  throw new Error('broken');\n}\nfail();"
    ended = typescript.run(code)
    main = f"{typescript.workspace}/main.ts"
    assert ended.errors == f"Error: broken\n    at fail ({main}:3:9)\n    at {main}:5:1\n"
    assert ended.exit_code == 1


def test_lines_stay_the_users_when_code_is_transformed(typescript: Supervised) -> None:
    code = "enum A {\n  B,\n  C,\n}\n\nfunction fail(a: A): never {\n  throw new Error('late');\n}\nfail(A.B);"
    errors = typescript.run(code).errors
    assert f"{typescript.workspace}/main.ts:7:9" in errors
    assert f"{typescript.workspace}/main.ts:9:1" in errors
    assert "node:" not in errors


def test_properties_and_cause_of_an_error_are_shown(typescript: Supervised) -> None:
    code = "throw Object.assign(new Error('outer', { cause: new TypeError('inner') }), { code: 'E_OUTER' });"
    errors = typescript.run(code).errors
    assert errors.startswith("Error: outer\n")
    assert "[cause]: TypeError: inner" in errors
    assert "code: 'E_OUTER'" in errors
    assert "node:" not in errors
    assert errors.count("{") == errors.count("}")


def test_each_error_of_an_aggregate_is_shown(typescript: Supervised) -> None:
    errors = typescript.run("await Promise.any([Promise.reject(new Error('a')), Promise.reject(2)]);").errors
    assert "AggregateError: All promises were rejected" in errors
    assert "Error: a" in errors
    assert "node:" not in errors


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("throw 'text'", "Uncaught 'text'\n"),
        ("throw null", "Uncaught null\n"),
        ("throw { a: 1 }", "Uncaught { a: 1 }\n"),
        ("Promise.reject(3); setTimeout(() => console.log('never'), 60_000)", "Uncaught 3\n"),
        (
            "throw { [Symbol.for('nodejs.util.inspect.custom')]() { throw 1 } }",
            "Uncaught error that cannot be shown\n",
        ),
    ],
)
def test_thrown_value_that_is_no_error_is_shown(typescript: Supervised, code: str, message: str) -> None:
    ended = typescript.run(code)
    assert (ended.errors, ended.output, ended.exit_code) == (message, "", 1)


def test_error_from_a_timer_ends_the_program(typescript: Supervised) -> None:
    ended = typescript.run("setTimeout(() => { throw new RangeError('later'); }, 1);\nsetInterval(() => {}, 60_000);")
    assert ended.errors.startswith("RangeError: later\n")
    assert f"{typescript.workspace}/main.ts:1:26" in ended.errors
    assert ended.exit_code == 1


def test_unhandled_rejection_ends_the_program(typescript: Supervised) -> None:
    ended = typescript.run(
        "async function job() {\n  throw new Error('lost');\n}\njob();\nsetInterval(() => {}, 60_000);"
    )
    assert ended.errors.startswith(f"Error: lost\n    at job ({typescript.workspace}/main.ts:2:9)\n")
    assert ended.exit_code == 1


def test_own_handlers_of_uncaught_errors_are_respected(typescript: Supervised) -> None:
    code = (
        "process.on('uncaughtException', (error: Error) => console.log('caught', error.message));\n"
        "Promise.reject(new Error('rejected'));\n"
        "setTimeout(() => { throw new Error('thrown'); }, 1);\n"
    )
    ended = typescript.run(code)
    assert (ended.output, ended.errors, ended.exit_code) == ("caught rejected\ncaught thrown\n", "", 0)


def test_own_handler_of_rejections_is_respected(typescript: Supervised) -> None:
    code = "process.on('unhandledRejection', (reason) => console.log('reason', reason)); Promise.reject(1);"
    ended = typescript.run(code)
    assert (ended.output, ended.errors, ended.exit_code) == ("reason 1\n", "", 0)


def test_await_that_never_settles_is_explained(typescript: Supervised) -> None:
    ended = typescript.run("console.log('before');\nawait new Promise(() => {});")
    assert ended.output == "before\n"
    assert "unsettled top-level await" in ended.errors
    assert "main.ts:2" in ended.errors
    assert ended.exit_code == 13


@pytest.mark.parametrize(
    ("code", "place", "line"),
    [
        ("const a = 1;\nconst b: = 2;", "main.ts:2:10", "const b: = 2;"),
        ("let a: number = 1;\n  let a = 2;", "main.ts:2:7", "  let a = 2;"),
        ("const a = 1;\nconst r = /(/;", "main.ts:2:11", "const r = /(/;"),
        ("import { nothing } from 'node:fs';", "main.ts:1:10", "import { nothing } from 'node:fs';"),
    ],
    ids=["stripper", "parser", "regular expression", "linker"],
)
def test_syntax_error_names_its_place(typescript: Supervised, code: str, place: str, line: str) -> None:
    ended = typescript.run(code)
    first, *rest = ended.errors.splitlines()
    assert first == f"{typescript.workspace}/{place}"
    assert line in rest
    assert rest[-1].startswith("SyntaxError: ")
    assert "node:internal" not in ended.errors
    assert ended.exit_code == 1


def test_syntax_error_in_an_imported_file_names_that_file(typescript: Supervised) -> None:
    typescript.prepare({"lib.ts": "export const a: number = 1;\nlet b = 1;\nlet b = 2;\n"})
    errors = typescript.run("import { a } from './lib.js';\nconsole.log(a);").errors
    assert errors.startswith(f"{typescript.workspace}/lib.ts:3:5\nlet b = 2;\n")


def test_syntax_error_in_transformed_code_keeps_the_users_line(typescript: Supervised) -> None:
    errors = typescript.run("enum A {\n  B,\n}\n\n\nconst r = /(/;").errors
    assert errors.startswith(f"{typescript.workspace}/main.ts:6:")


def test_missing_import_is_named(typescript: Supervised) -> None:
    ended = typescript.run("import './nowhere.js';")
    assert f"Cannot find module '{typescript.workspace}/nowhere.js'" in ended.errors
    assert "node:internal" not in ended.errors
    assert ended.exit_code == 1


def test_exit_keeps_its_code_and_all_its_output(typescript: Supervised) -> None:
    ended = typescript.run("process.stdout.write('x'.repeat(500_000)); process.exit(7);")
    assert (len(ended.stdout), ended.exit_code) == (500_000, 7)


def test_exit_code_set_by_the_program_is_kept(typescript: Supervised) -> None:
    assert typescript.run("process.exitCode = 5;").exit_code == 5


def test_exit_listeners_run(typescript: Supervised) -> None:
    code = (
        "process.on('exit', (code) => console.log('exit', code));\n"
        "process.once('beforeExit', () => console.log('before'));\n"
    )
    assert typescript.run(code).output == "before\nexit 0\n"


def test_warnings_of_the_program_are_shown_but_not_the_strippers(typescript: Supervised) -> None:
    ended = typescript.run("process.emitWarning('mine');")
    assert "Warning: mine" in ended.errors
    assert "ExperimentalWarning" not in ended.errors


def test_workers_and_forks_run_typescript_and_do_not_wait_for_a_program(typescript: Supervised) -> None:
    typescript.prepare({"child.ts": "enum Answer { Yes = 42 }\nconsole.log(Answer.Yes as number);"})
    code = (
        "import { fork } from 'node:child_process';\nimport { once } from 'node:events';\n"
        "import { Worker } from 'node:worker_threads';\n"
        "await once(new Worker(new URL('./child.ts', import.meta.url)), 'exit');\n"
        "const [status] = await once(fork('./child.ts'), 'exit');\nconsole.log('fork', status);\n"
    )
    ended = typescript.run(code)
    assert (ended.output, ended.errors) == ("42\n42\nfork 0\n", "")


def test_program_has_no_descriptors_of_the_runtime(typescript: Supervised) -> None:
    code = (
        "import fs from 'node:fs';\n"
        "const pipes = fs.readdirSync('/proc/self/fd').filter((fd) => {\n"
        "  try { return fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith('pipe:'); } catch { return false; }\n"
        "});\nconsole.log(fs.readlinkSync('/proc/self/fd/0'), pipes.filter((fd) => Number(fd) < 5).join());"
    )
    assert typescript.run(code).output == "/dev/null 1,2\n"


def test_busy_loop_is_killed_at_its_deadline_with_partial_output(typescript: Supervised) -> None:
    ended = typescript.run("console.log('partial'); for (;;);", timeout_seconds=2)
    assert (ended.output, ended.report["ending"]) == ("partial\n", "timed_out")


@pytest.mark.parametrize("path", sorted(RUNNER.glob("typescript/*.mjs")), ids=lambda path: path.name)
def test_module_of_the_runtime_parses(node_path: str, path: Path) -> None:
    subprocess.run([node_path, "--check", str(path)], check=True, capture_output=True)
