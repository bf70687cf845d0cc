"""Every tool of real servers, as their authors wrote them."""

from __future__ import annotations

import time

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import WrapperGenerator, generate
from tests.unit.client_library.workspace import Workspace, recorded_tools
from tests.unit.wrappers.backends import example_call, signature

FILES = {"real-mcp-tools.json": 527, "recorded-servers.json": 138}


@pytest.mark.parametrize(("file_name", "count"), FILES.items())
def test_every_tool_has_a_module_in_both_languages(file_name: str, count: int) -> None:
    wrappers = generate(recorded_tools(file_name))
    modules = [path for path in wrappers.files if path.count("/") == 2]
    assert wrappers.collisions == ()
    assert len([path for path in modules if path.endswith(".ts") and not path.endswith("/index.ts")]) == count
    assert len([path for path in modules if path.endswith(".py") and not path.endswith("/__init__.py")]) == count


@pytest.mark.parametrize("file_name", FILES)
def test_wrappers_compile_under_the_strict_typescript_compiler(file_name: str, workspace: Workspace) -> None:
    workspace.add(generate(recorded_tools(file_name)))
    assert workspace.check_typescript() == ""


@pytest.mark.parametrize("file_name", FILES)
def test_wrappers_pass_strict_mypy(file_name: str, workspace: Workspace) -> None:
    workspace.add(generate(recorded_tools(file_name)))
    assert workspace.check_python() == ""


def test_compilers_reject_a_program_that_misuses_a_wrapper(workspace: Workspace) -> None:
    workspace.add_tools(Tool("s", "add", input_schema={"properties": {"a": {"type": "number"}}, "required": ["a"]}))
    (workspace.path / "servers" / "wrong.ts").write_text("import { add } from './s/add.js';\nawait add({ a: 'x' });\n")
    (workspace.path / "servers" / "wrong.py").write_text("from servers.s import add\nadd(a='x')\nadd({'a': 'x'})\n")
    assert "wrong.ts(2,13): error TS2322" in workspace.check_typescript()
    assert "wrong.py:2: error: No overload variant" in workspace.check_python()


@pytest.mark.parametrize("file_name", FILES)
@pytest.mark.parametrize("language", Language)
def test_every_tool_has_a_short_signature_and_an_example(file_name: str, language: Language) -> None:
    for tool in recorded_tools(file_name):
        assert "\n" not in signature(tool, language)
        assert len(signature(tool, language)) <= 1300
        assert example_call(tool, language).count("\n") == 1


def test_sixty_three_tools_are_written_quickly() -> None:
    tools = recorded_tools("recorded-servers.json")[:63]
    durations = []
    for _ in range(3):
        begin = time.process_time()
        generate(tools)
        durations.append(time.process_time() - begin)
    assert min(durations) < 0.2


def test_only_what_changed_is_written_again() -> None:
    tools = recorded_tools("recorded-servers.json")
    generator = WrapperGenerator()
    before = generator.generate(tools)
    generator.generate(recorded_tools("recorded-servers.json"))
    assert generator.written_count == len(tools)
    changed = [*tools[1:], Tool(tools[0].server, tools[0].name, "changed")]
    after = generator.generate(changed)
    assert generator.written_count == len(tools) + 1
    assert after.files != before.files
    different = {path for path in before.files if before.files[path] != after.files[path]}
    assert {path.rsplit("/", 1)[1].split(".")[0] for path in different} == {tools[0].name}
