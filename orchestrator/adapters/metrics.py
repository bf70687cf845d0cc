"""Prometheus metrics of the daemon."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from orchestrator.domain.execution import ExecutionResult
from orchestrator.domain.ledger import CallOutcome

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
Gauges = dict[str, tuple[str, Callable[[], float]]]


class Metrics:
    def __init__(self, gauges: Gauges) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_LiveGauges(gauges))
        self._executions = Counter(
            "code_executor_executions", "Executions that ended.", ["language", "outcome"], registry=self._registry
        )
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

        self._calls = Counter(
            "code_executor_tool_calls", "Tool calls of executions that ended.", ["outcome"], registry=self._registry
        )
        for outcome in CallOutcome:  # so that the first denied call is a step from 0, not a new line
            self._calls.labels(outcome)

    def observe(self, result: ExecutionResult) -> None:
        record = result.record
        self._executions.labels(record.language, record.outcome).inc()
        self._phases.labels("queue").observe(record.timings.queue_seconds)
        self._phases.labels("start").observe(record.timings.start_seconds)
        self._phases.labels("run").observe(record.timings.run_seconds)
        self._output.labels("stdout").inc(record.stdout_bytes)
        self._output.labels("stderr").inc(record.stderr_bytes)
        for call in record.tool_calls:
            self._calls.labels(call.outcome).inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _LiveGauges(Collector):
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> list[GaugeMetricFamily]:
        return [
            GaugeMetricFamily(name, description, value=read()) for name, (description, read) in self._gauges.items()
        ]
