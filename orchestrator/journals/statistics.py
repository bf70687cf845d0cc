"""Figures over many executions, counted in SQLite."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from orchestrator.domain.execution import Language, Outcome
from orchestrator.domain.statistics import Bucket, CallerFigures, Notable, Percentiles, Span, Statistics, ToolFigures

MOST_TOOLS = 200
MOST_NOTABLE = 10
PRECISION = 3  # of milliseconds

# Only these conditions are ever spelled into the queries, never a value, so bandit's B608 does not apply.
_IN_SPAN = "executions.accepted_at >= :since AND executions.accepted_at < :until"
_OF_CALLER = f"{_IN_SPAN} AND executions.caller = :caller"
# What a call that has not ended took so far says nothing.
_ENDED = "tool_calls.outcome NOT IN ('in_flight', 'never_sent')"
_ERROR = "tool_calls.outcome NOT IN ('done', 'in_flight', 'never_sent')"

EXECUTIONS = """
SELECT id, caller, role, language, outcome, accepted_at, coalesce(document ->> '$.stdout_bytes', 0) AS output_bytes,
    1000 * coalesce(document ->> '$.timings.queue_seconds', 0) AS queue_ms,
    1000 * (
        coalesce(document ->> '$.timings.queue_seconds', 0) + coalesce(document ->> '$.timings.start_seconds', 0)
        + coalesce(document ->> '$.timings.run_seconds', 0)
    ) AS total_ms,
    state = 'finished' AS has_ended
FROM executions WHERE kind = 'program' AND state != 'refused' AND {chosen}
"""
CALLS_BY_BUCKET = """
SELECT CAST((accepted_at - :since) / :bucket AS INTEGER) AS bucket, caller, count(*) AS calls, sum({error}) AS errors,
    sum(result_bytes) AS result_bytes
FROM executions JOIN tool_calls ON execution_id = id WHERE {chosen} GROUP BY 1, 2
"""
CALLS_BY_TOOL = """
SELECT server, tool, count(*) AS calls, sum({error}) AS errors, max(duration_ms) AS max_ms,
    sum(result_bytes) AS result_bytes
FROM executions JOIN tool_calls ON execution_id = id WHERE {chosen}
GROUP BY server, tool ORDER BY calls DESC, server, tool LIMIT :most
"""
DURATIONS = """
WITH ranked AS (
    SELECT server, tool, duration_ms, count(*) OVER tools AS calls,
        row_number() OVER (tools ORDER BY duration_ms) AS place
    FROM executions JOIN tool_calls ON execution_id = id WHERE {chosen} AND {ended}
    WINDOW tools AS (PARTITION BY server, tool)
)
SELECT server, tool, max(duration_ms) FILTER (WHERE place = (calls * 50 + 99) / 100) AS p50_ms,
    max(duration_ms) FILTER (WHERE place = (calls * 95 + 99) / 100) AS p95_ms
FROM ranked GROUP BY server, tool
"""


@dataclass(frozen=True, slots=True)
class _Calls:
    calls: int = 0
    errors: int = 0
    result_bytes: int = 0

    def __add__(self, row: sqlite3.Row) -> _Calls:
        return _Calls(
            self.calls + row["calls"], self.errors + row["errors"], self.result_bytes + (row["result_bytes"] or 0)
        )


def statistics(database: sqlite3.Connection, span: Span) -> Statistics:
    values = {
        "since": span.since,
        "until": span.until,
        "bucket": span.bucket_seconds,
        "caller": span.caller,
        "most": MOST_TOOLS,
    }
    parts = {"chosen": _IN_SPAN if span.caller is None else _OF_CALLER, "error": _ERROR, "ended": _ENDED}

    def rows(query: str) -> list[sqlite3.Row]:
        return database.execute(query.format(**parts), values).fetchall()

    executions = rows(EXECUTIONS)
    ended = [row for row in executions if row["has_ended"]]
    by_bucket: defaultdict[int, _Calls] = defaultdict(_Calls)
    by_caller: defaultdict[str, _Calls] = defaultdict(_Calls)
    for row in rows(CALLS_BY_BUCKET):
        by_bucket[min(row["bucket"], span.buckets - 1)] += row
        by_caller[row["caller"]] += row
    return Statistics(
        span=span,
        buckets=_buckets(span, executions, by_bucket),
        outcomes={Outcome(name): count for name, count in Counter(_known(executions, "outcome")).most_common()},
        languages={Language(name): count for name, count in Counter(_known(executions, "language")).most_common()},
        roles=Counter(row["role"] for row in executions),
        latency=_percentiles(ended, "total_ms"),
        queue=_percentiles(ended, "queue_ms"),
        callers=_callers(executions, by_caller),
        tools=_tools(rows(CALLS_BY_TOOL), rows(DURATIONS)),
        slowest=_notable(ended, "total_ms"),
        largest=_notable([row for row in ended if row["output_bytes"]], "output_bytes"),
        result_bytes=sum(calls.result_bytes for calls in by_caller.values()),
        output_bytes=sum(row["output_bytes"] for row in executions),
    )


def _buckets(span: Span, executions: Sequence[sqlite3.Row], calls: defaultdict[int, _Calls]) -> tuple[Bucket, ...]:
    accepted: defaultdict[int, list[sqlite3.Row]] = defaultdict(list)
    for row in executions:
        accepted[span.bucket_of(row["accepted_at"])].append(row)
    return tuple(
        Bucket(
            executions=len(accepted[number]),
            failed=sum(map(_has_failed, accepted[number])),
            tool_calls=calls[number].calls,
            tool_errors=calls[number].errors,
            latency=_percentiles([row for row in accepted[number] if row["has_ended"]], "total_ms"),
        )
        for number in range(span.buckets)
    )


def _callers(executions: Sequence[sqlite3.Row], calls: defaultdict[str, _Calls]) -> tuple[CallerFigures, ...]:
    of_caller: defaultdict[str, list[sqlite3.Row]] = defaultdict(list)
    for row in executions:
        of_caller[row["caller"]].append(row)
    figures = (
        CallerFigures(
            caller=caller,
            executions=len(of_caller[caller]),
            failed=sum(map(_has_failed, of_caller[caller])),
            tool_calls=calls[caller].calls,
            output_bytes=sum(row["output_bytes"] for row in of_caller[caller]),
        )
        for caller in {*of_caller, *calls}
    )
    return tuple(sorted(figures, key=lambda each: (-each.executions, each.caller)))


def _tools(tools: Sequence[sqlite3.Row], durations: Sequence[sqlite3.Row]) -> tuple[ToolFigures, ...]:
    took = {(row["server"], row["tool"]): (_rounded(row["p50_ms"]), _rounded(row["p95_ms"])) for row in durations}
    nothing = (None, None)
    return tuple(
        ToolFigures(
            row["server"],
            row["tool"],
            row["calls"],
            row["errors"],
            *took.get((row["server"], row["tool"]), nothing),
            round(row["max_ms"], PRECISION),
            row["result_bytes"],
        )
        for row in tools
    )


def _notable(executions: Sequence[sqlite3.Row], by: str) -> tuple[Notable, ...]:
    return tuple(
        Notable(
            execution_id=row["id"],
            caller=row["caller"],
            language=Language(row["language"]) if row["language"] else None,
            outcome=Outcome(row["outcome"]) if row["outcome"] else None,
            accepted_at=row["accepted_at"],
            total_ms=round(row["total_ms"], PRECISION),
            output_bytes=row["output_bytes"],
        )
        for row in nlargest(MOST_NOTABLE, executions, key=lambda row: row[by])
    )


def _percentiles(executions: Sequence[sqlite3.Row], of: str) -> Percentiles:
    return Percentiles.of([round(row[of], PRECISION) for row in executions])


def _known(executions: Sequence[sqlite3.Row], column: str) -> list[Any]:
    return [row[column] for row in executions if row[column]]


def _has_failed(row: sqlite3.Row) -> bool:
    return row["outcome"] not in (None, Outcome.COMPLETED, Outcome.CANCELLED)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, PRECISION)
