"""Makes the dashboard for Grafana, whose JSON is too long to write; prints it, or with --write puts it in place."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "grafana" / "dashboards" / "code-executor.json"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"
SERVER = 'server=~"$server"'
RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    queries: Sequence[Query]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 12
    height: int = 8
    stacked: bool = False
    steps: Sequence[tuple[str, float | None]] = ((GREEN, None),)
    mappings: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # by value, the text and its colour
    colours: Mapping[str, str] = field(default_factory=dict)  # by legend


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]


def number(title: str, description: str, expression: str, **more: Any) -> Panel:
    return Panel(title, description, [Query(expression, title, instant=True)], "stat", width=4, height=4, **more)


def quantiles(metric: str, by: str, legend: str, *shares: float, where: str = "") -> list[Query]:
    return [
        Query(
            f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket{where}{RATE})))",
            f"{legend} p{share * 100:g}",
        )
        for share in shares
    ]


ROWS = (
    Row(
        "Now",
        (
            number(
                "Ready",
                "Whether an execution would work now. `make doctor` names what is wrong.",
                "min(code_executor_ready)",
                mappings={"1": ("ready", GREEN), "0": ("not ready", RED)},
            ),
            number(
                "Running",
                "Share of the places that executions take now.",
                "sum(code_executor_running) / sum(code_executor_max_running)",
                unit="percentunit",
                steps=((GREEN, None), (YELLOW, 0.8), (RED, 1)),
            ),
            number(
                "Waiting",
                "Executions that wait for a turn.",
                "sum(code_executor_waiting)",
                steps=((GREEN, None), (YELLOW, 1), (RED, 50)),
            ),
            number(
                "Warm sandboxes",
                "Sandboxes that wait for a program.",
                "sum(code_executor_warm)",
                steps=((YELLOW, None), (GREEN, 1)),
            ),
            number(
                "Servers down",
                "MCP servers that are not connected.",
                'count(code_executor_server_state{state="connected"} == 0) or vector(0)',
                steps=((GREEN, None), (RED, 1)),
            ),
            number(
                "Alerts",
                "Alerts that fire now; the page Alerts of Prometheus has each with what to do.",
                'count(ALERTS{alertstate="firing"}) or vector(0)',
                steps=((GREEN, None), (RED, 1)),
            ),
        ),
    ),
    Row(
        "Executions",
        (
            Panel(
                "Executions by outcome",
                "Per minute, as they end. `failed` is the program's own failure, `sandbox_error` is ours.",
                [Query(f"sum by (outcome) (rate(code_executor_executions_total{RATE})) * 60", "{{outcome}}")],
                unit="opm",
                stacked=True,
                colours={"completed": GREEN, "failed": YELLOW, "sandbox_error": RED, "cancelled": BLUE},
            ),
            Panel(
                "Latency by phase",
                "`queue` is the wait for a turn, `start` the wait for a sandbox, `run` the program itself.",
                quantiles("code_executor_phase_seconds", "phase", "{{phase}}", 0.5, 0.95, 0.99),
                unit="s",
            ),
            Panel(
                "Queue",
                "Beyond `at most` executions wait, and beyond what may wait they are refused.",
                [
                    Query("sum(code_executor_running)", "running"),
                    Query("sum(code_executor_waiting)", "waiting"),
                    Query("sum(code_executor_max_running)", "at most"),
                ],
                colours={"at most": RED},
            ),
            Panel(
                "Sandboxes",
                "Warm ones wait for a program; of these, preloaded ones have the client library loaded, too.",
                [
                    Query("sum(code_executor_sandboxes)", "all"),
                    Query("sum(code_executor_warm)", "warm"),
                    Query("sum(code_executor_preloaded)", "preloaded"),
                ],
            ),
            Panel(
                "Output",
                "What programs print per second, kept or not.",
                [Query(f"sum by (stream) (rate(code_executor_output_bytes_total{RATE}))", "{{stream}}")],
                unit="Bps",
                width=24,
                height=6,
            ),
        ),
    ),
    Row(
        "Tools",
        (
            Panel(
                "Tool calls by server",
                "Per minute, as their executions end.",
                [
                    Query(
                        f"sum by (server) (rate(code_executor_tool_calls_total{{{SERVER}}}{RATE})) * 60",
                        "{{server}}",
                    )
                ],
                unit="opm",
                stacked=True,
            ),
            Panel(
                "Tool errors",
                "Per minute. `tool_error` is the tool's answer, `denied` the role's, `unavailable` none at all.",
                [
                    Query(
                        "sum by (server, tool, outcome) "
                        f'(rate(code_executor_tool_calls_total{{{SERVER},outcome!="done"}}{RATE})) * 60 > 0',
                        "{{server}}/{{tool}} {{outcome}}",
                    )
                ],
                unit="opm",
            ),
            Panel(
                "Slowest servers",
                "The time that nineteen of twenty calls stay under.",
                quantiles("code_executor_tool_call_seconds", "server", "{{server}}", 0.95, where=f"{{{SERVER}}}"),
                unit="s",
            ),
            Panel(
                "Servers",
                "Whether the daemon is connected to each; its /health has the reason if not.",
                [
                    Query(
                        f'sum by (server) (code_executor_server_state{{{SERVER},state="connected"}} * 2 '
                        f'or code_executor_server_state{{{SERVER},state="connecting"}})',
                        "{{server}}",
                    )
                ],
                kind="state-timeline",
                mappings={"2": ("connected", GREEN), "1": ("connecting", YELLOW), "0": ("down", RED)},
            ),
            Panel(
                "Most used tools",
                "Calls in the time that is shown.",
                [
                    Query(
                        "topk(20, sum by (server, tool) "
                        f"(increase(code_executor_tool_calls_total{{{SERVER}}}[$__range])) > 0)",
                        "{{server}}/{{tool}}",
                        instant=True,
                    )
                ],
                kind="bargauge",
            ),
            Panel(
                "Tools and sessions",
                "Tools that each server lists, and the sessions that servers have for executions.",
                [
                    Query(f"code_executor_server_tools{{{SERVER}}}", "{{server}} tools"),
                    Query("sum(code_executor_server_sessions)", "sessions"),
                ],
            ),
        ),
    ),
    Row(
        "The daemon",
        (
            Panel(
                "Memory",
                "At its limit the kernel ends the daemon.",
                [
                    Query('process_resident_memory_bytes{job="code-executor"}', "used"),
                    Query("code_executor_memory_limit_bytes", "limit"),
                ],
                unit="bytes",
                width=8,
                colours={"limit": RED},
            ),
            Panel(
                "CPU",
                "Of one processor.",
                [Query(f'rate(process_cpu_seconds_total{{job="code-executor"}}{RATE})', "used")],
                unit="percentunit",
                width=8,
            ),
            Panel(
                "Connections",
                "Connections to the API, and the files that the daemon has open for them and for everything else.",
                [
                    Query("sum(code_executor_connections)", "connections"),
                    Query('process_open_fds{job="code-executor"}', "open files"),
                ],
                width=8,
            ),
            Panel(
                "Bodies of requests",
                "Bytes that are reserved for bodies of requests that are being read.",
                [Query("sum(code_executor_intake_bytes)", "reserved")],
                unit="bytes",
                width=24,
                height=5,
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    return {
        "title": "MCP Code Executor",
        "uid": "mcp-code-executor",
        "description": "Executions, tool calls and the daemon itself. Made by deploy/monitoring/dashboard.py.",
        "tags": ["mcp-code-executor"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "15s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource_choice(), _server_choice()]},
        "panels": [*_placed()],
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


def _placed() -> Iterator[dict[str, Any]]:
    """Set panels from left to right, and begin a new line where one does not fit."""
    top = number_of_panel = 0
    for row in ROWS:
        number_of_panel += 1
        yield {
            "id": number_of_panel,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, height = top + height, 0, 0
            number_of_panel += 1
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield {"id": number_of_panel, "gridPos": place, **_panel(panel)}
            left, height = left + panel.width, max(height, panel.height)
        top += height


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + position),
                "datasource": DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "instant": query.instant,
                "range": not query.instant,
            }
            for position, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _field_defaults(panel), "overrides": _colours(panel)},
        "options": _options(panel),
    }


def _field_defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"color": colour, "value": value} for colour, value in panel.steps]
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.mappings:
        told = {value: {"text": words, "color": colour} for value, (words, colour) in panel.mappings.items()}
        defaults["mappings"] = [{"type": "value", "options": told}]
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 20 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    if panel.kind == "state-timeline":
        defaults["custom"] = {"fillOpacity": 70, "lineWidth": 0}
    return defaults


def _colours(panel: Panel) -> list[dict[str, Any]]:
    return [
        {
            "matcher": {"id": "byName", "options": legend},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for legend, colour in panel.colours.items()
    ]


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "stat":
            return {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
        case "bargauge":
            return {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": {"calcs": ["lastNotNull"]}}
        case "state-timeline":
            return {"mergeValues": True, "showValue": "never", "legend": {"showLegend": False}}
        case _:
            legend = {"displayMode": "table", "placement": "right", "showLegend": True, "calcs": ["lastNotNull", "max"]}
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _datasource_choice() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _server_choice() -> dict[str, Any]:
    query = "label_values(code_executor_server_state, server)"
    return {
        "name": "server",
        "label": "Server",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "server"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def main(arguments: list[str]) -> None:
    if arguments == ["--write"]:
        FILE.write_text(text())
    else:
        sys.stdout.write(text())


if __name__ == "__main__":
    main(sys.argv[1:])
