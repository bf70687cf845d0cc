"""How a Python program ends that calls tools from async code."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from textwrap import dedent, indent
from typing import Any

import pytest

from tests.unit.client_library.gateway import Gateway, Request, running_gateway, text
from tests.unit.client_library.test_typescript_client import READ
from tests.unit.client_library.workspace import Workspace
from tests.unit.runner.supervised import Ended, Supervised

IMPORT = """\
import asyncio
from servers.errors import ToolError
from servers.file_system import read_file
kept = []
"""
DENIED = (403, {"code": "tool_denied", "message": "The role may not."})
FAILURE = "servers.errors.ToolDenied: file-system/read.file: The role may not.\n"

in_both_styles = pytest.mark.parametrize("style", ["top-level await", "asyncio.run"])


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running_gateway() as gateway:
        yield gateway


def program(style: str, body: str) -> str:
    code = dedent(body).strip()
    if style == "top-level await":
        return f"{IMPORT}await asyncio.sleep(0)\n{code}\n"
    return f"{IMPORT}async def main():\n{indent(code, '    ')}\n\nasyncio.run(main())\n"


def run(python: Supervised, gateway: Gateway, code: str) -> Ended:
    Workspace(python.workspace).add_tools(READ)
    return python.run(code, environment=gateway.environment)


@in_both_styles
@pytest.mark.parametrize(
    "call",
    ["read_file(path='x')", "kept.append(read_file(path='x'))", "result = read_file(path='x')"],
    ids=["statement", "kept by the module", "kept by a variable"],
)
def test_failure_that_nobody_saw_ends_the_program_with_1(
    style: str, call: str, python: Supervised, gateway: Gateway
) -> None:
    gateway.answers(DENIED)
    body = f"""
        try:
            {call}
            print("saved")
        except ToolError:
            print("never")
    """
    ended = run(python, gateway, program(style, body))
    assert (ended.output, ended.exit_code) == ("saved\n", 1)
    assert f"    {call}\n{FAILURE}The call was not awaited" in ended.errors
    assert ended.errors.count("Traceback") == 1


@in_both_styles
@pytest.mark.parametrize(
    "use",
    [
        "await read_file(path='x')",
        "call = read_file(path='x')\n    await call",
        "await asyncio.wait_for(read_file(path='x'), 30)",
        "await asyncio.gather(read_file(path='x'), read_file(path='y'))",
        "await asyncio.create_task(read_file(path='x'))",
    ],
)
def test_failure_that_the_program_saw_is_its_own_affair(
    style: str, use: str, python: Supervised, gateway: Gateway
) -> None:
    gateway.answers(DENIED)
    code = f"try:\n    {use}\nexcept ToolError:\n    print('seen')"
    ended = run(python, gateway, program(style, code))
    assert (ended.output, ended.errors, ended.exit_code) == ("seen\n", "", 0)


@in_both_styles
@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        ("read_file(path='x')['a']", "TypeError: The call was not awaited: write `await` before it"),
        (
            "read_file(path=read_file(path='x'))",
            "servers.errors.InvalidArguments: file-system/read.file: "
            "`path` must be a string, not <UnawaitedCall: await it to get its result>.",
        ),
    ],
)
def test_use_without_await_is_an_error_in_the_programs_line(
    style: str, use: str, complaint: str, python: Supervised, gateway: Gateway
) -> None:
    ended = run(python, gateway, program(style, use))
    assert 'main.py", line 6, in ' in ended.errors
    assert f"    {use}\n" in ended.errors
    assert complaint in ended.errors
    assert ended.exit_code == 1


def test_failure_of_what_the_main_function_returns_is_not_lost(python: Supervised, gateway: Gateway) -> None:
    gateway.answers(DENIED)
    ended = run(python, gateway, program("asyncio.run", "return read_file(path='x')"))
    assert FAILURE in ended.errors
    assert ended.exit_code == 1


@pytest.mark.parametrize(
    ("ending", "exit_code"),
    [("import sys; sys.exit(7)", 7), ("import sys; sys.exit()", 1), ("import sys; sys.stdout = None", 1)],
)
def test_exit_code_of_the_program_itself_prevails(
    ending: str, exit_code: int, python: Supervised, gateway: Gateway
) -> None:
    gateway.answers(DENIED)
    ended = run(python, gateway, program("asyncio.run", "read_file(path='x')") + ending)
    assert (ended.exit_code, FAILURE in ended.errors) == (exit_code, True)


def test_own_error_of_the_program_is_shown_besides(python: Supervised, gateway: Gateway) -> None:
    gateway.answers(DENIED)
    ended = run(
        python, gateway, program("top-level await", "kept.append(read_file(path='x'))\nraise ValueError('own')")
    )
    assert ended.errors.index("ValueError: own") < ended.errors.index(FAILURE)
    assert "Exception ignored" not in ended.errors
    assert ended.exit_code == 1


def test_success_that_nobody_asked_for_changes_nothing(python: Supervised, gateway: Gateway) -> None:
    body = "read_file(path='x')\nkept.append(read_file(path='y'))"
    ended = run(python, gateway, program("top-level await", body))
    assert (ended.errors, ended.exit_code, len(gateway.requests)) == ("", 0, 2)


@pytest.mark.parametrize(
    "giving_up",
    [
        "await asyncio.wait_for(read_file(path='x'), 0.1)",
        "async with asyncio.timeout(0.1): await read_file(path='x')",
        "asyncio.create_task(read_file(path='x')); raise TimeoutError",
        "task = asyncio.create_task(read_file(path='x')); task.cancel(); raise TimeoutError",
        "read_file(path='x').close(); raise TimeoutError",
    ],
)
def test_program_that_gave_up_on_a_call_ends(giving_up: str, python: Supervised, gateway: Gateway) -> None:
    program_ended = threading.Event()

    def answer_too_late(request: Request) -> Any:
        assert program_ended.wait(60)
        return text("too late")

    gateway.answer = answer_too_late
    body = f"""
        try:
            {giving_up}
        except TimeoutError:
            print("gave up")
    """
    ended = run(python, gateway, program("top-level await", body))
    program_ended.set()
    assert (ended.output, ended.errors, ended.exit_code) == ("gave up\n", "", 0)
