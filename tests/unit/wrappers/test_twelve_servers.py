"""Wrappers of what the twelve servers of the stack list, those that need an account among them."""

from __future__ import annotations

import pytest

from orchestrator.domain.execution import Language
from orchestrator.wrappers import generate
from tests.support.recorded_servers import twelve_servers
from tests.unit.client_library.workspace import Workspace
from tests.unit.wrappers.backends import example_call, signature

TOOLS = twelve_servers()


def test_every_tool_has_a_module_in_both_languages() -> None:
    wrappers = generate(TOOLS)
    modules = [path for path in wrappers.files if path.count("/") == 2]
    assert wrappers.collisions == ()
    for suffix, index in ((".ts", "/index.ts"), (".py", "/__init__.py")):
        assert len([path for path in modules if path.endswith(suffix) and not path.endswith(index)]) == len(TOOLS)


def test_they_compile_under_the_strict_typescript_compiler(workspace: Workspace) -> None:
    workspace.add(generate(TOOLS))
    assert workspace.check_typescript() == ""


def test_they_pass_strict_mypy(workspace: Workspace) -> None:
    workspace.add(generate(TOOLS))
    assert workspace.check_python() == ""


@pytest.mark.parametrize("language", Language)
def test_every_tool_has_a_short_signature_and_an_example(language: Language) -> None:
    for tool in TOOLS:
        assert "\n" not in signature(tool, language)
        assert len(signature(tool, language)) <= 1300
        assert example_call(tool, language).count("\n") == 1
