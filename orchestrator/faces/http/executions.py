"""What ran, what it printed, and ending it."""

from __future__ import annotations

import asyncio
from typing import Annotated

from aiohttp import web
from pydantic import AwareDatetime, BeforeValidator, Field

from orchestrator.domain.errors import RangeNotSatisfiable
from orchestrator.domain.execution import Filter, Kind, Language, Outcome, State, Stream
from orchestrator.faces.bodies import Body, ExecutionDetail, ExecutionReply, ExecutionSummary
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.callers import caller_of
from orchestrator.faces.http.downloads import byte_range, range_refused
from orchestrator.faces.http.requests import Query
from orchestrator.faces.http.route import json_reply
from orchestrator.service.complaints import MUST_BE
from orchestrator.service.records import LARGEST_NUMBER

FEW = 50  # records or calls that are written at once; more take a thread, so that nobody waits for them
LARGEST_SLICE = 1024 * 1024
LONGEST_WAIT_SECONDS = 30
OCTETS = "application/octet-stream"


def _not_a_number(value: object) -> object:
    """pydantic takes a number for seconds since 1970; here a time is written out."""
    if isinstance(value, str) and value.isdigit():
        raise ValueError("a number is not a time")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_not_a_number)]


class ExecutionsQuery(Query):
    limit: int = Field(50, ge=1, le=500, description="How many, 50 by default.")
    before: int | None = Field(None, ge=0, le=LARGEST_NUMBER, description="The `next` of the previous page.")
    state: State | None = Field(None, description="Only executions in this state.")
    outcome: Outcome | None = Field(None, description="Only executions with this outcome.")
    caller: str | None = Field(None, max_length=256, description="Only executions of the key with this name.")
    language: Language | None = Field(None, description="Only programs in this language.")
    kind: Kind | None = Field(None, description="Only programs, or only single tool calls.")
    tool: str | None = Field(
        None,
        max_length=600,
        pattern=r"^[^/]+(/[^/]+)?$",
        json_schema_extra={MUST_BE: "SERVER or SERVER/TOOL"},
        description="Only executions that called this tool, as SERVER/TOOL, or any tool of a SERVER.",
    )
    text: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Only executions with this text, in any case, in the id, in an error, in the first 1,500 "
        "characters of the program, in the first 500 bytes of stdout or in the last 500 of stderr.",
    )
    since: Moment | None = Field(None, description="Only executions accepted at or after this time, with its offset.")
    until: Moment | None = Field(None, description="Only executions accepted before this time, with its offset.")

    def as_filter(self) -> Filter:
        server, _, tool = (self.tool or "").partition("/")
        return Filter(
            caller=self.caller,
            kind=self.kind,
            state=self.state,
            outcome=self.outcome,
            language=self.language,
            server=server or None,
            tool=tool or None,
            text=self.text,
            since=self.since.timestamp() if self.since else None,
            until=self.until.timestamp() if self.until else None,
            before=self.before,
        )


class ExecutionQuery(Query):
    offset: int = Field(0, ge=0, le=LARGEST_NUMBER, description="First byte of both streams.")
    length: int = Field(LARGEST_SLICE, ge=1, le=LARGEST_SLICE, description="At most so many bytes of each stream.")
    wait: float = Field(
        0,
        ge=0,
        le=LONGEST_WAIT_SECONDS,
        description="Seconds to wait until a stream has more than `offset` bytes, or the execution has ended.",
    )


class OutputQuery(Query):
    stream: Stream = Field(Stream.STDOUT, description="Which stream.")


class ExecutionList(Body):
    """A page of executions, newest first."""

    executions: list[ExecutionSummary]
    next: int | None = Field(description="Pass as `before` to read on; null at the end.")


async def list_executions(request: web.Request, query: ExecutionsQuery) -> web.Response:
    records = await request.app[SERVICES].records.newest(request[CALLER], query.as_filter(), query.limit)
    following = records[-1].sequence if len(records) == query.limit else None

    def write() -> web.Response:
        return json_reply(ExecutionList(executions=[ExecutionSummary.of(record) for record in records], next=following))

    return write() if len(records) <= FEW else await asyncio.to_thread(write)


async def get_execution(request: web.Request, query: ExecutionQuery) -> web.Response:
    records = request.app[SERVICES].records
    record = await records.visible(request[CALLER], request.match_info["id"])
    if query.wait and record.under_way:
        await records.until_news(record.id, query.offset, Stream, query.wait)
        record = await records.visible(caller_of(request), record.id)  # the key may be gone by now
    stdout = await records.output(record, Stream.STDOUT, query.offset, query.length)
    stderr = await records.output(record, Stream.STDERR, query.offset, query.length)

    def write() -> web.Response:
        return json_reply(ExecutionDetail.of_pages(record, stdout, stderr, query.offset))

    return write() if len(record.tool_calls) <= FEW else await asyncio.to_thread(write)


async def get_program(request: web.Request, query: Query) -> web.Response:
    """Send the code as it was run: as text, whatever it says."""
    records = request.app[SERVICES].records
    record = await records.visible(request[CALLER], request.match_info["id"])
    code = await records.program(record)
    return web.Response(text=code, content_type="text/plain", headers={"X-Content-Type-Options": "nosniff"})


async def get_output(request: web.Request, query: OutputQuery) -> web.Response:
    """Send the raw bytes of one stream, whole or by HTTP range."""
    records = request.app[SERVICES].records
    record = await records.visible(request[CALLER], request.match_info["id"])
    total = (await records.output(record, query.stream, 0, 1)).total_bytes
    try:
        asked = byte_range(request.headers.get("Range") if request.method == "GET" else None, total)
    except RangeNotSatisfiable as refusal:
        return range_refused(refusal, total)
    start, length = asked or (0, total)
    page = await records.output(record, query.stream, start, length)
    headers = {"Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff"}
    if asked is None:
        return web.Response(body=page.data, content_type=OCTETS, headers=headers)
    headers["Content-Range"] = f"bytes {start}-{start + len(page.data) - 1}/{page.total_bytes}"
    return web.Response(status=206, body=page.data, content_type=OCTETS, headers=headers)


async def cancel_execution(request: web.Request, query: Query) -> web.Response:
    services = request.app[SERVICES]
    result = await services.executions.cancel(request[CALLER], request.match_info["id"])
    return json_reply(ExecutionReply.of_result(result, services.tokens.count))
