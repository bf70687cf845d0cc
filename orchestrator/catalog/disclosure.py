"""Tells as little about tools as was asked for, and counts what that saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, assert_never

from orchestrator.catalog.sentences import split_first_sentence
from orchestrator.domain.tools import Tool

MAX_SUMMARY_CHARACTERS = 160
MAX_REMEMBERED_REPLIES = 256

Json = dict[str, Any]


class TokenCounter(Protocol):
    def count(self, text: str) -> int: ...


class Detail(StrEnum):
    NAME = "name"
    DESCRIPTION = "description"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a reply costs beside the full definitions of every tool that the caller may use."""

    tokens: int
    full_tokens: int

    @property
    def saved_percent(self) -> float:
        if self.tokens >= self.full_tokens:
            return 0.0
        return round(100 * (1 - self.tokens / self.full_tokens), 1)

    def as_json(self) -> Json:
        return {"tokens": self.tokens, "fullTokens": self.full_tokens, "savedPercent": self.saved_percent}


class Disclosure:
    """For one state of the catalog: make a new one when its tools change, for it remembers what it counted."""

    def __init__(self, tools: Iterable[Tool], counter: TokenCounter) -> None:
        self._tools = tuple(tools)
        self._counter = counter
        self._definition_tokens: dict[str, int] = {}
        self._reply_tokens: dict[str, int] = {}

    def full_tokens(self, visible: Callable[[Tool], bool] = lambda _: True) -> int:
        """What the caller would carry without us: the definition of every tool that it may use."""
        return sum(self._tokens_of_definition(tool) for tool in self._tools if visible(tool))

    def with_metrics(self, reply: Mapping[str, Any], full_tokens: int) -> Json:
        """The reply as it is sent, with its own cost counted in."""
        tokens = self._tokens_of_reply(compact(reply))
        draft = Metrics(tokens, full_tokens).as_json()
        sent = Metrics(tokens + self._counter.count(f'"metrics":{compact(draft)}'), full_tokens)
        return {**reply, "metrics": sent.as_json()}

    def _tokens_of_definition(self, tool: Tool) -> int:
        if tool.path not in self._definition_tokens:
            self._definition_tokens[tool.path] = self._counter.count(compact(definition(tool)))
        return self._definition_tokens[tool.path]

    def _tokens_of_reply(self, text: str) -> int:
        if text not in self._reply_tokens:
            if len(self._reply_tokens) >= MAX_REMEMBERED_REPLIES:
                self._reply_tokens.clear()
            self._reply_tokens[text] = self._counter.count(text)
        return self._reply_tokens[text]


def grouped(tools: Iterable[Tool], detail: Detail) -> Json:
    """Tools by server, in the order given: the cheapest form, for lists."""
    by_server: dict[str, list[Tool]] = {}
    for tool in tools:
        by_server.setdefault(tool.server, []).append(tool)
    return {server: _group(of_server, detail) for server, of_server in by_server.items()}


def ranked(tools: Iterable[Tool], detail: Detail) -> list[Json]:
    """One entry per tool, in the order given: for hits of a search, whose order says something."""
    return [{"server": tool.server, **_entry(tool, detail)} for tool in tools]


def summary(tool: Tool) -> str:
    first, _ = split_first_sentence(tool.description or tool.title or "")
    flat = " ".join(first.split())
    if len(flat) <= MAX_SUMMARY_CHARACTERS:
        return flat
    cut = flat[: MAX_SUMMARY_CHARACTERS - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}…"


def definition(tool: Tool) -> Json:
    """What MCP's tools/list says of the tool."""
    optional = {"title": tool.title, "outputSchema": tool.output_schema, "annotations": tool.annotations}
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        **{key: value for key, value in optional.items() if value},
    }


def compact(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    # A lone surrogate is legal in JSON but has no bytes, and a tokenizer reads bytes.
    return text.encode(errors="replace").decode()


def _group(tools: Sequence[Tool], detail: Detail) -> object:
    match detail:
        case Detail.NAME:
            return _names([tool.name for tool in tools])
        case Detail.DESCRIPTION:
            return {tool.name: summary(tool) for tool in tools}
        case Detail.FULL:
            return [definition(tool) for tool in tools]
        case _:
            assert_never(detail)


def _names(names: list[str]) -> str | list[str]:
    # One string costs a quarter less than a list of strings; a name with a space in it needs the list.
    return names if any(len(name.split()) != 1 for name in names) else " ".join(names)


def _entry(tool: Tool, detail: Detail) -> Json:
    match detail:
        case Detail.NAME:
            return {"name": tool.name}
        case Detail.DESCRIPTION:
            return {"name": tool.name, "description": summary(tool)}
        case Detail.FULL:
            return definition(tool)
        case _:
            assert_never(detail)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
