from __future__ import annotations

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import observe
from tests.unit.wrappers.backends import example_call, signature

SEARCH = Tool(
    "web-search",
    "find.pages",
    input_schema={
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "default": 10},
            "query": {"type": "string", "examples": ["weather"]},
            "sort": {"enum": ["date", "rank"]},
            "filters": {"type": "array", "items": {"properties": {"field": {"type": "string"}}, "required": ["field"]}},
        },
        "required": ["query", "filters"],
    },
    output_schema={"type": "object", "properties": {"pages": {"type": "array", "items": {"type": "string"}}}},
)
CLOCK = Tool("clock", "now", input_schema={"type": "object", "properties": {}, "additionalProperties": False})
IMPORT = Tool("files", "import", input_schema={"properties": {"from": {"type": "string"}}, "required": ["from"]})


def test_typescript_signature() -> None:
    assert signature(SEARCH, Language.TYPESCRIPT) == (
        'find_pages(args: { limit?: number; query: string; sort?: "date" | "rank"; filters: { field: string }[] }): '
        "Promise<{ pages?: string[] }>"
    )
    assert signature(CLOCK, Language.TYPESCRIPT) == "now(args?: object): Promise<unknown>"


def test_python_signature_has_required_arguments_first() -> None:
    assert signature(SEARCH, Language.PYTHON) == (
        'find_pages(*, query: str, filters: list[{"field": str}], limit: int = ..., sort: "date" | "rank" = ...) -> '
        '{"pages"?: list[str]}'
    )
    assert signature(CLOCK, Language.PYTHON) == "now() -> Any"


def test_signature_shows_an_observed_result() -> None:
    shape = observe({"content": [{"type": "text", "text": '{"hour": 7}'}]})
    assert signature(CLOCK, Language.TYPESCRIPT, shape) == "now(args?: object): Promise<{ hour: number }>"


def test_signature_of_a_large_tool_leaves_out_the_details() -> None:
    inner = {"properties": {f"part{n}": {"properties": {"deep": {"type": "string"}}} for n in range(30)}}
    tool = Tool("s", "t", input_schema={"properties": {"a": inner, "b": inner}})
    assert signature(tool, Language.TYPESCRIPT) == "t(args?: { a?: object; b?: object }): Promise<unknown>"


def test_example_gives_what_is_required() -> None:
    assert example_call(SEARCH, Language.TYPESCRIPT) == (
        'import { find_pages } from "/workspace/servers/web_search/find_pages.js";\n'
        'const result = await find_pages({ query: "weather", filters: [{ field: "..." }] });'
    )
    assert example_call(SEARCH, Language.PYTHON) == (
        'from servers.web_search import find_pages\nresult = find_pages(query="weather", filters=[{"field": "..."}])'
    )


def test_example_without_arguments_is_a_plain_call() -> None:
    assert example_call(CLOCK, Language.PYTHON).endswith("\nresult = now()")
    assert example_call(CLOCK, Language.TYPESCRIPT).endswith("= await now();")


def test_example_with_an_argument_that_is_no_keyword_gives_a_dict() -> None:
    assert (
        example_call(IMPORT, Language.PYTHON) == 'from servers.files import import_\nresult = import_({"from": "..."})'
    )


@pytest.mark.parametrize("tool", [SEARCH, CLOCK, IMPORT])
def test_python_example_compiles(tool: Tool) -> None:
    compile(example_call(tool, Language.PYTHON), "example.py", "exec")
