"""The check of calls to some hundred real tools: right ones are never rejected, wrong ones are."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from orchestrator.domain.names import Names
from orchestrator.domain.tools import Tool
from tests.unit.client_library.workspace import recorded_tools
from tests.unit.runner.checked import SUFFIXES, Checked, environment, make_workspace

Arguments = dict[str, Any]
Change = Callable[[Tool, Arguments], Arguments | None]
SIMPLE = {"string", "integer", "number", "boolean", "array"}
MANY = 300
DEEP = 6
# Of so many names, the compiler spells out only some.
MAY_BE_MISSED = 0.02


@dataclass(frozen=True, slots=True)
class Call:
    server: str
    name: str
    tool: Tool
    arguments: Arguments


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checked, list[Call]]:
    environment()
    tools = recorded_tools("real-mcp-tools.json")
    checked = make_workspace(tmp_path_factory.mktemp("real"), tools)
    return checked, list(example_calls(tools))


def example_calls(tools: list[Tool]) -> Iterator[Call]:
    for server, named in Names.of(tools).tools.items():
        for name, tool in named.items():
            for everything in (True, False):
                arguments = example(tool.input_schema, tool.input_schema, everything)
                if isinstance(arguments, dict):
                    yield Call(server, name, tool, arguments)


def example(schema: Any, root: Mapping[str, Any], everything: bool, depth: int = 0) -> Any:
    """Return a value that the schema allows: with all that may be given, or with what must be."""

    def inner(part: Any) -> Any:
        return example(part, root, everything, depth + 1)

    if not isinstance(schema, dict) or not schema:
        return "anything"
    match schema:
        case {"$ref": str(pointer)}:
            found: Any = root
            for step in pointer.removeprefix("#/").split("/"):
                found = found[step]
            return inner(found)
        case {"const": constant}:
            return constant
        case {"enum": [*_, last]}:
            return last
        case {"anyOf": [first, *rest]} | {"oneOf": [first, *rest]}:
            return inner(rest[-1] if rest and everything else first)
    kinds = schema.get("type", "object" if "properties" in schema else None)
    match kinds[0] if isinstance(kinds, list) else kinds:
        case "string":
            return "text"
        case "integer":
            return 7
        case "number":
            return 2.5
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            return [inner(schema.get("items"))] if depth < DEEP else []
        case "object":
            required = schema.get("required", ())
            properties = schema.get("properties", {})
            is_full = everything and depth < DEEP
            return {name: inner(part) for name, part in properties.items() if is_full or name in required}
    return "anything"


def missing(tool: Tool, arguments: Arguments) -> Arguments | None:
    required = tool.input_schema.get("required", ())
    return {name: value for name, value in arguments.items() if name != required[0]} if required else None


def unknown(tool: Tool, arguments: Arguments) -> Arguments | None:
    is_closed = tool.input_schema.get("additionalProperties", False) is False
    return {**arguments, "zzz_unknown": 1} if is_closed and tool.input_schema.get("properties") else None


def of_another_type(tool: Tool, arguments: Arguments) -> Arguments | None:
    for name, part in tool.input_schema.get("properties", {}).items():
        if name in arguments and isinstance(part, dict) and part.get("type") in SIMPLE and "anyOf" not in part:
            return {**arguments, name: {"a": 1}}
    return None


def unchanged(_: Tool, arguments: Arguments) -> Arguments | None:
    return arguments


def in_typescript(call: Call, arguments: Arguments, local: str) -> tuple[str, str]:
    line = f"import {{ {call.name} as {local} }} from './servers/{call.server}/{call.name}.js';"
    return line, f"await {local}({json.dumps(arguments, ensure_ascii=False)});"


def in_python(call: Call, arguments: Arguments, local: str) -> tuple[str, str]:
    return f"from servers.{call.server} import {call.name} as {local}", f"{local}({arguments!r})"


def made_and_rejected(
    real: tuple[Checked, list[Call]], language: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[str]]:
    """Write one program of all the calls, and return them with those of them that a mistake was told of."""
    checked, calls = real
    spell = {"typescript": in_typescript, "python": in_python}[language]
    changed = [(call, change(call.tool, call.arguments)) for call in calls]
    spelled = [spell(call, given, f"t{number}") for number, (call, given) in enumerate(changed) if given is not None]
    lines = [*(line for line, _ in spelled), *(line for _, line in spelled)]
    (checked.workspace / f"main.{SUFFIXES[language]}").write_text("\n".join(lines), encoding="utf-8")
    # In this process, because of a program the check tells a few mistakes only.
    compiler = importlib.import_module("checking.compiler")
    for name, path in environment().items():
        monkeypatch.setattr(compiler, f"_{name.removeprefix('CODE_EXECUTOR_')}", path, raising=False)
    main, judge = importlib.import_module("checking.main"), importlib.import_module(f"checking.{language}")
    monkeypatch.setattr(judge, "_MAX_JUDGED", 100_000)
    monkeypatch.chdir(checked.workspace)
    found = {"python": main._in_python, "typescript": main._in_typescript}[language](str(checked.workspace))
    rejected = {mistake.line for mistake in found or ()}
    return lines[len(spelled) :], [lines[line - 1] for line in sorted(rejected)]


@pytest.mark.parametrize("language", SUFFIXES)
def test_a_right_call_of_a_real_tool_is_never_rejected(
    real: tuple[Checked, list[Call]], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, rejected = made_and_rejected(real, language, unchanged, monkeypatch)
    assert len(made) > MANY
    assert rejected == []


@pytest.mark.parametrize("change", [missing, unknown, of_another_type])
@pytest.mark.parametrize("language", SUFFIXES)
def test_a_wrong_call_of_a_real_tool_is_rejected(
    real: tuple[Checked, list[Call]], language: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, rejected = made_and_rejected(real, language, change, monkeypatch)
    missed = [line for line in made if line not in rejected]
    assert len(made) > MANY
    assert len(missed) <= MAY_BE_MISSED * len(made), missed[:5]
