"""The description of the API is made from the routes, so it tells all of them, and tells them well."""

import json
import re

import pytest

from orchestrator.faces.http.events import EVENTS
from orchestrator.faces.http.openapi import document
from orchestrator.faces.http.routes import ROUTES

DOCUMENT = document(ROUTES, "1")
OPERATIONS = [
    (path, method, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
each_operation = pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)


def test_every_route_is_described_under_an_id_of_its_own():
    assert len(OPERATIONS) == len(ROUTES)
    assert len({operation["operationId"] for _, _, operation in OPERATIONS}) == len(ROUTES)


@each_operation
def test_an_operation_has_a_sentence_and_typed_replies(path, method, operation):
    assert re.fullmatch(r"[A-Z][^.]{10,}[^.]", operation["summary"])
    for status, reply in operation["responses"].items():
        assert reply["description"].strip()
        for media_type, content in reply["content"].items():
            is_typed = media_type.endswith("json") and (path, status) != ("/openapi.json", "200")
            assert ("$ref" in content["schema"]) == is_typed, (path, status, media_type)


@each_operation
def test_each_error_is_named_with_what_to_do(path, method, operation):
    problems = [reply for status, reply in operation["responses"].items() if status[0] in "45" and status != "503"]
    assert problems
    for reply in problems:
        assert re.fullmatch(r"(- `[a-z_]+`: [A-Z].+\.\n?)+", reply["description"])


def test_every_reference_leads_to_a_schema_that_says_something():
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert names == set(DOCUMENT["components"]["schemas"])
    assert all(DOCUMENT["components"]["schemas"][name] for name in names)


def test_no_two_schemas_share_a_name():
    """They would be told apart by where they are in our source."""
    assert [name for name in DOCUMENT["components"]["schemas"] if "__" in name] == []


def test_the_events_of_a_stream_are_typed_and_tool_calls_are_among_them():
    stream = DOCUMENT["paths"]["/execute"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    assert set(stream["x-events"]) == set(EVENTS)
    assert stream["x-events"]["tool_call"] == {"$ref": "#/components/schemas/ToolCallBody"}
    assert "tool_call" in stream["schema"]["description"]


def test_the_filters_of_the_list_are_described_with_their_values():
    parameters = {each["name"]: each["schema"] for each in DOCUMENT["paths"]["/executions"]["get"]["parameters"]}
    assert set(parameters) == {
        "limit", "before", "state", "outcome", "caller", "language", "kind", "tool", "text", "since", "until",
    }  # fmt: skip
    assert parameters["limit"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    assert parameters["language"] == {"type": "string", "enum": ["typescript", "python"]}
    assert parameters["since"] == {"type": "string", "format": "date-time"}
