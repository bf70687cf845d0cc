"""The tool calls of an execution as a model reads them: one line for each tool, however often it was called. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.domain.ledger import CallOutcome, ToolCall
from orchestrator.faces.mcp.excerpts import Room

MAX_DETAIL_CHARACTERS = 200
MAX_NAME_CHARACTERS = 128


def ledger_lines(calls: Sequence[ToolCall], room: Room, told: str = "") -> list[str]:
    """Write a line for each tool, in the order of their first calls; what is told elsewhere is not repeated."""
    by_tool: dict[tuple[str, str], list[ToolCall]] = {}
    for call in calls:
        by_tool.setdefault((call.server, call.tool), []).append(call)
    lines: list[str] = []
    shown = 0
    for group in by_tool.values():
        line = _line(group, told)
        if room.excess(line) > 1:
            lines.append(f"… and {len(calls) - shown} more tool calls")
            break
        room = room.without(line)
        lines.append(line)
        shown += len(group)
    return lines


def _line(group: Sequence[ToolCall], told: str) -> str:
    name = f"{group[0].server[:MAX_NAME_CHARACTERS]}/{group[0].tool[:MAX_NAME_CHARACTERS]}"
    times = f" ×{len(group)}" if len(group) > 1 else ""
    return f"{name}{times}, {_fates(group, told)}, {seconds(busy_ms(group) / 1000)}"


def _fates(group: Sequence[ToolCall], told: str) -> str:
    by_outcome: dict[CallOutcome, list[ToolCall]] = {}
    for call in group:
        by_outcome.setdefault(call.outcome, []).append(call)
    fates = []
    for outcome, calls in by_outcome.items():
        number = "" if len(group) == 1 else "all " if len(by_outcome) == 1 else f"{len(calls)} "
        details = list(dict.fromkeys(" ".join(call.detail.split()) for call in calls if call.detail))
        detail = details[0][:MAX_DETAIL_CHARACTERS] if details and details[0] not in told else ""
        explained = f" ({'first: ' if len(details) > 1 else ''}{detail})" if detail else ""
        fates.append(f"{number}{outcome}{explained}")
    return ", ".join(fates)


def busy_ms(calls: Iterable[ToolCall]) -> float:
    """Return how long at least one of the calls was under way; those at the same time count once."""
    busy = reached = 0.0
    for call in sorted(calls, key=lambda call: call.started_ms):
        end = call.started_ms + call.duration_ms
        busy += max(0.0, end - max(reached, call.started_ms))
        reached = max(reached, end)
    return busy


def seconds(duration: float) -> str:
    return f"{round(duration, 3 if duration < 1 else 1):g} s"
