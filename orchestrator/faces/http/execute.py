"""Run a program: answer with its result, or stream what happens."""

from __future__ import annotations

import asyncio
import codecs
from typing import Annotated

from aiohttp import web
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.domain.errors import InvalidRequest, fault_of
from orchestrator.domain.execution import Check, ExecutionResult, Language, State, Stream
from orchestrator.domain.ledger import ToolCall
from orchestrator.faces.bodies import Body, ExecutionReply, ToolCallBody
from orchestrator.faces.context import CALLER, SERVICES, Services
from orchestrator.faces.http.problems import problem_of
from orchestrator.faces.http.requests import EXECUTION_ID, JSON, Query, parse_body
from orchestrator.service.executions import ProgramRequest, new_execution_id
from orchestrator.service.running import RunningExecution

EVENT_STREAM = "text/event-stream"
MAX_IDEMPOTENCY_KEY = 255


class ExecuteRequest(Body):
    """A program and how to run it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True)

    code: Annotated[str, Field(min_length=1, description="The program.")]
    language: Annotated[Language, Field(strict=False)] = Language.TYPESCRIPT
    timeout_seconds: Annotated[
        float | None, Field(gt=0, le=300, description="Time for the program, at most 300 s.")
    ] = None
    check: Annotated[
        Check,
        Field(
            strict=False,
            description="`strict` rejects a program that surely fails, before its first tool call; `warn` runs it and "
            "tells the mistakes if it failed; `off` does not look.",
        ),
    ] = Check.STRICT


class StartedEvent(Body):
    """The first event: the execution's id, and its place in the queue."""

    execution_id: str
    position: int = Field(description="0 when it runs, 1 when it is next.")


class OutputEvent(Body):
    """Something that the program printed, on the stream that the event is named after."""

    text: str


class HeartbeatEvent(Body):
    """Nothing happened for a while; the execution is under way."""

    state: State
    position: int = Field(description="0 when it runs, 1 when it is next.")


# In the order in which a stream may have them.
EVENTS: dict[str, type[Body]] = {
    "started": StartedEvent,
    "stdout": OutputEvent,
    "stderr": OutputEvent,
    "tool_call": ToolCallBody,
    "heartbeat": HeartbeatEvent,
    "result": ExecutionReply,
}


async def execute(request: web.Request, query: Query) -> web.StreamResponse:
    services, caller = request.app[SERVICES], request[CALLER]
    execution_id = request[EXECUTION_ID] = new_execution_id()
    async with services.executions.recording_refusal(caller, execution_id):
        body = await parse_body(request, ExecuteRequest)
        key = request.headers.get("Idempotency-Key")
        if key is not None and not (1 <= len(key) <= MAX_IDEMPOTENCY_KEY and key.isprintable()):
            raise InvalidRequest(f"`Idempotency-Key` must have 1 to {MAX_IDEMPOTENCY_KEY} printable characters.")
        asked = ProgramRequest(body.language, body.code, body.timeout_seconds, key, body.check)
        running = await services.executions.start(caller, asked, execution_id)
    request[EXECUTION_ID] = running.execution.id
    accepted = (item.split(";")[0].strip().lower() for item in request.headers.get("Accept", "").split(","))
    with running.watched():
        if EVENT_STREAM in accepted:
            return await _stream(request, running)
        result = await running.result()
    if result.record.never_ran:
        return problem_of(fault_of(result.record.error_code, result.record.detail or ""), result.execution_id)
    return web.Response(text=await _reply(services, result), content_type=JSON)


async def _stream(request: web.Request, running: RunningExecution) -> web.StreamResponse:
    services = request.app[SERVICES]
    headers = {"Content-Type": f"{EVENT_STREAM}; charset=utf-8", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)

    async def send(name: str, body: Body | str) -> None:
        text = body if isinstance(body, str) else body.model_dump_json(by_alias=True)
        await response.write(f"event: {name}\ndata: {text}\n\n".encode())

    await send("started", StartedEvent(execution_id=running.execution.id, position=running.position))
    decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream}
    async for happening in running.happenings(services.heartbeat_seconds):
        if happening is None:
            await send("heartbeat", HeartbeatEvent(state=running.state, position=running.position))
        elif isinstance(happening, ToolCall):
            await send("tool_call", ToolCallBody.of(happening))
        elif text := decoders[happening.stream].decode(happening.data):
            await send(happening.stream, OutputEvent(text=text))
    result = await running.result()
    for stream, decoder in decoders.items():
        if text := decoder.decode(b"", final=not result.record.truncated):
            await send(stream, OutputEvent(text=text))
    await send("result", await _reply(services, result))
    await response.write_eof()
    return response


async def _reply(services: Services, result: ExecutionResult) -> str:
    def write() -> str:
        return ExecutionReply.of_result(result, services.tokens.count).model_dump_json(by_alias=True)

    # Pictures may have megabytes; most executions have none, and a thread would take longer than their reply.
    return await asyncio.to_thread(write) if result.images else write()
