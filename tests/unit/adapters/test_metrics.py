from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.adapters import metrics as module
from orchestrator.adapters.metrics import EXPECTED_OUTCOMES, MOST_SERIES, MOST_SERIES_OF_A_SERVER, OTHER, Metrics
from orchestrator.domain.ledger import CallOutcome
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from tests.contract.test_journal import result_of
from tests.support.samples import tool_call

CALLS = "code_executor_tool_calls_total"


class ListedTools:
    """A catalog that says what a test gives it."""

    def __init__(self, states: Mapping[str, UpstreamState] | None = None, **tools: Sequence[str]) -> None:
        self.tools = tools
        self._states = states or dict.fromkeys(tools, UpstreamState.CONNECTED)

    def listed(self) -> dict[str, tuple[Tool, ...]]:
        return {server: tuple(Tool(server, name) for name in names) for server, names in self.tools.items()}

    def find(self, server: str, name: str) -> Tool | None:
        return next((tool for tool in self.listed().get(server, ()) if tool.name == name), None)

    def statuses(self) -> list[UpstreamStatus]:
        return [
            UpstreamStatus(server, state, len(self.tools.get(server, ())), None, 0.0)
            for server, state in self._states.items()
        ]


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """By the values of the labels, in the labels' order."""
    return {
        tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name == name
    }


def observe(metrics: Metrics, *calls: tuple[str, str, CallOutcome]) -> None:
    made = [replace(tool_call(outcome, tool=tool), server=server) for server, tool, outcome in calls]
    metrics.observe(result_of("e1", calls=tuple(made)))


def test_tool_calls_are_counted_by_server_tool_and_outcome() -> None:
    metrics = Metrics({}, ListedTools(postgres=["query"], memory=["read"]))
    denied = ("postgres", "query", CallOutcome.DENIED)
    observe(metrics, ("postgres", "query", CallOutcome.DONE), denied, denied, ("memory", "read", CallOutcome.DONE))
    counted = {labels: count for labels, count in samples(metrics, CALLS).items() if count}
    assert counted == {
        ("done", "postgres", "query"): 1,
        ("denied", "postgres", "query"): 2,
        ("done", "memory", "read"): 1,
    }


def test_calls_that_were_replayed_are_not_counted() -> None:
    metrics = Metrics({}, ListedTools(postgres=["query"]))
    observe(metrics, ("postgres", "query", CallOutcome.REPLAYED))
    assert not any(samples(metrics, CALLS).values())


def test_what_may_be_expected_of_a_tool_is_there_before_its_first_call() -> None:
    counted = samples(Metrics({}, ListedTools(postgres=["query"])), CALLS)
    of_others = {(outcome, OTHER, OTHER): 0 for outcome in CallOutcome}
    assert counted == of_others | {(outcome, "postgres", "query"): 0 for outcome in EXPECTED_OUTCOMES}


def test_a_tool_that_nobody_lists_is_other_whatever_a_program_calls_it() -> None:
    metrics = Metrics({}, ListedTools(postgres=["query"]))
    made_up = [("postgres", f"tool{number}", CallOutcome.INVALID) for number in range(300)]
    observe(metrics, *made_up, *((f"server{number}", "query", CallOutcome.DENIED) for number in range(300)))
    counted = {labels: count for labels, count in samples(metrics, CALLS).items() if count}
    assert counted == {("invalid", "postgres", OTHER): 300, ("denied", OTHER, OTHER): 300}


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "\u202eevil", "x" * 200, "a\rb"])
def test_a_listed_name_that_cannot_be_shown_is_other(name: str) -> None:
    metrics = Metrics({}, ListedTools(postgres=[name]))
    observe(metrics, ("postgres", name, CallOutcome.DONE))
    assert samples(metrics, CALLS)["done", "postgres", OTHER] == 1
    assert name.encode() not in metrics.render()


def test_quotes_in_a_listed_name_stay_within_its_label() -> None:
    name = 'x"} 1\\'
    metrics = Metrics({}, ListedTools(postgres=[name]))
    observe(metrics, ("postgres", name, CallOutcome.DONE))
    assert samples(metrics, CALLS)["done", "postgres", name] == 1


def test_a_server_that_renames_its_tools_leaves_the_others_their_names() -> None:
    catalog = ListedTools(restless=[], calm=["read"])
    metrics = Metrics({}, catalog)
    for number in range(MOST_SERIES_OF_A_SERVER + 100):
        catalog.tools["restless"] = [f"tool{number}"]
        observe(metrics, ("restless", f"tool{number}", CallOutcome.DONE))
    observe(metrics, ("calm", "read", CallOutcome.DONE))
    counted = samples(metrics, CALLS)
    assert counted["done", "restless", OTHER] == 100
    assert counted["done", "calm", "read"] == 1


def test_there_are_only_so_many_lines_in_all() -> None:
    names = [f"tool{number}" for number in range(MOST_SERIES_OF_A_SERVER)]
    catalog = ListedTools(**{f"server{number}": names for number in range(10)})
    metrics = Metrics({}, catalog)
    bound = MOST_SERIES + len(CallOutcome)
    assert len(samples(metrics, CALLS)) == bound
    catalog.find = Tool  # quicker, and whatever is called is listed
    for server in catalog.tools:
        observe(metrics, *((server, name, CallOutcome.DONE) for name in names))
    counted = samples(metrics, CALLS)
    assert sum(counted.values()) == 10 * MOST_SERIES_OF_A_SERVER
    assert len(counted) <= bound + len(catalog.tools)


def test_the_time_of_calls_is_told_by_server_for_those_that_were_sent() -> None:
    metrics = Metrics({}, ListedTools(postgres=["query"]))
    sent = [("postgres", "query", outcome) for outcome in (CallOutcome.DONE, CallOutcome.UNAVAILABLE)]
    observe(metrics, *sent, ("postgres", "query", CallOutcome.DENIED), ("nobody", "query", CallOutcome.INVALID))
    assert samples(metrics, "code_executor_tool_call_seconds_count") == {("postgres",): 2}
    assert samples(metrics, "code_executor_tool_call_seconds_sum") == {("postgres",): 0.004}


def test_each_server_is_in_one_state_and_has_its_tools() -> None:
    states = {"postgres": UpstreamState.CONNECTED, "memory": UpstreamState.DOWN}
    metrics = Metrics({}, ListedTools(states, postgres=["query", "list"]))
    assert samples(metrics, "code_executor_server_state") == {
        ("postgres", "connected"): 1,
        ("postgres", "connecting"): 0,
        ("postgres", "down"): 0,
        ("memory", "connected"): 0,
        ("memory", "connecting"): 0,
        ("memory", "down"): 1,
    }
    assert samples(metrics, "code_executor_server_tools") == {("postgres",): 2, ("memory",): 0}


@pytest.mark.parametrize(("told", "limit"), [("1048576\n", 1048576), ("max\n", None), (None, None)])
def test_the_memory_limit_is_the_containers_or_the_machines(tmp_path, monkeypatch, told, limit) -> None:
    monkeypatch.setattr(module, "CGROUP_LIMITS", ())
    machine = module.memory_limit_bytes()
    assert machine > 1048576
    file = tmp_path / "memory.max"
    if told is not None:
        file.write_text(told)
    monkeypatch.setattr(module, "CGROUP_LIMITS", (file,))
    assert module.memory_limit_bytes() == (limit or machine)
