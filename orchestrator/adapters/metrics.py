"""Prometheus metrics of the daemon.

Names of servers and tools come from upstream servers and from programs, which are hostile: only what the catalog knows
becomes a label, and only so much of it. Everything else is `other`.
"""

from __future__ import annotations

import os
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from orchestrator.domain.execution import ExecutionResult, Language, Outcome
from orchestrator.domain.ledger import TIMED_OUTCOMES, CallOutcome, ToolCall
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
OTHER = "other"
MOST_SERIES = 2000  # of calls by tool
MOST_SERIES_OF_A_SERVER = 500  # so that one that renames its tools all the time leaves the others their names
LONGEST_LABEL = 128
# There from the start, at 0, as is every outcome of executions: of a line that begins with 1, nobody could tell that it
# has grown.
EXPECTED_OUTCOMES = (CallOutcome.DONE, CallOutcome.TOOL_ERROR, CallOutcome.DENIED, CallOutcome.UNAVAILABLE)
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

Gauges = dict[str, tuple[str, Callable[[], float]]]


class Catalog(Protocol):
    """Which servers there are, and what they list."""

    def listed(self) -> Mapping[str, Sequence[Tool]]: ...

    def find(self, server: str, name: str) -> Tool | None: ...

    def statuses(self) -> Sequence[UpstreamStatus]: ...


class Metrics:
    def __init__(self, gauges: Gauges, catalog: Catalog) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_LiveGauges(gauges))
        self._registry.register(_ServerGauges(catalog))
        self._executions = Counter(
            "code_executor_executions", "Executions that ended.", ["language", "outcome"], registry=self._registry
        )
        for language, outcome in product(Language, Outcome):
            self._executions.labels(language, outcome)
        self._phases = Histogram(
            "code_executor_phase_seconds",
            "Time of an execution by phase.",
            ["phase"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._output = Counter(
            "code_executor_output_bytes", "Bytes that programs printed.", ["stream"], registry=self._registry
        )
        self._calls = _CallCounts(catalog)
        self._registry.register(self._calls)
        self._call_seconds = Histogram(
            "code_executor_tool_call_seconds",
            "Time of tool calls that were sent to their server.",
            ["server"],
            buckets=SECONDS,
            registry=self._registry,
        )

    def observe(self, result: ExecutionResult) -> None:
        record = result.record
        self._executions.labels(record.language, record.outcome).inc()
        self._phases.labels("queue").observe(record.timings.queue_seconds)
        self._phases.labels("start").observe(record.timings.start_seconds)
        self._phases.labels("run").observe(record.timings.run_seconds)
        self._output.labels("stdout").inc(record.stdout_bytes)
        self._output.labels("stderr").inc(record.stderr_bytes)
        self.observe_calls(record.tool_calls)

    def observe_calls(self, calls: Iterable[ToolCall]) -> None:
        """Count calls that have ended, whether a program made them or not; replayed ones reached no server."""
        for call in calls:
            if call.outcome is CallOutcome.REPLAYED:
                continue
            server = self._calls.count(call)
            if call.outcome in TIMED_OUTCOMES:
                self._call_seconds.labels(server).observe(call.duration_ms / 1000)

    def render(self) -> bytes:
        return generate_latest(self._registry)


def memory_limit_bytes() -> float:
    """Return what the daemon's container may use, or what the machine has."""
    machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in CGROUP_LIMITS:
        try:
            return min(machine, float(file.read_text()))
        except (OSError, ValueError):  # the other version of control groups, or "max"
            continue
    return machine


class _CallCounts(Collector):
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._counts: Counts[tuple[str, str, CallOutcome]] = Counts()
        self._series_of: Counts[str] = Counts()  # with the name of a tool, by server

    def count(self, call: ToolCall) -> str:
        """Count a call and return what its server is called here."""
        server, tool = self._labels(call)
        if tool != OTHER and (server, tool, call.outcome) not in self._counts:
            if self._has_room(server):
                self._series_of[server] += 1
            else:
                tool = OTHER
        self._counts[server, tool, call.outcome] += 1
        return server

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(
            "code_executor_tool_calls", "Tool calls of executions that ended.", labels=["server", "tool", "outcome"]
        )
        for labels, count in (dict.fromkeys(self._expected(), 0) | self._counts).items():
            family.add_metric(labels, count)
        yield family

    def _labels(self, call: ToolCall) -> tuple[str, str]:
        if self._catalog.find(call.server, call.tool) is not None and _is_label(call.server):
            return call.server, call.tool if _is_label(call.tool) else OTHER
        known = {status.server for status in self._catalog.statuses() if _is_label(status.server)}
        return call.server if call.server in known else OTHER, OTHER

    def _has_room(self, server: str) -> bool:
        return self._series_of.total() < MOST_SERIES and self._series_of[server] < MOST_SERIES_OF_A_SERVER

    def _expected(self) -> Iterator[tuple[str, str, CallOutcome]]:
        yield from ((OTHER, OTHER, outcome) for outcome in CallOutcome)
        room = MOST_SERIES - self._series_of.total()
        for server, tools in self._catalog.listed().items():
            names = [tool.name for tool in tools if _is_label(server) and _is_label(tool.name)]
            lines = ((server, name, outcome) for name in names for outcome in EXPECTED_OUTCOMES)
            new = [line for line in lines if line not in self._counts]
            taken = new[: max(0, min(room, MOST_SERIES_OF_A_SERVER - self._series_of[server]))]
            room -= len(taken)
            yield from taken


class _ServerGauges(Collector):
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def collect(self) -> Iterator[GaugeMetricFamily]:
        state = GaugeMetricFamily(
            "code_executor_server_state", "1 for the state that a server is in.", labels=["server", "state"]
        )
        tools = GaugeMetricFamily("code_executor_server_tools", "Tools that a server lists.", labels=["server"])
        for status in self._catalog.statuses():
            if _is_label(status.server):
                tools.add_metric([status.server], status.tools)
                for each in UpstreamState:
                    state.add_metric([status.server, each], status.state is each)
        yield state
        yield tools


class _LiveGauges(Collector):
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> list[GaugeMetricFamily]:
        return [
            GaugeMetricFamily(name, description, value=read()) for name, (description, read) in self._gauges.items()
        ]


def _is_label(name: str) -> bool:
    """Controls and marks of direction in a name would change what people see of everything beside it."""
    return name.isprintable() and 0 < len(name) <= LONGEST_LABEL
