"""How a Python program behaves: like `python3 main.py`, plus top-level await."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.unit.runner.supervised import Supervised


def test_top_level_await_works(python: Supervised) -> None:
    code = "import asyncio\nprint(await asyncio.sleep(0, 'slept'))\nasync with asyncio.Lock(): print('locked')"
    assert python.run(code).output == "slept\nlocked\n"


def test_program_may_run_its_own_event_loop(python: Supervised) -> None:
    code = "import asyncio\nasync def main(): print('in loop')\nasyncio.run(main())"
    assert python.run(code).output == "in loop\n"


def test_program_is_the_main_module_and_a_real_file(python: Supervised) -> None:
    code = (
        "import dataclasses, inspect, pickle, sys\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n"
        "if __name__ == '__main__':\n"
        "    print(pickle.loads(pickle.dumps(Point(1))), sys.modules['__main__'].Point is Point)\n"
        "    print(__file__, sys.argv, inspect.getsource(Point).count('x: int'))\n"
    )
    ended = python.run(code)
    assert ended.output == f"Point(x=1) True\n{python.workspace}/main.py ['main.py'] 1\n"
    assert (python.workspace / "main.py").read_text() == code


def test_nothing_of_the_runtime_is_in_the_namespace(python: Supervised) -> None:
    ended = python.run("print(sorted(name for name in globals() if not name.startswith('__')))")
    assert ended.output == "[]\n"


def test_uncaught_error_shows_only_the_programs_frames(python: Supervised) -> None:
    ended = python.run("def fail():\n    raise ValueError('broken')\n\nfail()\n")
    main = f"{python.workspace}/main.py"
    assert ended.errors == (
        "Traceback (most recent call last):\n"
        f'  File "{main}", line 4, in <module>\n    fail()\n'
        f"  File \"{main}\", line 2, in fail\n    raise ValueError('broken')\n"
        "ValueError: broken\n"
    )
    assert ended.exit_code == 1


def test_error_below_a_top_level_await_starts_at_the_programs_line(python: Supervised) -> None:
    ended = python.run("import asyncio\nawait asyncio.sleep(0)\nraise KeyError('k')")
    assert ended.errors == (
        "Traceback (most recent call last):\n"
        f"  File \"{python.workspace}/main.py\", line 3, in <module>\n    raise KeyError('k')\n"
        "KeyError: 'k'\n"
    )


def test_chain_and_notes_of_an_error_are_shown(python: Supervised) -> None:
    code = (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
        "    error.add_note('while dividing')\n    raise RuntimeError('outer') from error\n"
    )
    errors = python.run(code).errors
    assert errors.index("ZeroDivisionError") < errors.index("while dividing") < errors.index("direct cause")
    assert errors.endswith("RuntimeError: outer\n")
    assert "program.py" not in errors


@pytest.mark.parametrize(
    "statement",
    ["multiprocessing.Lock()", "multiprocessing.Pool(2)", "concurrent.futures.ProcessPoolExecutor(2).submit(print)"],
)
def test_missing_locks_between_processes_are_explained(python: Supervised, statement: str) -> None:
    code = f"""
        import concurrent.futures, multiprocessing.synchronize
        # There is no such directory, as in a sandbox there is no /dev/shm.
        multiprocessing.synchronize.SemLock._make_name = staticmethod(lambda: "/absent/name")
        {statement}
    """
    ended = python.run(dedent(code))
    assert ended.errors.splitlines()[-2].startswith("OSError: ")
    assert ended.errors.splitlines()[-1] == (
        "A sandbox has no shared memory for process pools and multiprocessing locks: use threads or subprocess."
    )


def test_other_errors_are_not_explained(python: Supervised) -> None:
    assert python.run("import multiprocessing\nmultiprocessing.get_context('none')").errors.endswith(
        "ValueError: cannot find context for 'none'\n"
    )


def test_syntax_error_shows_line_and_caret_without_traceback(python: Supervised) -> None:
    ended = python.run("x = 1\nif x\n    pass\n")
    assert ended.errors == (
        f"  File \"{python.workspace}/main.py\", line 2\n    if x\n        ^\nSyntaxError: expected ':'\n"
    )
    assert ended.exit_code == 1


@pytest.mark.parametrize(
    ("statement", "exit_code", "message"),
    [
        ("exit(3)", 3, ""),
        ("raise SystemExit", 0, ""),
        ("import sys; sys.exit('goodbye')", 1, "goodbye\n"),
        ("import os; os._exit(9)", 9, ""),
    ],
)
def test_exit_codes_and_messages_are_pythons(python: Supervised, statement: str, exit_code: int, message: str) -> None:
    ended = python.run(statement)
    assert (ended.exit_code, ended.errors) == (exit_code, message)


def test_keyboard_interrupt_ends_like_an_interrupted_python(python: Supervised) -> None:
    ended = python.run("raise KeyboardInterrupt")
    assert ended.errors.endswith("KeyboardInterrupt\n")
    assert (ended.report["signal"], ended.exit_code) == (2, 130)


def test_error_outside_the_exception_hierarchy_is_shown(python: Supervised) -> None:
    ended = python.run("class Odd(BaseException): pass\nraise Odd('strange')")
    assert ended.errors.endswith("Odd: strange\n")
    assert ended.exit_code == 1


def test_error_text_that_utf8_cannot_carry_is_escaped(python: Supervised) -> None:
    assert python.run("raise ValueError('\\ud800')").errors.endswith("ValueError: \\ud800\n")


def test_threads_are_joined_and_exit_handlers_run(python: Supervised) -> None:
    code = (
        "import atexit, threading\n"
        "atexit.register(lambda: print('at exit'))\n"
        "main_done = threading.Event()\n"
        "threading.Thread(target=lambda: (main_done.wait(), print('thread'))).start()\n"
        "print('main')\nmain_done.set()\n"
    )
    assert python.run(code).output == "main\nthread\nat exit\n"


def test_replaced_stdout_is_flushed_at_exit(python: Supervised) -> None:
    code = "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1')\nprint('\\xfc')"
    assert python.run(code).stdout == b"\xfc\n"


def test_forgotten_await_is_warned_about(python: Supervised) -> None:
    ended = python.run("async def job(): pass\njob()")
    assert "main.py:2: RuntimeWarning: coroutine 'job' was never awaited" in ended.errors


def test_own_excepthook_is_respected(python: Supervised) -> None:
    code = "import sys\nsys.excepthook = lambda kind, error, trace: print('hook', error)\nraise ValueError('v')"
    ended = python.run(code)
    assert (ended.output, ended.errors, ended.exit_code) == ("hook v\n", "", 1)


def test_carriage_returns_in_the_code_survive_in_the_file(python: Supervised) -> None:
    ended = python.run("a = 1\r\nprint(open('main.py', 'rb').read().count(b'\\r\\n'))\r\n")
    assert ended.output == "2\n"


def test_byte_order_mark_is_no_part_of_the_program(python: Supervised) -> None:
    ended = python.run("\ufeffprint(open(__file__, 'rb').read(3).hex())\nraise ValueError('line two')")
    assert ended.output == "efbbbf\n"
    assert f'{python.workspace}/main.py", line 2, in <module>\n    raise ValueError' in ended.errors


def test_binary_output_passes_unchanged(python: Supervised) -> None:
    ended = python.run("import sys\nsys.stdout.buffer.write(bytes(range(256)))")
    assert ended.stdout == bytes(range(256))


class TestExit:
    """The exit is quicker than the interpreter's own, and the program must not notice."""

    def test_what_the_program_registered_runs_in_order(self, python: Supervised) -> None:
        code = """
            import atexit, threading, time
            class Held:
                def __del__(self):
                    print("finalized, with", helper())
            def helper():
                return "its globals"
            held = Held()
            cycle = [Held()]
            cycle.append(cycle)
            atexit.register(print, "atexit")
            threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
            print("main")
        """
        lines = python.run(dedent(code)).output.splitlines()
        assert lines == ["main", "thread", "atexit", *["finalized, with its globals"] * 2]

    def test_what_an_imported_module_holds_is_finalized(self, python: Supervised) -> None:
        python.prepare({"holder.py": "class Held:\n    def __del__(self): print('gone')\nheld = Held()\n"})
        assert python.run("import holder").output == "gone\n"

    def test_a_file_that_was_not_closed_is_flushed(self, python: Supervised) -> None:
        assert python.run("out = open(1, 'w', closefd=False); out.write('kept')").output == "kept"

    @pytest.mark.parametrize(
        ("statement", "status"),
        [("sys.exit()", 0), ("sys.exit(7)", 7), ("sys.exit(True)", 1), ("sys.exit('no')", 1), ("sys.exit(-1)", 255)],
    )
    def test_exit_status(self, python: Supervised, statement: str, status: int) -> None:
        assert python.run(f"import sys; {statement}").exit_code == status

    @pytest.mark.parametrize("broken", ["sys.stdout = None", "sys.stdout.close()", "del sys.stdout"])
    def test_a_broken_stdout_ends_as_in_an_ordinary_interpreter(self, python: Supervised, broken: str) -> None:
        ordinary = subprocess.run([sys.executable, "-I", "-u", "-c", f"import sys; {broken}"], check=False)
        assert python.run(f"import sys; {broken}").exit_code == ordinary.returncode

    def test_failing_exit_functions_are_told(self, python: Supervised) -> None:
        ended = python.run("import atexit; atexit.register(lambda: 1 / 0)")
        assert ended.exit_code == 0
        assert "ZeroDivisionError" in ended.errors


def test_preloading_gives_way_to_a_program(python: Supervised) -> None:
    python.preload()
    assert python.run("print(1)").output == "1\n"


def test_preloaded_modules_are_there_and_leave_no_trace_in_the_path(python: Supervised) -> None:
    python.prepare({"servers/__init__.py": "", "servers/_client.py": "", "servers/_lazy.py": ""})
    python.preload()
    python.expect("R")
    python.expect("L")
    ended = python.run("import sys; print('asyncio' in sys.modules, 'servers._client' in sys.modules, sys.path[:2])")
    assert ended.output.startswith(f"True True ['{python.workspace}', '/")
