"""Figures over many executions, counted in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from orchestrator.domain.execution import Language, Outcome
from orchestrator.domain.ledger import TIMED_OUTCOMES
from orchestrator.domain.statistics import Bucket, CallerFigures, Notable, Percentiles, Span, Statistics, ToolFigures

MOST_TOOLS = 1000
MOST_NOTABLE = 10
PRECISION = 3  # of milliseconds

# Only these conditions are ever spelled into the queries, never a value, so bandit's B608 does not apply.
_IN_SPAN = "executions.accepted_at >= :since AND executions.accepted_at < :until"
_OF_CALLER = f"{_IN_SPAN} AND executions.caller = :caller"
_ERROR = "tool_calls.outcome NOT IN ('done', 'in_flight', 'never_sent')"
_REAL = "tool_calls.outcome != 'replayed'"
_TIMED = "tool_calls.outcome IN ({})".format(", ".join(f"'{outcome}'" for outcome in sorted(TIMED_OUTCOMES)))
# Two digits tell enough of a time, and make few groups of many calls, which nobody has to sort.
_TOOK = (
    "CASE "
    + " ".join(
        f"WHEN duration_ms < {limit} THEN round(duration_ms / {unit}) * {unit}"
        for limit, unit in ((1, 0.01), (10, 0.1), (100, 1.0), (1e3, 10.0), (1e4, 100.0), (1e5, 1e3))
    )
    + " ELSE round(duration_ms / 1e4) * 1e4 END"
)

EXECUTIONS = """
SELECT id, caller, role, language, outcome, accepted_at, coalesce(document ->> '$.stdout_bytes', 0) AS output_bytes,
    1000 * coalesce(document ->> '$.timings.queue_seconds', 0) AS queue_ms,
    1000 * (
        coalesce(document ->> '$.timings.queue_seconds', 0) + coalesce(document ->> '$.timings.start_seconds', 0)
        + coalesce(document ->> '$.timings.run_seconds', 0)
    ) AS total_ms,
    state = 'finished' AS has_ended, kind = 'program' AND state != 'refused' AS is_program,
    (SELECT json_array(count(*), coalesce(sum({error}), 0), coalesce(sum(result_bytes), 0))
     FROM tool_calls WHERE execution_id = executions.id AND {real}) AS calls
FROM executions WHERE {chosen}
"""
TOOLS = """
SELECT server, tool, CASE WHEN {timed} THEN {took} END AS took_ms, count(*) AS calls, sum({error}) AS errors,
    max(duration_ms) AS max_ms, sum(result_bytes) AS result_bytes
FROM executions JOIN tool_calls ON execution_id = id WHERE {chosen} AND {real} GROUP BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class _Calls:
    calls: int = 0
    errors: int = 0
    result_bytes: int = 0

    def __add__(self, other: _Calls) -> _Calls:
        return _Calls(self.calls + other.calls, self.errors + other.errors, self.result_bytes + other.result_bytes)


def statistics(database: sqlite3.Connection, span: Span) -> Statistics:
    values = {"since": span.since, "until": span.until, "caller": span.caller}
    chosen = _IN_SPAN if span.caller is None else _OF_CALLER
    parts = {"chosen": chosen, "real": _REAL, "error": _ERROR, "timed": _TIMED, "took": _TOOK}

    def rows(query: str) -> list[sqlite3.Row]:
        return database.execute(query.format(**parts), values).fetchall()

    found = rows(EXECUTIONS)
    calls = {row["id"]: _Calls(*json.loads(row["calls"])) for row in found}
    by_bucket: defaultdict[int, _Calls] = defaultdict(_Calls)
    by_caller: defaultdict[str, _Calls] = defaultdict(_Calls)
    for row in found:
        if calls[row["id"]].calls:
            by_bucket[span.bucket_of(row["accepted_at"])] += calls[row["id"]]
            by_caller[row["caller"]] += calls[row["id"]]
    executions = [row for row in found if row["is_program"]]
    ended = [row for row in executions if row["has_ended"]]
    # What tools returned to each program that called any, and what it printed.
    passed_on = [(calls[row["id"]].result_bytes, row["output_bytes"]) for row in executions if calls[row["id"]].calls]
    return Statistics(
        span=span,
        buckets=_buckets(span, executions, by_bucket),
        outcomes={Outcome(name): count for name, count in Counter(_known(executions, "outcome")).most_common()},
        languages={Language(name): count for name, count in Counter(_known(executions, "language")).most_common()},
        roles=Counter(row["role"] for row in executions),
        latency=_percentiles(ended, "total_ms"),
        queue=_percentiles(ended, "queue_ms"),
        callers=_callers(executions, by_caller),
        tools=_tools(rows(TOOLS)),
        slowest=_notable(ended, "total_ms"),
        largest=_notable([row for row in ended if row["output_bytes"]], "output_bytes"),
        result_bytes=sum(returned for returned, _ in passed_on),
        printed_bytes=sum(printed for _, printed in passed_on),
        withheld_bytes=sum(max(0, returned - printed) for returned, printed in passed_on),
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


def _tools(rows: Sequence[sqlite3.Row]) -> tuple[ToolFigures, ...]:
    """Return those with most calls; the calls of a tool come in rows by the time that they took."""
    of_tool: defaultdict[tuple[str, str], list[sqlite3.Row]] = defaultdict(list)
    for row in rows:
        of_tool[row["server"], row["tool"]].append(row)
    figures = (_tool(server, tool, parts) for (server, tool), parts in of_tool.items())
    return tuple(sorted(figures, key=lambda each: (-each.calls, each.server, each.tool))[:MOST_TOOLS])


def _tool(server: str, tool: str, parts: Sequence[sqlite3.Row]) -> ToolFigures:
    timed = [row for row in parts if row["took_ms"] is not None]
    took = Percentiles.of_counts({round(row["took_ms"], PRECISION): row["calls"] for row in timed})
    return ToolFigures(
        server,
        tool,
        calls=sum(row["calls"] for row in parts),
        errors=sum(row["errors"] for row in parts),
        p50_ms=took.p50,
        p95_ms=took.p95,
        max_ms=max((round(row["max_ms"], PRECISION) for row in timed), default=None),
        result_bytes=sum(row["result_bytes"] or 0 for row in parts),
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
