"""Run a program: answer with its result, or stream what happens."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from orchestrator.domain.errors import InvalidRequest, fault_of
from orchestrator.domain.execution import LONGEST_SECONDS, Check, Language, Outcome, State
from orchestrator.domain.files import Keep
from orchestrator.faces.bodies import Body
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.file_inputs import FileInput, sources_of, workspace_use
from orchestrator.faces.http.events import EVENT_STREAM, EventStream, reply_text
from orchestrator.faces.http.problems import problem_of
from orchestrator.faces.http.requests import EXECUTION_ID, JSON, Query, parse_body
from orchestrator.service.complaints import MUST_BE
from orchestrator.service.executions import ProgramRequest, new_execution_id
from orchestrator.service.running import RunningExecution

MAX_IDEMPOTENCY_KEY = 255


class ExecuteRequest(Body):
    """A program and how to run it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True)

    code: Annotated[str, Field(min_length=1, description="The program.", examples=["console.log(2 + 2)"])]
    language: Annotated[Language, Field(strict=False)] = Language.TYPESCRIPT
    timeout_seconds: Annotated[
        float | None,
        Field(
            gt=0,
            le=LONGEST_SECONDS,
            description="Time for the program, at most 300 s; in the background, at most what the role allows.",
        ),
    ] = None
    check: Annotated[
        Check,
        Field(
            strict=False,
            description="`strict` rejects a program that surely fails, before its first tool call; `warn` runs it and "
            "tells the mistakes if it failed; `off` does not look.",
        ),
    ] = Check.STRICT
    files: Annotated[
        dict[str, FileInput] | None,
        Field(
            description="Files that the program finds in /workspace/in, by name.",
            json_schema_extra={MUST_BE: "an object of names"},
        ),
    ] = None
    workspace: Annotated[
        str | None,
        Field(description="Name of files that last: they are in /workspace/files, and what is there is kept."),
    ] = None
    wait: Annotated[
        bool, Field(description="Whether to wait while another execution has the workspace, or to be refused.")
    ] = True
    keep: Annotated[
        Keep,
        Field(
            strict=False, description="Whether the workspace takes what any program leaves, or only a successful one."
        ),
    ] = Keep.SUCCESS
    background: Annotated[
        bool, Field(description="Answer at once; the execution goes on without its client, for as long as it may.")
    ] = False


class InBackground(Body):
    """An execution that goes on by itself, and where to read about it."""

    execution_id: str
    state: State
    position: int = Field(description="0 when it runs, 1 when it is next.")
    url: str = Field(description="Where to read its state and output, or to cancel it.")
    events_url: str = Field(description="Where to follow it as a stream of events.")


async def execute(request: web.Request, query: Query) -> web.StreamResponse:
    services, caller = request.app[SERVICES], request[CALLER]
    execution_id = request[EXECUTION_ID] = new_execution_id()
    async with services.executions.recording_refusal(caller, execution_id):
        body = await parse_body(request, ExecuteRequest)
        key = idempotency_key_of(request)
        asked = ProgramRequest(
            body.language,
            body.code,
            body.timeout_seconds,
            key,
            body.check,
            body.background,
            files=sources_of(body.files),
            workspace=workspace_use(body.workspace, wait=body.wait, keep=body.keep),
        )
        running = await services.executions.start(caller, asked, execution_id)
    request[EXECUTION_ID] = running.execution.id
    if body.background and not running.finished:
        return _in_background(running)
    response, _ = await answer_with(request, running)
    return response


def idempotency_key_of(request: web.Request) -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not (1 <= len(key) <= MAX_IDEMPOTENCY_KEY and key.isprintable()):
        raise InvalidRequest(f"`Idempotency-Key` must have 1 to {MAX_IDEMPOTENCY_KEY} printable characters.")
    return key


async def answer_with(request: web.Request, running: RunningExecution) -> tuple[web.StreamResponse, Outcome | None]:
    """Answer with an execution's result when it is there, or with what happens as it does; and tell how it ended."""
    accepted = (item.split(";")[0].strip().lower() for item in request.headers.get("Accept", "").split(","))
    with running.watched():
        if EVENT_STREAM in accepted:
            stream = await EventStream(request, running.execution.id).follow(running)
            return stream, (await running.result()).outcome if running.finished else None
        result = await running.result()
    if result.record.never_ran:
        problem = problem_of(fault_of(result.record.error_code, result.record.detail or ""), result.execution_id)
        return problem, result.outcome
    text = await reply_text(request.app[SERVICES], result)
    return web.Response(text=text, content_type=JSON), result.outcome


def _in_background(running: RunningExecution) -> web.Response:
    url = f"/executions/{running.execution.id}"
    body = InBackground(
        execution_id=running.execution.id,
        state=running.state,
        position=running.position,
        url=url,
        events_url=f"{url}/events",
    )
    return web.Response(
        status=202, text=body.model_dump_json(by_alias=True), content_type=JSON, headers={"Location": url}
    )
