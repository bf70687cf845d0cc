"""How a Python program behaves: like `python3 main.py`, plus top-level await."""

from __future__ import annotations

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


def test_code_with_a_lone_surrogate_fails_as_the_users_error(python: Supervised) -> None:
    ended = python.run("print('\ud800')")
    assert "surrogates not allowed" in ended.errors
    assert (ended.report["ending"], ended.exit_code) == ("exited", 1)


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


def test_binary_output_passes_unchanged(python: Supervised) -> None:
    ended = python.run("import sys\nsys.stdout.buffer.write(bytes(range(256)))")
    assert ended.stdout == bytes(range(256))
