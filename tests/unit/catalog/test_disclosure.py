from __future__ import annotations

import json
from collections import Counter
from types import MappingProxyType
from typing import Any

import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.catalog.disclosure import (
    MAX_SUMMARY_CHARACTERS,
    Detail,
    Disclosure,
    compact,
    definition,
    grouped,
    ranked,
    summary,
)
from orchestrator.catalog.replies import Metrics, ToolListing
from orchestrator.domain.tools import Tool


@pytest.fixture(scope="module")
def o200k() -> O200kTokenCounter:
    return O200kTokenCounter()


def sent(reply: object) -> Any:
    return json.loads(compact(reply))


class CountedCalls:
    """A counter that remembers what it was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return len(text)


def test_the_catalog_of_the_figures_has_63_tools_on_9_servers(sixty_three_tools):
    counts = Counter(tool.server for tool in sixty_three_tools)
    assert counts == {
        "filesystem": 9,
        "postgres": 1,
        "playwright": 6,
        "memory": 9,
        "minio": 9,
        "n8n": 6,
        "timescaledb": 6,
        "ib": 10,
        "arangodb": 7,
    }


@pytest.mark.parametrize(("detail", "limit"), [(Detail.NAME, 245), (Detail.DESCRIPTION, 1181)])
def test_63_tools_cost_no_more_than_promised_with_the_metrics_counted_in(sixty_three_tools, o200k, detail, limit):
    disclosure = Disclosure(sixty_three_tools, o200k)
    reply = disclosure.with_metrics(ToolListing(tools=grouped(sixty_three_tools, detail)), disclosure.full_tokens())
    assert o200k.count(compact(reply)) <= limit
    assert reply.metrics.tokens <= limit


@pytest.mark.parametrize("detail", list(Detail))
def test_the_reported_tokens_are_those_of_the_reply_as_sent(sixty_three_tools, o200k, detail):
    disclosure = Disclosure(sixty_three_tools, o200k)
    reply = disclosure.with_metrics(ToolListing(tools=grouped(sixty_three_tools, detail)), disclosure.full_tokens())
    assert reply.metrics.tokens == pytest.approx(o200k.count(compact(reply)), abs=3)


def test_the_names_form_tells_every_name_by_server(sixty_three_tools):
    names = grouped(sixty_three_tools, Detail.NAME)
    told = [(server, name) for server, joined in names.items() for name in joined.split()]
    assert told == [(tool.server, tool.name) for tool in sixty_three_tools]


def test_a_name_with_a_space_is_told_whole():
    assert grouped([Tool("s", "do it"), Tool("s", "stop")], Detail.NAME) == {"s": ["do it", "stop"]}


def test_descriptions_are_the_first_sentence():
    tool = Tool("s", "t", "  Finds icons, e.g. a house.\n Then more. ")
    assert grouped([tool], Detail.DESCRIPTION) == {"s": {"t": "Finds icons, e.g. a house."}}


def test_a_long_first_sentence_is_cut_at_a_word():
    cut = summary(Tool("s", "t", "word " * 100))
    assert len(cut) <= MAX_SUMMARY_CHARACTERS
    assert cut.endswith("word…")


def test_a_long_sentence_without_spaces_is_cut_too():
    assert len(summary(Tool("s", "t", "字" * 1000))) == MAX_SUMMARY_CHARACTERS


def test_a_tool_without_description_is_told_by_its_title():
    assert summary(Tool("s", "t", title="Do the thing")) == "Do the thing"


def test_full_detail_is_the_definition_without_what_is_not_there():
    tool = Tool("s", "t", "Text.", {"type": "object"}, {"type": "string"}, {"readOnlyHint": True})
    assert sent(grouped([tool, Tool("s", "bare")], Detail.FULL))["s"] == [
        {
            "name": "t",
            "description": "Text.",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "string"},
            "annotations": {"readOnlyHint": True},
        },
        {"name": "bare", "description": "", "inputSchema": {}},
    ]


def test_hits_keep_their_order_across_servers():
    tools = [Tool("b", "one", "First. Second."), Tool("a", "two"), Tool("b", "three")]
    assert sent(ranked(tools, Detail.NAME)) == [
        {"server": "b", "name": "one"},
        {"server": "a", "name": "two"},
        {"server": "b", "name": "three"},
    ]
    assert sent(ranked(tools[:1], Detail.DESCRIPTION)) == [{"server": "b", "name": "one", "description": "First."}]
    assert sent(ranked(tools[:1], Detail.FULL)) == [{"server": "b", **sent(definition(tools[0]))}]


def test_what_is_saved_is_measured_against_the_definitions_of_all_visible_tools(sixty_three_tools, o200k):
    disclosure = Disclosure(sixty_three_tools, o200k)
    memory = [tool for tool in sixty_three_tools if tool.server == "memory"]
    expected = sum(o200k.count(compact(definition(tool))) for tool in memory)
    assert disclosure.full_tokens(lambda tool: tool.server == "memory") == expected
    assert disclosure.full_tokens() > expected


def test_the_names_of_63_tools_save_more_than_nine_tenths(sixty_three_tools, o200k):
    disclosure = Disclosure(sixty_three_tools, o200k)
    reply = disclosure.with_metrics(
        ToolListing(tools=grouped(sixty_three_tools, Detail.NAME)), disclosure.full_tokens()
    )
    metrics = reply.metrics
    assert 90 < metrics.saved_percent < 100
    assert metrics.saved_percent == round(100 * (1 - metrics.tokens / metrics.full_tokens), 1)


@pytest.mark.parametrize(
    ("tokens", "full", "saved"),
    [(25, 100, 75.0), (1, 3, 66.7), (100, 100, 0.0), (300, 100, 0.0), (12, 0, 0.0), (0, 0, 0.0)],
)
def test_saved_percent_is_never_negative_and_survives_an_empty_catalog(tokens, full, saved):
    assert sent(Metrics.of(tokens, full)) == {"tokens": tokens, "fullTokens": full, "savedPercent": saved}


def test_definitions_and_repeated_replies_are_counted_once():
    tools = [Tool("s", "one", "First."), Tool("s", "two", "Second.")]
    counter = CountedCalls()
    disclosure = Disclosure(tools, counter)
    for _ in range(3):
        disclosure.with_metrics(ToolListing(tools=grouped(tools, Detail.NAME)), disclosure.full_tokens())
    counted = Counter(text for text in counter.texts if not text.startswith('"metrics"'))
    assert set(counted.values()) == {1}
    assert len(counted) == 3


def test_the_memory_of_replies_is_bounded():
    disclosure = Disclosure([], CountedCalls())
    for number in range(5_000):
        disclosure.with_metrics(ToolListing(tools={"s": f"tool_{number}"}), 0)
    assert len(disclosure._reply_tokens) < 1_000


def test_a_lone_surrogate_and_a_read_only_mapping_can_be_counted(o200k):
    odd = Tool("s", "t", "half \ud83d", MappingProxyType({"type": "object"}))
    reply = Disclosure([odd], o200k).with_metrics(ToolListing(tools=grouped([odd], Detail.FULL)), 0)
    assert reply.metrics.tokens > 0
    assert json.loads(compact(reply))["tools"]["s"][0]["inputSchema"] == {"type": "object"}
