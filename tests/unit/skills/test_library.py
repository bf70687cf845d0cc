"""The built-in skills: each is complete, and says of itself what is true."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import orchestrator
from orchestrator.domain.skills import (
    MAX_CODE_BYTES,
    MAX_EXAMPLE_BYTES,
    MAX_EXAMPLES,
    MAX_SCHEMA_BYTES,
    MAX_TOOLS,
    canonical_json,
    require_skill_name,
)

LIBRARY = Path(orchestrator.__file__).parent / "skills"
MAX_LINE_CHARACTERS = 200
NAMES = sorted(file.stem for file in LIBRARY.glob("*.json"))

PYTHON_IMPORT = re.compile(r"^from servers\.(\w+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)
TYPESCRIPT_IMPORT = re.compile(r"^import \{ (\w+) \} from '/workspace/servers/(\w+)/(\w+)\.js';$", re.MULTILINE)


def document(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((LIBRARY / f"{name}.json").read_text())
    return parsed


def code_file(name: str) -> Path:
    (file,) = [file for file in LIBRARY.glob(f"{name}.*") if file.suffix in (".py", ".ts")]
    return file


def imported_tools(file: Path) -> list[str]:
    code = file.read_text()
    if file.suffix == ".ts":
        return sorted(f"{server}/{tool}" for _, server, tool in TYPESCRIPT_IMPORT.findall(code))
    return sorted(
        f"{server}/{tool.strip()}"
        for server, wrapped, plain in PYTHON_IMPORT.findall(code)
        for tool in (wrapped or plain).split(",")
        if tool.strip()
    )


def objects_in(schema: Any) -> list[dict[str, Any]]:
    """Return every schema in it that has properties."""
    if isinstance(schema, list):
        return [found for each in schema for found in objects_in(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" and "properties" in schema else []
    return own + [found for each in schema.values() for found in objects_in(each)]


def test_there_are_ten_skills_in_both_languages() -> None:
    assert len(NAMES) == 10
    assert {code_file(name).suffix for name in NAMES} == {".py", ".ts"}


def test_every_file_belongs_to_a_skill() -> None:
    expected = {file.name for name in NAMES for file in (code_file(name), LIBRARY / f"{name}.json")}
    assert {file.name for file in LIBRARY.iterdir() if file.is_file()} == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_skill_has_these_fields_and_no_others(name: str) -> None:
    assert list(document(name)) == ["description", "input", "output", "tools", "examples"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_fits(name: str) -> None:
    assert require_skill_name(name) == name


@pytest.mark.parametrize("name", NAMES)
def test_a_description_is_one_line(name: str) -> None:
    description = document(name)["description"]
    assert 0 < len(description) <= MAX_LINE_CHARACTERS
    assert description == " ".join(description.split())


@pytest.mark.parametrize("name", NAMES)
def test_an_input_is_an_object_with_described_properties(name: str) -> None:
    schema = document(name)["input"]
    assert schema["type"] == "object"
    assert [key for key, each in schema["properties"].items() if not each.get("description")] == []


@pytest.mark.parametrize("part", ["input", "output"])
@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_bounded_and_has_closed_objects(name: str, part: str) -> None:
    schema = document(name)[part]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert len(canonical_json(schema)) <= MAX_SCHEMA_BYTES
    for each in objects_in(schema):
        assert each["additionalProperties"] is False
        assert set(each["required"]) <= set(each["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_a_default_fits_its_property_which_may_be_left_out(name: str) -> None:
    schema = document(name)["input"]
    for key, each in schema["properties"].items():
        if "default" in each:
            jsonschema.validate(each["default"], each)
            assert key not in schema["required"]


@pytest.mark.parametrize("name", NAMES)
def test_examples_fit_the_input(name: str) -> None:
    skill = document(name)
    assert 1 <= len(skill["examples"]) <= MAX_EXAMPLES
    for example in skill["examples"]:
        assert list(example) == ["input"]
        assert len(canonical_json(example)) <= MAX_EXAMPLE_BYTES
        jsonschema.validate(example["input"], skill["input"])


@pytest.mark.parametrize("name", NAMES)
def test_the_tools_are_those_that_the_code_imports(name: str) -> None:
    tools = document(name)["tools"]
    assert tools == imported_tools(code_file(name))
    assert 1 <= len(set(tools)) == len(tools) <= MAX_TOOLS


@pytest.mark.parametrize("name", NAMES)
def test_code_is_bounded_and_defines_run(name: str) -> None:
    file = code_file(name)
    code = file.read_text()
    assert len(code.encode()) <= MAX_CODE_BYTES
    if file.suffix == ".py":
        functions = {each.name: each for each in ast.parse(code).body if isinstance(each, ast.FunctionDef)}
        assert [argument.arg for argument in functions["run"].args.args] == ["input"]
    else:
        assert len(re.findall(r"^export default async function run\(input: ", code, re.MULTILINE)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_code_reads_only_inputs_that_the_schema_has(name: str) -> None:
    code = code_file(name).read_text()
    read = set(re.findall(r"""\binput(?:\.get\(|\[)["'](\w+)["']""", code))
    assert read <= set(document(name)["input"]["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_code_knows_neither_clock_nor_chance(name: str) -> None:
    unsteady = r"\b(?:datetime|random|secrets|time|uuid|Date|Math\.random|performance|crypto\.random\w+)\b"
    code = code_file(name).read_text()
    assert re.findall(rf"(?:import |from |new |= ){unsteady}|{unsteady}(?:\.|\()", code) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_writes_into_files_or_buckets_is_dry_by_default(name: str) -> None:
    skill = document(name)
    if {"filesystem/write_file", "minio/upload_object"} & set(skill["tools"]):
        assert skill["input"]["properties"]["dryRun"]["default"] is True
        assert all(example["input"].get("dryRun", True) for example in skill["examples"])


QUERIES = ["query_to_csv", "chart_report", "rows_to_objects"]


def one_query(name: str, sql: str) -> Any:
    """Run the function that checks a query, without what the rest of the skill imports."""
    (function,) = [
        each
        for each in ast.parse(code_file(name).read_text()).body
        if isinstance(each, ast.FunctionDef) and each.name == "one_query"
    ]
    names: dict[str, Any] = {"re": re}
    exec(compile(ast.Module([function], []), name, "exec"), names)
    return names["one_query"](sql)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("sql", ["select 1", "select 1;", "\n SELECT 1 ;\n", "with a as (select 1) select * from a;"])
def test_a_query_may_end_with_a_semicolon_which_is_left_out(name: str, sql: str) -> None:
    assert one_query(name, sql).split() == sql.replace(";", "").split()


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    "sql", ["", ";", "selected", "delete from t", "select 1;;", "select 1; select 2", "select 1; drop table t;"]
)
def test_what_is_not_one_query_is_refused(name: str, sql: str) -> None:
    with pytest.raises(ValueError, match="one statement that begins with select or with"):
        one_query(name, sql)


def test_every_skill_that_takes_sql_is_tested_above() -> None:
    assert sorted(QUERIES) == [name for name in NAMES if "sql" in document(name)["input"]["properties"]]
