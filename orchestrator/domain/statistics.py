"""What happened in a span of time, in figures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from orchestrator.domain.execution import Language, Outcome

SHARES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Span:
    """Which executions are counted: those accepted in a time, of one caller or of all."""

    since: float
    until: float
    buckets: int  # equal pieces that the time is told in
    caller: str | None = None

    @property
    def bucket_seconds(self) -> float:
        return (self.until - self.since) / self.buckets

    def bucket_of(self, moment: float) -> int:
        return min(self.buckets - 1, int((moment - self.since) // self.bucket_seconds))


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds that so many of a hundred stayed within; None if there were none."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        if not values:
            return cls()
        ordered = sorted(values)
        return cls(*(ordered[-(-len(ordered) * share // 100) - 1] for share in SHARES))

    @classmethod
    def of_counts(cls, counts: Mapping[float, int]) -> Percentiles:
        """Tell them of values that each stand for so many."""
        if not counts:
            return cls()
        ordered = sorted(counts)
        reached = list(accumulate(counts[value] for value in ordered))
        return cls(*(ordered[bisect_left(reached, -(-reached[-1] * share // 100))] for share in SHARES))


@dataclass(frozen=True, slots=True)
class Bucket:
    """What was accepted in one piece of the span."""

    executions: int = 0
    failed: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    latency: Percentiles = Percentiles()


@dataclass(frozen=True, slots=True)
class CallerFigures:
    caller: str
    executions: int
    failed: int
    tool_calls: int
    output_bytes: int


@dataclass(frozen=True, slots=True)
class ToolFigures:
    server: str
    tool: str
    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    max_ms: float | None
    result_bytes: int


@dataclass(frozen=True, slots=True)
class Notable:
    """An execution that stands out, by what it took."""

    execution_id: str
    caller: str
    language: Language | None
    outcome: Outcome | None
    accepted_at: float
    total_ms: float
    output_bytes: int


@dataclass(frozen=True, slots=True)
class Statistics:
    span: Span
    buckets: tuple[Bucket, ...]
    outcomes: Mapping[Outcome, int]
    languages: Mapping[Language, int]
    roles: Mapping[str, int]  # executions of each
    latency: Percentiles
    queue: Percentiles
    callers: tuple[CallerFigures, ...]
    tools: tuple[ToolFigures, ...]  # those with most calls
    slowest: tuple[Notable, ...]
    largest: tuple[Notable, ...]
    result_bytes: int  # that tools returned to programs
    printed_bytes: int  # that those programs printed
    withheld_bytes: int  # by which programs printed less than tools had returned to them

    @property
    def executions(self) -> int:
        return sum(bucket.executions for bucket in self.buckets)

    @property
    def tool_calls(self) -> int:
        return sum(bucket.tool_calls for bucket in self.buckets)
