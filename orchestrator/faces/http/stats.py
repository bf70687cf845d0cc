"""Figures of what happened in a span of time, for people: the console's charts, and `code-executor top`."""

from __future__ import annotations

import asyncio
import math
import time

from aiohttp import web
from pydantic import Field

from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Language, Outcome
from orchestrator.domain.statistics import Bucket, Notable, Percentiles, Span, Statistics
from orchestrator.faces.bodies import Body, iso, shown_as
from orchestrator.faces.context import CALLER, SERVICES, Services
from orchestrator.faces.http.executions import Moment
from orchestrator.faces.http.feed import LoadBody
from orchestrator.faces.http.requests import Query
from orchestrator.faces.http.route import json_reply

DAY_SECONDS = 24 * 3600.0
LONGEST_SECONDS = 366 * DAY_SECONDS
MOST_BUCKETS = 60  # and none is shorter than a second
# A rule of thumb for o200k on JSON and English.
BYTES_PER_TOKEN = 4


class StatsQuery(Query):
    since: Moment | None = Field(None, description="From this time on; a day before `until` by default.")
    until: Moment | None = Field(None, description="Before this time; now by default.")
    caller: str | None = Field(None, max_length=256, description="Only executions of the key with this name.")

    def as_span(self) -> Span:
        until = self.until.timestamp() if self.until else time.time()
        since = self.since.timestamp() if self.since else until - DAY_SECONDS
        if not 0 < until - since <= LONGEST_SECONDS:
            raise InvalidRequest("`since` must be before `until`, and at most 366 days earlier.")
        return Span(since, until, min(MOST_BUCKETS, math.ceil(until - since)), self.caller)


class PercentilesBody(Body):
    """Milliseconds that so many of a hundred stayed within; null if there were none."""

    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None

    @classmethod
    def of(cls, found: Percentiles) -> PercentilesBody:
        return cls(p50_ms=found.p50, p90_ms=found.p90, p99_ms=found.p99)


class BucketBody(Body):
    """What was accepted in one piece of the time."""

    at: str = Field(description="When it begins; ISO 8601, UTC.")
    executions: int
    failed: int = Field(description="Those that neither completed nor were cancelled.")
    tool_calls: int
    tool_errors: int
    p50_ms: float | None
    p95_ms: float | None

    @classmethod
    def of(cls, at: float, bucket: Bucket) -> BucketBody:
        return cls(
            at=iso(at),
            executions=bucket.executions,
            failed=bucket.failed,
            tool_calls=bucket.tool_calls,
            tool_errors=bucket.tool_errors,
            p50_ms=bucket.latency.p50,
            p95_ms=bucket.latency.p95,
        )


class CallerBody(Body):
    """What one caller did."""

    caller: str
    executions: int
    failed: int
    tool_calls: int
    output_bytes: int


class ToolBody(Body):
    """What one tool was called for, and how it fared."""

    server: str
    tool: str
    calls: int
    errors: int
    p50_ms: float | None = Field(description="Of calls that were sent and answered, to two digits; null if none was.")
    p95_ms: float | None
    max_ms: float | None
    result_bytes: int


class NotableBody(Body):
    """An execution that stands out."""

    execution_id: str
    caller: str
    language: Language | None
    outcome: Outcome | None
    accepted_at: str
    execution_time: int = Field(description="Milliseconds from acceptance to the end.")
    output_bytes: int

    @classmethod
    def of(cls, notable: Notable) -> NotableBody:
        return cls(
            execution_id=notable.execution_id,
            caller=notable.caller,
            language=notable.language,
            outcome=notable.outcome,
            accepted_at=iso(notable.accepted_at),
            execution_time=round(notable.total_ms),
            output_bytes=notable.output_bytes,
        )


class DefinitionTokens(Body):
    """What definitions of tools cost, if each execution is one turn of a model."""

    full: int = Field(description="With the definition of every tool that the role may use.")
    here: int = Field(description="With those of the executor's own MCP tools.")
    saved: int


class ResultTokens(Body):
    """What results of tools cost, estimated from their bytes."""

    returned: int = Field(description="What tools returned to programs.")
    printed: int = Field(description="What those programs printed.")
    saved: int = Field(description="By how much programs printed less than tools had returned to them.")


class Tokens(Body):
    """Tokens that a model did not have to read."""

    definitions: DefinitionTokens
    results: ResultTokens
    bytes_per_token: int


class Stats(Body):
    """What happened in a span of time: to your own executions, or to everybody's for a role that sees all."""

    since: str
    until: str
    bucket_seconds: float
    now: LoadBody
    executions: int
    tool_calls: int
    outcomes: dict[Outcome, int]
    languages: dict[Language, int]
    latency: PercentilesBody = Field(description="From acceptance to the end.")
    queue: PercentilesBody = Field(description="Waiting for a turn.")
    series: list[BucketBody] = Field(description="The time in equal pieces, the oldest first.")
    callers: list[CallerBody]
    tools: list[ToolBody] = Field(description="Those with most calls first.")
    slowest: list[NotableBody]
    largest: list[NotableBody] = Field(description="Those that printed most.")
    tokens: Tokens


async def stats(request: web.Request, query: StatsQuery) -> web.Response:
    services = request.app[SERVICES]
    counted = await services.records.statistics(request[CALLER], query.as_span())
    span = counted.span
    body = Stats(
        since=iso(span.since),
        until=iso(span.until),
        bucket_seconds=span.bucket_seconds,
        now=shown_as(LoadBody, services.load()),
        executions=counted.executions,
        tool_calls=counted.tool_calls,
        outcomes=dict(counted.outcomes),
        languages=dict(counted.languages),
        latency=PercentilesBody.of(counted.latency),
        queue=PercentilesBody.of(counted.queue),
        series=[
            BucketBody.of(span.since + number * span.bucket_seconds, bucket)
            for number, bucket in enumerate(counted.buckets)
        ],
        callers=[shown_as(CallerBody, each) for each in counted.callers],
        tools=[shown_as(ToolBody, each) for each in counted.tools],
        slowest=[NotableBody.of(each) for each in counted.slowest],
        largest=[NotableBody.of(each) for each in counted.largest],
        tokens=await asyncio.to_thread(_tokens, services, counted),
    )
    return json_reply(body)


def _tokens(services: Services, counted: Statistics) -> Tokens:
    roles = services.held_configuration().book.roles
    full = here = 0
    for name, executions in counted.roles.items():
        if name in roles:
            full += executions * services.catalog.full_tokens(roles[name])
            here += executions * services.own_tokens(roles[name])
    results = ResultTokens(
        returned=counted.result_bytes // BYTES_PER_TOKEN,
        printed=counted.printed_bytes // BYTES_PER_TOKEN,
        saved=counted.withheld_bytes // BYTES_PER_TOKEN,
    )
    return Tokens(
        definitions=DefinitionTokens(full=full, here=here, saved=max(0, full - here)),
        results=results,
        bytes_per_token=BYTES_PER_TOKEN,
    )
