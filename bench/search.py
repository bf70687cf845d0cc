"""How well and how fast the catalog's search finds tools: python -m bench.search

Measured on real tools and on tasks that people annotated with the tools they need. The annotations are names, so a
tool counts as found when its name is among the hits, whichever server offers it.

  steps@5    each step of a task is one query; found is what is among the first five hits of any step
  whole@10   the whole task is one query; found is what is among its first ten hits

Both are the share of a task's annotated tools that were found, averaged over the tasks. For the folds, the weights
are chosen from a small grid on the other tasks only.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from time import perf_counter

from orchestrator.catalog.postings import Weights
from orchestrator.catalog.search import SearchIndex
from orchestrator.domain.tools import Tool

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TOOLS, TASKS = DATA / "real-mcp-tools.json", DATA / "search-tasks-dev.json"
FOLDS = 5
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Task:
    question: str
    steps: tuple[str, ...]
    needed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Recall:
    steps_at_5: float
    whole_at_10: float


def data_is_there() -> bool:
    return TOOLS.is_file() and TASKS.is_file()


def read_tools() -> tuple[list[Tool], dict[str, str]]:
    servers = json.loads(TOOLS.read_text())
    tools = [
        Tool(server, tool["name"], tool.get("description") or "", tool["inputSchema"])
        for server, listed in servers.items()
        for tool in listed["tools"]
    ]
    return tools, {server: listed["description"] for server, listed in servers.items()}


def read_tasks() -> list[Task]:
    tasks = json.loads(TASKS.read_text())
    return [Task(task["question"], tuple(task["steps"]), frozenset(task["gold"])) for task in tasks]


def recall_of(index: SearchIndex, task: Task) -> Recall:
    by_steps = {name for step in task.steps for name in _found(index, step, 5)}
    by_whole = _found(index, task.question, 10)
    return Recall(_share(task.needed, by_steps), _share(task.needed, by_whole))


def average(recalls: Sequence[Recall]) -> Recall:
    return Recall(
        statistics.mean(recall.steps_at_5 for recall in recalls),
        statistics.mean(recall.whole_at_10 for recall in recalls),
    )


def _found(index: SearchIndex, query: str, limit: int) -> set[str]:
    return {hit.tool.name for hit in index.search([query], limit=limit)}


def _share(needed: frozenset[str], found: set[str]) -> float:
    return len(needed & found) / len(needed)


def held_out_recalls(tools: list[Tool], descriptions: dict[str, str], tasks: list[Task]) -> list[Recall]:
    recalls_by_weights = []
    for weights in _grid():
        index = SearchIndex(tools, server_descriptions=descriptions, weights=weights)
        recalls_by_weights.append([recall_of(index, task) for task in tasks])
    return [_held_out(recalls_by_weights, fold) for fold in range(FOLDS)]


def _grid() -> list[Weights]:
    choices = product((0.4, 0.6, 0.8), (0.3, 0.55, 0.8), (0.5, 1.0, 1.5))
    return [replace(Weights(), same=same, hint=hint, name_coverage=name) for same, hint, name in choices]


def _held_out(recalls_by_weights: list[list[Recall]], fold: int) -> Recall:
    def on_the_others(recalls: list[Recall]) -> float:
        others = average([recall for number, recall in enumerate(recalls) if number % FOLDS != fold])
        return others.steps_at_5 + others.whole_at_10

    best = max(recalls_by_weights, key=on_the_others)
    return average(best[fold::FOLDS])


def enlarged(tools: list[Tool], count: int) -> list[Tool]:
    """More tools of the same kind: the same ones again, from other servers."""
    copies = range(-(-count // len(tools)))
    return [replace(tool, server=f"{tool.server}-{copy}") if copy else tool for copy in copies for tool in tools][
        :count
    ]


def latencies_ms(index: SearchIndex, queries: list[str]) -> list[float]:
    taken = []
    for _ in range(ROUNDS):
        for query in queries:
            start = perf_counter()
            index.search([query])
            taken.append(1000 * (perf_counter() - start))
    return sorted(taken)


def print_recalls(tools: list[Tool], descriptions: dict[str, str], tasks: list[Task]) -> None:
    print(f"{len(tools)} tools, {len(tasks)} tasks          steps@5  whole@10")
    for title, known in (("with server descriptions", descriptions), ("without", {})):
        index = SearchIndex(tools, server_descriptions=known)
        _print_recall(title, average([recall_of(index, task) for task in tasks]))
    folds = held_out_recalls(tools, descriptions, tasks)
    for number, recall in enumerate(folds, 1):
        _print_recall(f"held-out fold {number}", recall)
    _print_recall("held-out, all folds", average(folds))


def _print_recall(title: str, recall: Recall) -> None:
    print(f"  {title:<28}{recall.steps_at_5:8.3f}  {recall.whole_at_10:8.3f}")


def print_latencies(tools: list[Tool], descriptions: dict[str, str], tasks: list[Task]) -> None:
    steps = [step for task in tasks for step in task.steps]
    print("  tools  queries   build ms   p50 ms   p95 ms   max ms")
    for count in (len(tools), 1_000, 10_000):
        start = perf_counter()
        index = SearchIndex(enlarged(tools, count), server_descriptions=descriptions)
        build_ms = 1000 * (perf_counter() - start)
        for title, queries in (("steps", steps), ("whole", [task.question for task in tasks])):
            taken = latencies_ms(index, queries)
            p50, p95 = taken[len(taken) // 2], taken[len(taken) * 95 // 100]
            print(f"{count:7}  {title:<8}{build_ms:10.0f}{p50:9.3f}{p95:9.3f}{taken[-1]:9.3f}")


def main() -> None:
    if not data_is_there():
        sys.exit(f"Nothing to measure: {TOOLS} and {TASKS.name} beside it are not there.")
    tools, descriptions = read_tools()
    tasks = read_tasks()
    print_recalls(tools, descriptions, tasks)
    print_latencies(tools, descriptions, tasks)


if __name__ == "__main__":
    main()
