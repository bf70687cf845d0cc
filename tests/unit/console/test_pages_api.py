"""The description of the API as the page shows it: schemas, errors, requests and curl."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from orchestrator.faces.http.openapi import document
from orchestrator.faces.http.routes import ROUTES
from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes

DOCUMENT = document(ROUTES, "1.0.0")


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    found = ask("pages/openapi.js", "module.operationsOf(root)", root=DOCUMENT)
    return {each["id"]: each for each in found}


def test_every_route_has_its_place_in_the_index(operations: dict[str, Any]) -> None:
    topics = ask("pages/openapi.js", "module.topicsOf(module.operationsOf(root))", root=DOCUMENT)
    listed = [each["id"] for topic in topics for each in topic["operations"]]
    assert sorted(listed) == sorted(route.operation_id for route in ROUTES) == sorted(operations)
    assert len({topic["id"] for topic in topics}) == len(topics)
    assert topics[0]["name"] == "Executions"


def test_every_error_is_told_with_what_to_do(operations: dict[str, Any]) -> None:
    untold = [
        (name, error)
        for name, each in operations.items()
        for error in each["errors"]
        if name != "isReady" and not (error["code"] and error["hint"])
    ]
    assert untold == []
    assert operations["execute"]["errors"]


def test_what_nearly_every_request_can_get_is_told_once() -> None:
    common = ask("pages/openapi.js", "module.commonErrors(module.operationsOf(root))", root=DOCUMENT)
    codes = {error["code"] for error in common}
    assert "unauthenticated" in codes
    assert "queue_full" not in codes


def test_calls_are_found_by_path_summary_and_error() -> None:
    found = "module.matching(module.operationsOf(root), text).map((each) => each.id)"
    assert ask("pages/openapi.js", found, root=DOCUMENT, text="queue_full post")[0] == "execute"
    assert ask("pages/openapi.js", found, root=DOCUMENT, text="FRESH sandbox") == ["execute", "runSkill"]
    assert ask("pages/openapi.js", found, root=DOCUMENT, text="no such call") == []
    assert len(ask("pages/openapi.js", found, root=DOCUMENT, text=" ")) == len(ROUTES)


def test_every_code_of_an_error_leads_to_the_calls_that_have_it(operations: dict[str, Any]) -> None:
    index = ask("pages/openapi.js", "module.errorIndex(module.operationsOf(root))", root=DOCUMENT)
    codes = [entry["code"] for entry in index]
    assert codes == sorted({error["code"] for each in operations.values() for error in each["errors"] if error["code"]})
    [full] = [entry for entry in index if entry["code"] == "queue_full"]
    assert "execute" in [each["id"] for each in full["operations"]]


def test_a_body_begins_with_what_is_required_and_its_example() -> None:
    execute = "module.operationsOf(root).find((each) => each.id === 'execute')"
    form = ask("pages/openapi.js", f"module.initialForm({execute}, root)", root=DOCUMENT)
    assert form["body"] == '{\n  "code": "console.log(2 + 2)"\n}'


OPERATION = {
    "id": "x",
    "method": "POST",
    "path": "/things/{id}/files/{name}",
    "parameters": [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "q", "in": "query", "required": False, "schema": {"type": "array"}},
        {"name": "Range", "in": "header", "required": False, "schema": {"type": "string"}},
    ],
    "body": {"type": "application/json", "schema": {}},
    "streams": False,
}
FORM = {
    "values": {"path.id": "a?b", "path.name": "x/y z", "query.q": "one\n two & three\n", "header.Range": "bytes=0-1"},
    "body": '{"it\'s": 1}',
}


def test_a_form_becomes_a_request_whose_values_stay_where_they_belong() -> None:
    request = ask("pages/openapi.js", "module.requestOf(operation, form)", operation=OPERATION, form=FORM)
    assert request == {
        "method": "POST",
        "path": "/things/a%3Fb/files/x/y%20z?q=one&q=two+%26+three",
        "headers": {"Range": "bytes=0-1", "Content-Type": "application/json"},
        "body": '{"it\'s": 1}',
    }


def test_curl_gets_each_value_as_one_word_and_the_key_from_the_environment() -> None:
    curl = ask(
        "pages/openapi.js",
        "module.curlOf('http://h', module.requestOf(operation, form), false)",
        operation=OPERATION,
        form=FORM,
    )
    assert "Authorization: Bearer $CODE_EXECUTOR_KEY" in curl
    words = shlex.split(curl.replace("\\\n", " "))
    assert words[words.index("--data") + 1] == '{"it\'s": 1}'
    assert words[-1] == "http://h/things/a%3Fb/files/x/y%20z?q=one&q=two+%26+three"


def test_a_request_without_a_required_value_is_not_complete() -> None:
    missing = ask("pages/openapi.js", "module.missingValues(operation, {'path.id': ' '})", operation=OPERATION)
    assert missing == ["id", "name"]


# --- schemas ---


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "integer[]"),
        ({"type": "array", "items": {"enum": ["a", 1]}}, '("a" | 1)[]'),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"additionalProperties": {"type": "string"}, "type": "object"}, "map of string"),
        ({"$ref": "#/defs/Thing"}, "Thing"),
        ({"$ref": "#/defs/Absent"}, "any"),
        ({"$ref": "https://elsewhere.invalid/schema"}, "any"),
        (True, "any"),
        (None, "any"),
        ({"type": 7, "properties": "no"}, "any"),
    ],
)
def test_a_schema_is_told_in_a_few_words_whatever_it_is(schema: object, kind: str) -> None:
    root = {"defs": {"Thing": {"type": "object", "properties": {"a": {}}}}}
    assert ask("pages/schemas.js", "module.kind(schema, root)", schema=schema, root=root) == kind


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    root = {"defs": {"Node": {"properties": {"next": {"$ref": "#/defs/Node"}}, "required": ["next"]}}}
    looping = {"$ref": "#/loop"}
    assert ask("pages/schemas.js", "module.sample({$ref: '#/defs/Node'}, root)", root=root)
    assert ask("pages/schemas.js", "module.properties({$ref: '#/defs/Node'}, root)[0].name", root=root) == "next"
    assert ask("pages/schemas.js", "module.kind(root.loop, root)", root={"loop": looping}) == "any"


def test_an_address_that_is_not_well_formed_stays_as_it_is() -> None:
    assert ask("pages/schemas.js", "['a%20b', '%', ''].map(module.decoded)") == ["a b", "%", ""]


def test_limits_of_a_value_are_told() -> None:
    schema = {"anyOf": [{"type": "integer", "minimum": 1, "exclusiveMaximum": 9}, {"type": "null"}]}
    assert ask("pages/schemas.js", "module.constraints(schema, {})", schema=schema) == ["≥ 1", "< 9"]


def test_code_in_a_sentence_is_found() -> None:
    assert ask("pages/texts.js", "module.pieces('Use `a` or `b`.')") == [
        {"code": False, "text": "Use "},
        {"code": True, "text": "a"},
        {"code": False, "text": " or "},
        {"code": True, "text": "b"},
        {"code": False, "text": "."},
    ]
    assert ask("pages/texts.js", "module.paragraphs('one\\r\\ntwo\\n\\n\\nthree\\n')") == ["one\ntwo", "three"]


@pytest.mark.parametrize(
    ("signature", "result"),
    [
        ("f(args: { a: string }): Promise<unknown>", "unknown"),
        ("f(): Promise<Record<string, A>[]> /* observed */", "Record<string, A>[]"),
        ("f(args: {}): Promise<{ rows: { n: number }[] }>", "{ rows: { n: number }[] }"),
        ("something else", "something else"),
    ],
)
def test_the_shape_of_a_result_is_taken_out_of_a_signature(signature: str, result: str) -> None:
    assert ask("pages/texts.js", "module.resultType(signature)", signature=signature) == result
