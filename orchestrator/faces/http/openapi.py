"""The OpenAPI description, derived from the table of routes and their models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Literal

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from orchestrator.faces.http.problems import PROBLEM_JSON, Problem
from orchestrator.faces.http.requests import JSON
from orchestrator.faces.http.route import Errors, Reply, Route
from orchestrator.faces.status import status_of
from orchestrator.service.schemas import schema_of

Json = dict[str, Any]

DOCUMENT: web.AppKey[Json] = web.AppKey("openapi", dict)


def document(routes: Sequence[Route], version: str) -> Json:
    paths: dict[str, Json] = defaultdict(dict)
    for route in routes:
        paths[route.path][route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MCP Code Executor",
            "version": version,
            "description": "Runs a program in a fresh, locked-down container that is destroyed afterwards.",
        },
        "paths": dict(paths),
        "components": {
            "schemas": _schemas(routes),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        "security": [{"bearer": []}, {"apiKey": []}],
    }


def _operation(route: Route) -> Json:
    operation: Json = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "responses": {**_problems(route.all_errors), **{str(reply.status): _reply(reply) for reply in route.replies}},
    }
    if parameters := [*_declared(route), *_queried(route.query)]:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(route.body)}}}
    if route.takes is not None:
        operation["requestBody"] = {"required": True, "content": {route.takes: {"schema": {}}}}
    if route.public:
        operation["security"] = []
    return operation


def _reply(reply: Reply) -> Json:
    schema = _ref(reply.model) if reply.model is not None else {}
    content: Json = {reply.media_type: {"schema": schema}} if reply.status != HTTPStatus.NO_CONTENT else {}
    if reply.events:
        when = "With `Accept: text/event-stream`: events" if reply.model is not None else "Events"
        content["text/event-stream"] = {
            "schema": {"type": "string", "description": f"{when} named {', '.join(reply.events)}."},
            # OpenAPI 3.1 has no words for the events of a stream.
            "x-events": {name: _ref(model) for name, model in reply.events.items()},
        }
    return {"description": reply.description, "content": content}


def _problems(errors: Errors) -> Json:
    """One response for each status, which names every error that has it."""
    by_status: dict[int, list[str]] = defaultdict(list)
    for error in errors:
        hint = " ".join((error.__doc__ or "").split())
        by_status[status_of(error).value].append(f"- `{error.code}`: {hint}")
    return {
        str(status): {"description": "\n".join(told), "content": {PROBLEM_JSON: {"schema": _ref(Problem)}}}
        for status, told in sorted(by_status.items())
    }


def _declared(route: Route) -> Iterable[Json]:
    for parameter in route.parameters:
        yield {
            "name": parameter.name,
            "in": parameter.place,
            "required": parameter.required,
            "schema": dict(parameter.schema),
            "description": parameter.description,
        }


def _queried(query: type[BaseModel]) -> Iterable[Json]:
    for name, field in schema_of(query)["properties"].items():
        # An option that may be absent is `anyOf` with null; a parameter is simply not required.
        choices = [choice for choice in field.get("anyOf", [field]) if choice != {"type": "null"}]
        told = {**choices[0]}
        for absent in ("description", "default"):
            told.pop(absent, None)
        if field.get("default") not in (None, []):
            told["default"] = field["default"]
        yield {"name": name, "in": "query", "required": False, "schema": told, "description": field["description"]}


def _schemas(routes: Iterable[Route]) -> Json:
    models: dict[type[BaseModel], Literal["validation", "serialization"]] = {Problem: "serialization"}
    for route in routes:
        if route.body is not None:
            models[route.body] = "validation"
        for reply in route.replies:
            models.update(dict.fromkeys(filter(None, (reply.model, *reply.events.values())), "serialization"))
    _, definitions = models_json_schema(
        list(models.items()), by_alias=True, ref_template="#/components/schemas/{model}"
    )
    schemas: Json = definitions["$defs"]
    return schemas


def _ref(model: type[BaseModel]) -> Json:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
