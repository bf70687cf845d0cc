"""Tells as little about tools as was asked for, and counts what that saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any, Protocol, TypeVar, assert_never

from orchestrator.catalog.replies import LevelTokens, Metrics, Reply, ToolEntry, ToolGroup
from orchestrator.catalog.words import split_first_sentence
from orchestrator.domain.tools import Tool

MAX_SUMMARY_CHARACTERS = 160
MAX_REMEMBERED_REPLIES = 256
MAX_KEY_CHARACTERS = 1024
MAX_DESCRIPTION_CHARACTERS = 4000

R = TypeVar("R", bound=Reply)


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


class Detail(StrEnum):
    NAME = "name"
    DESCRIPTION = "description"
    FULL = "full"


class Disclosure:
    """Counts for one state of the catalog: make a new one when its tools change, for it remembers what it counted.

    Threads may share it. What they count twice at the same time, they count the same.
    """

    def __init__(self, tools: Iterable[Tool], counter: TokenCounter, before: Disclosure | None = None) -> None:
        self._tools = tuple(tools)
        self._counter = counter
        self._definition_tokens: dict[str, int] = {}
        self._reply_tokens: dict[str, int] = {}
        if before is not None:
            known = {tool.path: tool for tool in before._tools}
            same = (tool.path for tool in self._tools if known.get(tool.path) is tool)
            counted = before._definition_tokens
            self._definition_tokens = {path: counted[path] for path in same if path in counted}

    def count_definitions(self) -> None:
        """Count in advance what every reply refers to."""
        self.full_tokens()

    def full_tokens(self, visible: Callable[[Tool], bool] = lambda _: True) -> int:
        """Return what the caller would carry without us: the definition of every tool that it may use."""
        return sum(map(self.definition_tokens, filter(visible, self._tools)))

    def definition_tokens(self, tool: Tool) -> int:
        tokens = self._definition_tokens.get(tool.path)
        if tokens is None:
            tokens = self._definition_tokens[tool.path] = self._counter.count(compact(definition(tool)))
        return tokens

    def with_metrics(self, reply: R, full_tokens: int) -> R:
        """Return the reply as it is sent, with its own cost counted in."""
        text = compact(reply)
        key = text if len(text) <= MAX_KEY_CHARACTERS else sha256(text.encode()).hexdigest()
        tokens = self._reply_tokens.get(key)
        if tokens is None:
            tokens = self._counter.count(text)
            if len(self._reply_tokens) >= MAX_REMEMBERED_REPLIES:
                self._reply_tokens.clear()
            self._reply_tokens[key] = tokens
        draft = compact(Metrics.of(tokens, full_tokens))
        sent = Metrics.of(tokens + self._counter.count(f'"metrics":{draft}'), full_tokens)
        return reply.model_copy(update={"metrics": sent})


def grouped(tools: Iterable[Tool], detail: Detail) -> dict[str, ToolGroup]:
    """Return tools by server, in the order given: the cheapest form, for lists."""
    by_server: dict[str, list[Tool]] = {}
    for tool in tools:
        by_server.setdefault(tool.server, []).append(tool)
    groups: dict[str, ToolGroup] = {}
    for server, group in by_server.items():
        match detail:
            case Detail.NAME:
                names = [tool.name for tool in group]
                # One string costs a quarter less than a list of strings; a name with a space in it needs the list.
                groups[server] = " ".join(names) if all(len(name.split()) == 1 for name in names) else names
            case Detail.DESCRIPTION:
                groups[server] = {tool.name: summary(tool) for tool in group}
            case Detail.FULL:
                groups[server] = [definition(tool) for tool in group]
            case _:
                assert_never(detail)
    return groups


def level_tokens(group: Sequence[Tool], counter: TokenCounter, full: int) -> LevelTokens:
    """Return what a list of these tools costs at each level of detail; that of their definitions is known."""

    def told(detail: Detail) -> int:
        return counter.count(compact(grouped(group, detail))) if group else 0

    return LevelTokens(name=told(Detail.NAME), description=told(Detail.DESCRIPTION), full=full)


def ranked(tools: Iterable[Tool], detail: Detail) -> list[ToolEntry]:
    """Return one entry per tool, in the order given: for hits of a search, whose order says something."""
    entries = []
    for tool in tools:
        match detail:
            case Detail.NAME:
                entries.append(ToolEntry(server=tool.server, name=tool.name, **_kind(tool)))
            case Detail.DESCRIPTION:
                entries.append(ToolEntry(server=tool.server, name=tool.name, **_kind(tool), description=summary(tool)))
            case Detail.FULL:
                entries.append(definition(tool, with_server=True))
            case _:
                assert_never(detail)
    return entries


def summary(tool: Tool) -> str:
    first, _ = split_first_sentence((tool.description or tool.title or "").strip()[:MAX_DESCRIPTION_CHARACTERS])
    flat = " ".join(first.split())
    if len(flat) <= MAX_SUMMARY_CHARACTERS:
        return flat
    cut = flat[: MAX_SUMMARY_CHARACTERS - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}…"


def definition(tool: Tool, *, with_server: bool = False) -> ToolEntry:
    """Return what MCP's tools/list says of the tool."""
    optional = {"title": tool.title, "output_schema": tool.output_schema, "annotations": tool.annotations}
    told: dict[str, Any] = {name: value for name, value in optional.items() if value} | _kind(tool)
    if with_server:
        told["server"] = tool.server
    return ToolEntry(name=tool.name, description=tool.description, input_schema=tool.input_schema, **told)


def _kind(tool: Tool) -> dict[str, str]:
    return {"kind": "skill"} if tool.skill is not None else {}


def compact(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain)
    # A lone surrogate is legal in JSON but has no bytes, and a tokenizer reads bytes.
    return text.encode(errors="replace").decode()


def plain(value: object) -> object:
    """Tell json.dumps what a reply consists of."""
    match value:
        case Reply():
            return value.given()
        case Mapping():
            return dict(value)
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")
