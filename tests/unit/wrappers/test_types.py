"""What a schema becomes in both languages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from orchestrator.domain.tools import Tool
from orchestrator.wrappers import Shape, generate, learned, observe
from orchestrator.wrappers.schema import read_schema
from tests.unit.client_library.workspace import Workspace


def sources(schema: Any, observed: Shape | None = None) -> tuple[str, str]:
    tool = Tool("s", "t", output_schema=None if observed else {"properties": {"it": schema}, "required": ["it"]})
    files = generate([tool], {"s/t": observed} if observed else {}).files
    return files["servers/s/t.ts"], files["servers/s/t.py"]


TYPES: list[tuple[Any, str, str]] = [
    ({"type": "string"}, "string", "str"),
    ({"type": "integer"}, "number", "int"),
    ({"type": "number"}, "number", "float"),
    ({"type": "null"}, "null", "None"),
    ({"type": ["string", "null"]}, "string | null", "str | None"),
    ({"type": "string", "nullable": True}, "string | null", "str | None"),
    ({"enum": ["a", 1, True, None]}, '"a" | 1 | true | null', 'Literal["a", 1, True, None]'),
    ({"const": "x"}, '"x"', 'Literal["x"]'),
    ({"enum": [1, True]}, "1 | true", "Literal[1, True]"),
    ({"enum": [1.5, 2.5]}, "1.5 | 2.5", "float"),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | number", "str | int"),
    ({"oneOf": [{"const": "a"}, {"const": "b"}]}, '"a" | "b"', 'Literal["a", "b"]'),
    ({"anyOf": [{"type": "number"}, {"not": {}}, {"type": "null"}]}, "number | null", "float | None"),
    ({"allOf": [{"type": "number"}, {"type": "integer"}]}, "number", "int"),
    ({"type": "array", "items": {"type": "string"}}, "string[]", "list[str]"),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]', 'list[Literal["a", "b"]]'),
    ({"type": "array"}, "unknown[]", "list[Any]"),
    (
        {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
        "[string, number]",
        "list[str | float]",
    ),
    ({"items": [{"type": "string"}], "additionalItems": {"type": "null"}}, "[string, ...null[]]", "list[str | None]"),
    ({"type": "object"}, "{ [key: string]: unknown }", "dict[str, Any]"),
    ({"additionalProperties": {"type": "number"}}, "{ [key: string]: number }", "dict[str, float]"),
    ({"patternProperties": {"^x": {"type": "string"}}}, "{ [key: string]: string }", "dict[str, str]"),
    ({"type": "object", "additionalProperties": False}, "Record<string, never>", "dict[str, Any]"),
    (True, "unknown", "Any"),
    ({}, "unknown", "Any"),
    ({"description": "anything"}, "unknown", "Any"),
    (False, "unknown /* no value is allowed here */", "Any"),
    ({"type": "strnig"}, "unknown /* the type 'strnig' is not known */", "Any"),
    ({"type": {"odd": 1}}, "unknown /* the type something that is no name is not known */", "Any"),
    ("nonsense", "unknown /* the schema is not valid */", "Any"),
    ({"$ref": "https://elsewhere/x"}, "unknown /* refers to 'https://elsewhere/x', which is not there */", "Any"),
    ({"$ref": "#/$defs/absent"}, "unknown /* refers to '#/$defs/absent', which is not there */", "Any"),
]


@pytest.mark.parametrize(("schema", "typescript", "python"), TYPES, ids=[str(schema) for schema, _, _ in TYPES])
def test_type_is_spelled_in_both_languages(schema: Any, typescript: str, python: str) -> None:
    in_typescript, in_python = sources(schema)
    assert f"\n  it: {typescript};\n" in in_typescript
    assert f"\n    it: {python}\n" in in_python


def test_all_these_types_satisfy_the_compilers(workspace: Workspace) -> None:
    tools = [
        Tool("s", f"t{number}", input_schema={"properties": {"it": schema}}, output_schema=schema)
        for number, (schema, _, _) in enumerate(TYPES)
    ]
    workspace.add_tools(*tools)
    assert workspace.check_typescript() == ""
    assert workspace.check_python() == ""


HARD: dict[str, Any] = {
    "list that contains itself": {
        "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
        "$ref": "#/$defs/n",
    },
    "tree": {
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}},
    },
    "root that contains itself": {"properties": {"child": {"$ref": "#"}, "text": {"type": "string"}}},
    "definition that is itself": {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "two definitions that are each other": {
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}},
    },
    "root that is one of its own options": {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
    "union and its definition are each other": {"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#"}}},
    "map of itself": {"$defs": {"m": {"additionalProperties": {"$ref": "#/$defs/m"}}}, "$ref": "#/$defs/m"},
    "keys that are names of types": {
        "properties": {key: {"type": "array", "items": {"type": "string"}} for key in ("list", "str", "Any", "dict")}
    },
    "keys that are no identifiers": {
        "properties": {key: {"type": "string"} for key in ("a-b", "class", "__x", "", "1", "__proto__", "é", "ﬁ")},
        "required": ["class"],
    },
    "nested objects of the same name": {
        "properties": {
            "a": {"properties": {"b": {"properties": {"c": {"type": "string"}}}}},
            "aB": {"properties": {"c": {"type": "integer"}}},
        }
    },
    "definitions of the same name": {
        "properties": {"x": {"$ref": "#/$defs/a-b"}, "y": {"$ref": "#/$defs/a_b"}, "z": {"$ref": "#/$defs/a~1b"}},
        "$defs": {"a-b": {"properties": {"p": {}}}, "a_b": {"properties": {"q": {}}}, "a/b": {"type": "string"}},
    },
    "objects that are combined": {
        "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}],
        "$defs": {"base": {"properties": {"a": {"type": "string"}}, "required": ["a"]}},
    },
    "alternatives of what is required": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "fields beside further keys": {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}},
    "required but not described": {"required": ["ghost"], "properties": {}},
    "names that are no names": {
        "required": [["x"], {}, "a"],
        "properties": {
            "a": {"type": [["string"], "null"]},
            "b": {"$ref": {}},
            "c": {"$ref": "#/required/" + "9" * 5000},
        },
    },
    "words of the wrong type": {"properties": [], "required": "x", "items": 3, "enum": {}, "anyOf": 1, "allOf": {}},
}


def test_hard_schemas_satisfy_the_compilers(workspace: Workspace) -> None:
    workspace.add_tools(*(Tool("s", name, input_schema=schema, output_schema=schema) for name, schema in HARD.items()))
    assert workspace.check_typescript() == ""
    assert workspace.check_python() == ""


def test_combined_objects_become_one() -> None:
    tool = Tool("s", "t", output_schema=HARD["objects that are combined"])
    in_typescript = generate([tool]).files["servers/s/t.ts"]
    assert "export type TOutput = {\n  a: string;\n  b: number;\n};" in in_typescript


def test_recursive_type_refers_to_its_name() -> None:
    in_typescript = generate([Tool("s", "t", output_schema=HARD["tree"])]).files["servers/s/t.ts"]
    assert "root?: TOutputNode;" in in_typescript
    assert "export type TOutputNode = {\n  children?: TOutputNode[];\n};" in in_typescript


def test_schema_that_grows_without_limit_is_cut_short() -> None:
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(30)}
    schema = {"$ref": "#/$defs/d0", "$defs": definitions}
    assert "the schema is too large" in generate([Tool("s", "t", output_schema=schema)]).files["servers/s/t.ts"]


def test_schema_nested_beyond_all_limits_is_cut_short() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"properties": {"x": schema}, "default": schema, "examples": [schema]}
    files = generate([Tool("s", "t", input_schema=schema, output_schema=schema)]).files
    assert "the schema is too large" in files["servers/s/t.ts"]
    compile(files["servers/s/t.py"], "t.py", "exec")


def test_observed_result_is_marked_as_observed() -> None:
    shape = observe({"content": [{"type": "text", "text": '{"rows": [{"id": 1, "name": "x"}, {"id": 2}]}'}]})
    in_typescript, in_python = sources({}, shape)
    assert (
        "/** Observed in earlier results; the server does not promise it. */\nexport type TObserved = {"
        in in_typescript
    )
    assert "export type TObservedRowsItem = {\n  id: number;\n  name?: string;\n};" in in_typescript
    assert "# Observed in earlier results; the server does not promise it.\nclass TObserved(TypedDict):" in in_python
    assert "class TObservedRowsItem(TypedDict):" in in_python
    for source in (in_typescript, in_python):
        assert "The type of its result was observed in earlier results; the server does not promise it." in source
        assert "TOutput" not in source
    assert "name: NotRequired[str]" in in_python


def test_declared_result_prevails_over_an_observed_one() -> None:
    shape = observe({"content": [{"type": "text", "text": "x"}]})
    assert shape
    tool = Tool("s", "t", output_schema={"type": "object"})
    assert generate([tool], {"s/t": shape}).files == generate([tool]).files


def test_observed_image_has_the_type_of_the_client_library(workspace: Workspace) -> None:
    shape = observe(
        {"content": [{"type": "image", "data": "", "mimeType": "image/png"}, {"type": "text", "text": "x"}]}
    )
    assert shape
    workspace.add_tools(Tool("s", "t"), observed={"s/t": shape})
    assert "export type TObserved = ($Image | string)[];" in (workspace.path / "servers/s/t.ts").read_text()
    assert workspace.check_typescript() == ""
    assert workspace.check_python() == ""


def test_descriptions_and_limits_are_doc_comments() -> None:
    schema = {"properties": {"n": {"type": "integer", "description": "How many.", "default": 5, "maximum": 9}}}
    files = generate([Tool("s", "t", "Counts.\nSlowly.", schema)]).files
    assert "  /**\n   * How many.\n   * default: 5, maximum: 9\n   */\n  n?: number;" in files["servers/s/t.ts"]
    assert "    # How many.\n    # default: 5, maximum: 9\n    n: NotRequired[int]" in files["servers/s/t.py"]
    assert "/**\n * Counts.\n * Slowly.\n" in files["servers/s/t.ts"]
    assert '"""\n    Counts.\n    Slowly.\n' in files["servers/s/t.py"]


def test_tool_may_be_called_like_a_type(workspace: Workspace) -> None:
    names = ["list", "str", "dict", "int", "Any", "Literal", "Promise", "Record", "type", "string", "any", "overload"]
    schema = {"properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": {"type": "object"}}}
    workspace.add_tools(*(Tool("s", name, input_schema=schema, output_schema=schema) for name in names))
    assert workspace.check_typescript() == ""
    assert workspace.check_python() == ""


def test_tools_whose_types_would_be_called_alike_share_an_index(workspace: Workspace) -> None:
    workspace.add_tools(Tool("s", "get_user"), Tool("s", "getUser"), Tool("s", "GetUser_Input"))
    assert workspace.check_typescript() == ""
    assert workspace.check_python() == ""


def test_a_long_chain_of_references_is_cut_and_spares_the_other_tools() -> None:
    chain = {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(1200)}
    bad = Tool("s", "bad", input_schema={"$ref": "#/$defs/0", "$defs": {**chain, "1200": {"type": "object"}}})
    written = generate([bad, Tool("s", "good", input_schema={"type": "object"})])
    assert "servers/s/bad.py" in written.files
    assert "servers/s/good.ts" in written.files


def test_a_schema_that_we_cannot_read_at_all_costs_its_types_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(schema: Any) -> Any:
        if schema:
            raise RuntimeError("a defect")
        return read_schema(schema)

    monkeypatch.setattr("orchestrator.wrappers.contract.read_schema", fails)
    written = generate([Tool("s", "bad", input_schema={"type": "object", "properties": {"a": {}}})])
    assert "unknown" in written.files["servers/s/bad.ts"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(8000)}},
        {"type": "object", "required": [f"p{number}" for number in range(100_000)]},
        {"$ref": "#/$defs/0", "$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}, {}]} for n in range(3000)}},
    ],
    ids=["properties", "required", "definitions"],
)
def test_of_a_schema_without_measure_only_so_much_is_written(schema: Any) -> None:
    written = generate([Tool("s", "t", input_schema=schema)])
    assert "the schema is too large" in written.files["servers/s/t.ts"]
    assert sum(map(len, written.files.values())) < 200_000


def test_many_types_that_want_one_name_get_one_each() -> None:
    properties = {f"p{'-' * number}": {"type": "object", "properties": {"a": {}}} for number in range(300)}
    source = generate([Tool("s", "t", input_schema={"type": "object", "properties": properties})]).files[
        "servers/s/t.py"
    ]
    names = re.findall(r"^(\w+) = TypedDict|^class (\w+)\(TypedDict", source, re.MULTILINE)
    assert len(names) == len(set(names)) > 300


def test_objects_inside_of_objects_have_names_of_their_own_in_both_languages() -> None:
    entries = {"type": "array", "items": {"properties": {"name": {"type": "string"}}, "required": ["name"]}}
    schema = {"properties": {"entries": entries}, "required": ["entries"]}
    files = generate([Tool("s", "t", input_schema=schema, output_schema=schema)]).files
    for name in ("TInput", "TOutput"):
        assert f"export type {name} = {{\n  entries: {name}EntriesItem[];\n}};" in files["servers/s/t.ts"]
        assert f"export type {name}EntriesItem = {{\n  name: string;\n}};" in files["servers/s/t.ts"]
        assert f"class {name}EntriesItem(TypedDict):\n    name: str\n" in files["servers/s/t.py"]


def test_rows_that_vary_are_objects_of_json_values(workspace: Workspace) -> None:
    first, second = (observe({"structuredContent": [{name: 1}]}) for name in ("id", "total"))
    assert first
    assert second
    workspace.add_tools(Tool("s", "t"), observed={"s/t": learned(first, second)})
    assert "export type TObserved = { [key: string]: $JsonValue }[];" in (workspace.path / "servers/s/t.ts").read_text()
    assert 'TObserved: TypeAlias = "list[dict[str, Any]]"' in (workspace.path / "servers/s/t.py").read_text()
    assert workspace.check_typescript() == ""
    assert workspace.check_python() == ""


def test_comment_tells_what_numbers_and_dates_are_written_as() -> None:
    row = {
        "total": "12.50",
        "day": "2025-01-31",
        "at": "2025-01-31T12:00:00Z",
        "id": 2**60,
        "name": "Ada",
        "mixed": "1",
    }
    shape = observe({"structuredContent": {"rows": [row, {**row, "mixed": "x"}]}})
    for source in sources({}, shape):
        found = dict(re.findall(r"^ *(?:/\*\*|#) (an? [^*\n]+?)(?: \*/)?\n *(\w+):", source, re.MULTILINE))
        assert {name: about for about, name in found.items()} == {
            "total": "a number as a string",
            "day": "an ISO 8601 date as a string",
            "at": "an ISO 8601 date and time as a string",
            "id": "an integer that may exceed 2^53, beyond which TypeScript loses digits",
        }
