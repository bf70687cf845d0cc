from __future__ import annotations

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import learned, observe
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
    seen = "now(args?: object): Promise<{ hour: number }> /* observed */"
    assert signature(CLOCK, Language.TYPESCRIPT, shape) == seen
    assert signature(CLOCK, Language.PYTHON, shape) == 'now() -> {"hour": int}  # observed'


def test_signature_shows_maps_and_rows_that_vary() -> None:
    sql = Tool("db", "sql", input_schema={"properties": {"by": {"additionalProperties": {"type": "string"}}}})
    rows = [observe({"structuredContent": [{name: 1}]}) for name in ("id", "total")]
    assert rows[0]
    assert rows[1]
    shape = learned(rows[0], rows[1])
    assert signature(sql, Language.TYPESCRIPT, shape) == (
        "sql(args?: { by?: Record<string, string> }): Promise<Record<string, JsonValue>[]> /* observed */"
    )
    assert signature(sql, Language.PYTHON, shape) == (
        "sql(*, by: dict[str, str] = ...) -> list[dict[str, Any]]  # observed"
    )


def test_signature_says_when_a_call_always_gives_a_list() -> None:
    rows = Tool("db", "rows", lists_contents=True)
    assert signature(rows, Language.TYPESCRIPT) == "rows(args?: object): Promise<unknown[]>"
    assert signature(rows, Language.PYTHON) == "rows(**arguments) -> list[Any]"


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


@pytest.mark.parametrize(
    ("name", "argument", "schema", "value"),
    [
        ("execute", "sql", {"type": "string"}, "select 1"),
        ("run_sql", "query", {"type": "string"}, "select 1"),
        ("find", "query", {"type": "string"}, "example"),
        ("list_directory", "path", {"type": "string"}, "/workspace"),
        ("get_file_info", "path", {"type": "string"}, "/workspace"),
        ("write_file", "path", {"type": "string"}, "/workspace/example.txt"),
        ("read_multiple_files", "paths", {"type": "array", "items": {"type": "string"}}, ["/workspace/example.txt"]),
        ("fetch", "url", {"type": "string"}, "https://example.com/"),
        ("book", "when", {"type": "string", "format": "date"}, "2025-01-31"),
        ("book", "nights", {"type": "integer", "minimum": 3}, 3),
        ("book", "share", {"type": "number", "maximum": 0.5}, 0.5),
        ("book", "room", {"type": "string", "default": "single"}, "single"),
        ("book", "view", {"enum": ["sea", "yard"]}, "sea"),
        ("book", "name", {"type": "string"}, "..."),
    ],
)
def test_example_takes_values_that_work_from_the_schema_or_the_names(
    name: str, argument: str, schema: object, value: object
) -> None:
    tool = Tool("s", name, input_schema={"properties": {argument: schema}, "required": [argument]})
    program = example_call(tool, Language.PYTHON).replace(f"from servers.s import {name}", f"{name} = dict")
    found: dict[str, dict[str, object]] = {}
    exec(program, found)
    assert found["result"] == {argument: value}
