"""The OpenAPI description, made from the same models that the handlers use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from orchestrator.faces.http.schemas import (
    ExecuteRequest,
    ExecutionDetail,
    ExecutionList,
    ExecutionReply,
    Health,
    Problem,
)
from orchestrator.service.chat_bodies import MembersBody, MessagesBody, SendArguments, SentBody

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
BODIES: tuple[type[BaseModel], ...] = (
    ExecuteRequest,
    ExecutionReply,
    ExecutionDetail,
    ExecutionList,
    Health,
    Problem,
    SendArguments,
    SentBody,
    MessagesBody,
    MembersBody,
)
REQUESTS: tuple[type[BaseModel], ...] = (ExecuteRequest, SendArguments)
CHAT_ERRORS = ("401", "403", "404", "422", "429", "501", "502", "503")
Json = dict[str, Any]
DETAIL: Json = {
    "name": "detail",
    "in": "query",
    "required": False,
    "schema": {"type": "string", "enum": ["name", "description", "full"]},
    "description": "How much to tell of each tool.",
}
SERVER: Json = {
    "name": "server",
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "Only tools of this server.",
}


@lru_cache
def document(version: str) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MCP Code Executor",
            "version": version,
            "description": "Runs a program in a fresh, locked-down container that is destroyed afterwards.",
        },
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        "security": [{"bearer": []}, {"apiKey": []}],
    }


def _schemas() -> Json:
    _, definitions = models_json_schema(
        [(body, "validation" if body in REQUESTS else "serialization") for body in BODIES],
        by_alias=True,
        ref_template="#/components/schemas/{model}",
    )
    schemas: Json = definitions["$defs"]
    return schemas


def _paths() -> Json:
    execution_id = _parameter("id", "path", {"type": "string"}, "The execution's id.", required=True)
    return {
        "/execute": {"post": _execute()},
        "/executions": {
            "get": _operation(
                "List executions, newest first: a caller's own, or all for a role that sees all.",
                {"200": _content("The executions.", ExecutionList)},
                "401",
                "422",
                parameters=[
                    _parameter("limit", "query", _integer(1, 500), "How many, 50 by default."),
                    _parameter("before", "query", _integer(0), "The `next` of the previous page."),
                ],
            )
        },
        "/executions/{id}": {
            "get": _operation(
                "One execution with its output, whole or from `offset` on.",
                {"200": _content("The execution.", ExecutionDetail)},
                "401",
                "404",
                "422",
                parameters=[
                    execution_id,
                    _parameter("offset", "query", _integer(0), "First byte of both streams."),
                    _parameter("length", "query", _integer(1, 1024 * 1024), "Bytes of each stream."),
                ],
            ),
            "delete": _operation(
                "Cancel an execution; answers with its result once it has ended.",
                {"200": _content("The result, with the outcome `cancelled`.", ExecutionReply)},
                "401",
                "404",
                "409",
                parameters=[execution_id],
            ),
        },
        "/executions/{id}/output": {"get": _output(execution_id)},
        "/chat/send": {"post": _chat_send()},
        "/chat/read": {
            "get": _operation(
                "The newest messages of a room, or those since or before an earlier answer.",
                {"200": _content("The messages, oldest first.", MessagesBody)},
                *CHAT_ERRORS,
                parameters=[
                    _room(),
                    _parameter("limit", "query", _integer(1, 100), "How many, 20 by default."),
                    _parameter("since", "query", {"type": "string"}, "The `since` of an earlier answer."),
                    _parameter("before", "query", {"type": "string"}, "The `before` of an earlier answer."),
                ],
            )
        },
        "/chat/who": {
            "get": _operation(
                "The members of a room.",
                {"200": _content("The members.", MembersBody)},
                *CHAT_ERRORS,
                parameters=[_room()],
            )
        },
        "/tools": {
            "get": _operation(
                "The tools that the caller may use, by server, with the state of each server.",
                {"200": _plain("Tools, grouped by server.", JSON)},
                "401",
                "422",
                parameters=[DETAIL, SERVER],
            )
        },
        "/tools/search": {
            "get": _operation(
                "Find tools by what they do; repeat `q` for several wishes at once.",
                {"200": _plain("Tools, best first.", JSON)},
                "401",
                "422",
                parameters=[
                    _parameter("q", "query", {"type": "array", "items": {"type": "string"}}, "What is looked for."),
                    DETAIL,
                    SERVER,
                    _parameter("limit", "query", _integer(1, 100), "How many, 10 by default."),
                ],
            )
        },
        "/tools/info/{server}/{tool}": {
            "get": _operation(
                "One tool: schema, signatures, an example call in both languages.",
                {"200": _plain("The tool.", JSON)},
                "401",
                "403",
                "404",
                parameters=[
                    _parameter("server", "path", {"type": "string"}, "The server's name.", required=True),
                    _parameter("tool", "path", {"type": "string"}, "The tool's name.", required=True),
                ],
            )
        },
        "/whoami": {"get": _operation("The caller and its role.", {"200": _plain("The caller.", JSON)}, "401")},
        "/health": {"get": _public("Health and tool inventory.", {"200": _content("Health.", Health)})},
        "/livez": {"get": _public("Whether the daemon runs.", {"200": _plain("It runs.", JSON)})},
        "/readyz": {
            "get": _public(
                "Whether an execution would work now.",
                {"200": _plain("It would.", JSON), "503": _content("Why not.", Problem, PROBLEM_JSON)},
            )
        },
        "/metrics": {"get": _operation("Prometheus metrics.", {"200": _plain("Metrics.", "text/plain")}, "401")},
        "/openapi.json": {"get": _operation("This document.", {"200": _plain("OpenAPI.", JSON)}, "401")},
        "/docs": {"get": _operation("This document as a page.", {"200": _plain("HTML.", "text/html")}, "401")},
    }


def _execute() -> Json:
    replies = _content("How the program ended; a failing program is also a 200.", ExecutionReply)
    replies["content"]["text/event-stream"] = {
        "schema": {
            "type": "string",
            "description": "With `Accept: text/event-stream`: events started, stdout, stderr, heartbeat, result.",
        }
    }
    operation = _operation("Run a program.", {"200": replies}, "400", "401", "413", "415", "422", "429", "500", "503")
    operation["parameters"] = [
        _parameter(
            "Idempotency-Key",
            "header",
            {"type": "string", "minLength": 1, "maxLength": 255},
            "Requests with the same key share one execution, also after a restart.",
        )
    ]
    operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(ExecuteRequest)}}}
    return operation


def _chat_send() -> Json:
    sent = {"200": _content("The message is in the room.", SentBody)}
    operation = _operation("Post a message to a room.", sent, "400", "415", "504", *CHAT_ERRORS)
    operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(SendArguments)}}}
    return operation


def _room() -> Json:
    return _parameter("room", "query", {"type": "string"}, "Id or alias of the room; the default room if absent.")


def _output(execution_id: Json) -> Json:
    octets = "application/octet-stream"
    return _operation(
        "The raw bytes of one stream; honours a Range header.",
        {"200": _plain("The whole stream.", octets), "206": _plain("The range.", octets)},
        "401",
        "404",
        "416",
        "422",
        parameters=[
            execution_id,
            _parameter("stream", "query", {"type": "string", "enum": ["stdout", "stderr"]}, "Which one."),
            _parameter("Range", "header", {"type": "string"}, "bytes=FIRST-LAST"),
        ],
    )


def _operation(summary: str, replies: Json, *errors: str, parameters: list[Json] | None = None) -> Json:
    problems = {status: _content("A problem.", Problem, PROBLEM_JSON) for status in errors}
    operation: Json = {"summary": summary, "responses": {**replies, **problems}}
    return {**operation, "parameters": parameters} if parameters else operation


def _public(summary: str, replies: Json) -> Json:
    return {**_operation(summary, replies), "security": []}


def _content(description: str, body: type[BaseModel], media_type: str = JSON) -> Json:
    return {"description": description, "content": {media_type: {"schema": _ref(body)}}}


def _plain(description: str, media_type: str) -> Json:
    return {"description": description, "content": {media_type: {"schema": {}}}}


def _ref(body: type[BaseModel]) -> Json:
    return {"$ref": f"#/components/schemas/{body.__name__}"}


def _parameter(name: str, where: str, schema: Json, description: str, *, required: bool = False) -> Json:
    return {"name": name, "in": where, "required": required, "schema": schema, "description": description}


def _integer(least: int, most: int | None = None) -> Json:
    schema: Json = {"type": "integer", "minimum": least}
    return {**schema, "maximum": most} if most is not None else schema
