"""The daemon at a glance: what runs, what ran, and how the servers are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from rich.text import Text

from orchestrator.commands.client import ApiClient, Event
from orchestrator.commands.feed import CALLS_UNDER_WAY, NO_FAILURES, UNDER_WAY, Fact, coloured, in_one_line, word_of
from orchestrator.commands.terminal import Json, plain
from orchestrator.domain.execution import Kind
from orchestrator.domain.file_words import count_in_words

LAST = timedelta(hours=1)
MAX_READ = 100
MAX_FINISHED = 20
# A section of fewer would have no row: on a screen that is too small for all, the first ones stay.
LEAST_LINES = 5


@dataclass(slots=True)
class Overview:
    """What is known of the daemon: read at once, then kept up to date by its events."""

    figures: Json = field(default_factory=dict)  # of the last hour
    load: Json = field(default_factory=dict)
    under_way: dict[str, Json] = field(default_factory=dict)  # oldest first
    finished: dict[str, Json] = field(default_factory=dict)  # in the order of their end
    servers: dict[str, Json] = field(default_factory=dict)
    calling: dict[str, dict[int, str]] = field(default_factory=dict)  # the calls in flight of those under way
    disconnected: str | None = None  # why what is shown is of the past

    async def read(self, client: ApiClient) -> None:
        """Read everything anew, as at the beginning or after events were missed."""
        await self.read_figures(client)
        newest = (await client.get("/executions", [("limit", str(MAX_READ))]))["executions"]
        under_way = []
        for state in UNDER_WAY:
            found = await client.get("/executions", [("state", state), ("limit", str(MAX_READ))])
            under_way += found["executions"]
        self.under_way = {each["executionId"]: each for each in sorted(under_way, key=lambda each: each["acceptedAt"])}
        self.calling = {key: calls for key, calls in self.calling.items() if key in self.under_way}
        ended = [each for each in newest if each["finishedAt"] and each["executionId"] not in self.under_way]
        ended = sorted(ended, key=lambda each: each["finishedAt"])[-MAX_FINISHED:]
        self.finished = {each["executionId"]: each for each in ended}
        costs = await client.get("/tools/costs")
        self.servers = {each["server"]: each for each in costs["servers"]}

    async def read_figures(self, client: ApiClient) -> None:
        self.figures = await client.statistics((datetime.now(UTC) - LAST).isoformat())
        self.load = self.figures["now"]

    def take(self, event: Event) -> None:
        """Take in what has happened."""
        told = event.fields
        match event.name:
            case Fact.LOAD:
                self.load = told
            case Fact.SERVER:
                self.servers[told["server"]] = told
            case Fact.EXECUTION:
                self._take_execution(told)
            case Fact.TOOL_CALL:
                self._take_call(told)

    def _take_execution(self, told: Json) -> None:
        key = told["executionId"]
        if told["state"] in UNDER_WAY:
            self.under_way[key] = told
            return
        self.under_way.pop(key, None)
        self.calling.pop(key, None)
        self.finished.pop(key, None)
        self.finished[key] = told
        while len(self.finished) > MAX_FINISHED:
            del self.finished[next(iter(self.finished))]

    def _take_call(self, told: Json) -> None:
        execution = self.under_way.get(told["executionId"])
        if execution is None:
            return
        execution["toolCallCount"] = max(execution["toolCallCount"], told["number"] + 1)
        calls = self.calling.setdefault(told["executionId"], {})
        if told["outcome"] in CALLS_UNDER_WAY:
            calls[told["number"]] = f"{told['server']}/{told['tool']}"
        else:
            calls.pop(told["number"], None)

    @property
    def failed(self) -> int:
        """Return how many executions of the last hour failed, as GET /stats counts them for each caller."""
        outcomes: dict[str, int] = self.figures["outcomes"]
        return sum(count for outcome, count in outcomes.items() if outcome not in NO_FAILURES)

    def document(self) -> Json:
        latency = self.figures["latency"]
        return {
            "now": self.load,
            "lastHour": {
                "executions": self.figures["executions"],
                "failed": self.failed,
                "p50Ms": latency["p50Ms"],
                "p99Ms": latency["p99Ms"],
            },
            "underWay": list(self.under_way.values()),
            "finished": list(reversed(self.finished.values())),
            "servers": list(self.servers.values()),
        }


def lines_of(overview: Overview, now: datetime, width: int | None = None, height: int | None = None) -> list[Text]:
    """Return an overview as lines, none wider than a screen and no more than it has; None is for no screen."""
    head = [*_head(overview), Text()]
    sections = [
        _Section(
            "Under way",
            ("Age", "Calls", "State", "Language", "Caller", "Calling", "Execution"),
            [_under_way(overview, each, now) for each in overview.under_way.values()],
        ),
        _Section(
            "Finished",
            ("Ago", "Took", "Calls", "Outcome", "Language", "Caller", "Execution"),
            [_finished(each, now) for each in reversed(overview.finished.values())],
        ),
        _Section(
            "Servers", ("Server", "State", "Tools", "Problem"), [_server(each) for each in overview.servers.values()]
        ),
    ]
    room = {section.title: section.height for section in sections}
    if height is not None:
        left = height - len(head) + 1  # nothing follows the last empty line
        while len(sections) > 1 and left < sum(min(section.height, LEAST_LINES) for section in sections):
            sections.pop()
        # The one that needs least first, so that what it leaves goes to the others.
        by_height = sorted(sections, key=lambda each: each.height)
        for others, section in zip(range(len(sections), 0, -1), by_height, strict=True):
            room[section.title] = min(section.height, left // others)
            left -= room[section.title]
    lines = [*head, *(line for section in sections for line in section.lines(room[section.title]))]
    if width is not None:
        for line in lines:
            line.truncate(width, overflow="ellipsis")
    return lines[:-1] if height is None else lines[:height]


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    columns: Sequence[str]
    rows: list[list[Text]]

    @property
    def height(self) -> int:
        """Return the lines that it needs: for its title, its table and an empty one."""
        return len(self.rows) + 3 if self.rows else 2

    def lines(self, room: int) -> list[Text]:
        if not self.rows:
            return [Text(f"{self.title}: none", "bold"), Text()]
        shown = self.rows if room >= self.height else self.rows[: max(0, room - 4)]
        more = [Text(f"… {len(self.rows) - len(shown)} more", "dim")] if len(shown) < len(self.rows) else []
        table = _table([[Text(name, "dim") for name in self.columns], *shown])
        return [Text(f"{self.title} ({len(self.rows)})", "bold"), *table, *more, Text()]


def _table(rows: Sequence[Sequence[Text]]) -> Iterable[Text]:
    """Align the cells of rows; a table of rich's would break lines where the screen is too narrow."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        for cell, width in zip(row, widths, strict=True):
            cell.pad_right(width - cell.cell_len)
        line = Text("  ").join(row)
        line.rstrip()
        yield line


def _head(overview: Overview) -> list[Text]:
    load, figures = overview.load, overview.figures
    now = "  ".join(f"{load[name]} {name}" for name in ("running", "waiting", "warm"))
    hour = f"last hour: {count_in_words(figures['executions'], 'execution')}, {overview.failed} failed"
    if (latency := figures["latency"])["p50Ms"] is not None:
        hour += f", median {_duration(latency['p50Ms'])}, p99 {_duration(latency['p99Ms'])}"
    problem = overview.disconnected or load["problem"]
    return [
        Text.assemble(coloured("ready" if load["ready"] else "not ready"), "  ", now),
        Text(hour),
        *([plain(in_one_line(problem), "red")] if problem else []),
    ]


def _under_way(overview: Overview, execution: Json, now: datetime) -> list[Text]:
    calling = list(overview.calling.get(execution["executionId"], {}).values())
    more = f" and {len(calling) - 1} more" if len(calling) > 1 else ""
    return [
        Text(_age(execution["acceptedAt"], now)),
        Text(str(execution["toolCallCount"])),
        coloured(word_of(execution)),
        _language(execution),
        _cell(execution["caller"]),
        _cell(f"{calling[0]}{more}" if calling else ""),
        _cell(execution["executionId"]),  # last: where the screen is narrow, it is what one can do without
    ]


def _finished(execution: Json, now: datetime) -> list[Text]:
    took = execution["executionTime"]
    return [
        Text(_age(execution["finishedAt"] or execution["acceptedAt"], now)),
        Text("" if took is None else _duration(took)),
        Text(str(execution["toolCallCount"])),
        coloured(word_of(execution)),
        _language(execution),
        _cell(execution["caller"]),
        _cell(execution["executionId"]),
    ]


def _server(server: Json) -> list[Text]:
    return [
        _cell(server["server"]),
        coloured(server["state"]),
        Text(str(server["tools"])),
        _cell(server["problem"] or ""),
    ]


def _language(execution: Json) -> Text:
    return _cell("tool call" if execution["kind"] == Kind.CALL else execution["language"] or "")


def _cell(text: str) -> Text:
    return plain(in_one_line(text))


def _age(iso: str, now: datetime) -> str:
    return _duration(max(0.0, (now - datetime.fromisoformat(iso)).total_seconds()) * 1000, whole_seconds=True)


def _duration(milliseconds: float, *, whole_seconds: bool = False) -> str:
    """Write a time in three digits or fewer, as far as that goes: `340 ms`, `1.2 s`, `12 s`, `3 min`, `2 h`, `3 d`."""
    seconds = milliseconds / 1000
    if seconds < 1 and not whole_seconds:
        return f"{milliseconds:.0f} ms"
    if seconds < 10 and not whole_seconds:
        return f"{seconds:.1f} s"
    for limit, size, unit in ((100, 1, "s"), (100 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"
