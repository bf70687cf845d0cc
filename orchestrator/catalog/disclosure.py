"""Tells as little about tools as was asked for, and counts what that saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Protocol, TypeVar, assert_never

from orchestrator.catalog.replies import Metrics, Reply, ToolEntry, ToolGroup
from orchestrator.catalog.words import split_first_sentence
from orchestrator.domain.tools import Tool

MAX_SUMMARY_CHARACTERS = 160
MAX_REMEMBERED_REPLIES = 256

R = TypeVar("R", bound=Reply)


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


class Detail(StrEnum):
    NAME = "name"
    DESCRIPTION = "description"
    FULL = "full"


class Disclosure:
    """Counts for one state of the catalog: make a new one when its tools change, for it remembers what it counted."""

    def __init__(self, tools: Iterable[Tool], counter: TokenCounter) -> None:
        self._tools = tuple(tools)
        self._counter = counter
        self._definition_tokens: dict[str, int] = {}
        self._reply_tokens: dict[str, int] = {}

    def full_tokens(self, visible: Callable[[Tool], bool] = lambda _: True) -> int:
        """Return what the caller would carry without us: the definition of every tool that it may use."""
        total = 0
        for tool in filter(visible, self._tools):
            if tool.path not in self._definition_tokens:
                self._definition_tokens[tool.path] = self._counter.count(compact(definition(tool)))
            total += self._definition_tokens[tool.path]
        return total

    def with_metrics(self, reply: R, full_tokens: int) -> R:
        """Return the reply as it is sent, with its own cost counted in."""
        text = compact(reply)
        if text not in self._reply_tokens:
            if len(self._reply_tokens) >= MAX_REMEMBERED_REPLIES:
                self._reply_tokens.clear()
            self._reply_tokens[text] = self._counter.count(text)
        tokens = self._reply_tokens[text]
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


def ranked(tools: Iterable[Tool], detail: Detail) -> list[ToolEntry]:
    """Return one entry per tool, in the order given: for hits of a search, whose order says something."""
    entries = []
    for tool in tools:
        match detail:
            case Detail.NAME:
                entries.append(ToolEntry(server=tool.server, name=tool.name))
            case Detail.DESCRIPTION:
                entries.append(ToolEntry(server=tool.server, name=tool.name, description=summary(tool)))
            case Detail.FULL:
                entries.append(definition(tool, with_server=True))
            case _:
                assert_never(detail)
    return entries


def summary(tool: Tool) -> str:
    first, _ = split_first_sentence(tool.description or tool.title or "")
    flat = " ".join(first.split())
    if len(flat) <= MAX_SUMMARY_CHARACTERS:
        return flat
    cut = flat[: MAX_SUMMARY_CHARACTERS - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}…"


def definition(tool: Tool, *, with_server: bool = False) -> ToolEntry:
    """Return what MCP's tools/list says of the tool."""
    optional = {"title": tool.title, "output_schema": tool.output_schema, "annotations": tool.annotations}
    told: dict[str, Any] = {name: value for name, value in optional.items() if value}
    if with_server:
        told["server"] = tool.server
    return ToolEntry(name=tool.name, description=tool.description, input_schema=tool.input_schema, **told)


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
