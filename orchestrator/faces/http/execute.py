"""POST /execute: run a program, answer with its result or stream it."""

from __future__ import annotations

import codecs
import json
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from orchestrator.domain.errors import (
    CodeTooLarge,
    InvalidRequest,
    MalformedJson,
    OrchestratorError,
    UnsupportedContentType,
)
from orchestrator.domain.execution import ExecutionResult, Outcome, Stream
from orchestrator.domain.ledger import ToolCall
from orchestrator.faces.http.context import API, CALLER, Api
from orchestrator.faces.http.events import EventStream
from orchestrator.faces.http.problems import EXECUTION_ID, STATUS_OF_CODE, problem_of
from orchestrator.faces.http.rendering import reply, tool_call
from orchestrator.faces.http.schemas import ExecuteRequest
from orchestrator.service.complaints import complaints
from orchestrator.service.executions import new_execution_id
from orchestrator.service.running import RunningExecution

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
MAX_IDEMPOTENCY_KEY = 255


async def execute(request: web.Request) -> web.StreamResponse:
    api, caller = request.app[API], request[CALLER]
    execution_id = request[EXECUTION_ID] = new_execution_id()
    try:
        order = await _read_order(request, api)
        limits = api.limits.limits_for(order.timeout_seconds)
        key = _idempotency_key(request)
        running = await api.executor.start(caller, order.language, order.code, limits, execution_id, key)
    except OrchestratorError as error:
        await api.executor.refuse(caller, execution_id, error)
        raise
    request[EXECUTION_ID] = running.execution.id
    with running.watched():
        return await (_stream if _wants_events(request) else _answer)(request, running)


async def _answer(request: web.Request, running: RunningExecution) -> web.Response:
    result = await running.result()
    if _never_ran(result):
        return problem_of(_fault_of(result), result.execution_id)
    return web.Response(text=_reply_text(request.app[API], result), content_type=JSON)


async def _stream(request: web.Request, running: RunningExecution) -> web.StreamResponse:
    api = request.app[API]
    events = await EventStream.open(request)
    await events.send("started", {"executionId": running.execution.id, "position": running.position})
    decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream}
    async for happening in running.happenings(api.limits.heartbeat_seconds):
        if happening is None:
            await events.send("heartbeat", {"state": running.state, "position": running.position})
        elif isinstance(happening, ToolCall):
            await events.send_text("tool_call", tool_call(happening).model_dump_json(by_alias=True))
        elif text := decoders[happening.stream].decode(happening.data):
            await events.send(happening.stream, {"text": text})
    result = await running.result()
    for stream, decoder in decoders.items():
        if text := decoder.decode(b"", final=not result.truncated):
            await events.send(stream, {"text": text})
    await events.send_text("result", _reply_text(api, result))
    return await events.close()


async def _read_order(request: web.Request, api: Api) -> ExecuteRequest:
    if request.content_type != JSON:
        raise UnsupportedContentType(f"The content type is {request.content_type}.")
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise CodeTooLarge("The body is too large.") from error
    order = _validated(_parsed(body))
    _check_code(order.code, api.limits.max_code_bytes)
    if order.timeout_seconds is not None and order.timeout_seconds > api.limits.max_timeout_seconds:
        raise InvalidRequest(f"timeoutSeconds: at most {api.limits.max_timeout_seconds:g} is allowed here.")
    return order


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedJson(f"The body is not JSON: {error}.") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name occurs twice")
    return names


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _validated(document: Any) -> ExecuteRequest:
    try:
        return ExecuteRequest.model_validate(document)
    except ValidationError as error:
        raise InvalidRequest(complaints(error, "body")) from error


def _check_code(code: str, max_bytes: int) -> None:
    if not code.strip():
        raise InvalidRequest("code: it is empty.")
    try:
        size = len(code.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest("code: it holds a lone surrogate and so is no Unicode text.") from error
    if size > max_bytes:
        raise CodeTooLarge(f"The code has {size} bytes; at most {max_bytes} are allowed.")


def _idempotency_key(request: web.Request) -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
        raise InvalidRequest(f"Idempotency-Key: it has 1 to {MAX_IDEMPOTENCY_KEY} characters.")
    return key


def _wants_events(request: web.Request) -> bool:
    accepted = request.headers.get("Accept", "").split(",")
    return any(item.split(";")[0].strip().lower() == EVENT_STREAM for item in accepted)


def _reply_text(api: Api, result: ExecutionResult) -> str:
    return reply(result, api.tokens).model_dump_json(by_alias=True)


def _never_ran(result: ExecutionResult) -> bool:
    return result.outcome is Outcome.SANDBOX_ERROR and result.timings.run_seconds == 0


def _fault_of(result: ExecutionResult) -> OrchestratorError:
    code = result.ending.error_code
    for kind in OrchestratorError.__subclasses__():
        if kind.code == code and code in STATUS_OF_CODE:
            return kind(result.ending.detail or "", retry_after_seconds=5)
    return OrchestratorError(result.ending.detail or "The daemon failed.")
