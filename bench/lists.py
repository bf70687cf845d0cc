"""How fast the journal is read: lists, each filter and the figures over 10,000 executions, over HTTP, in turns."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from bench import history
from bench.client import Client
from bench.engine import Engine
from bench.history import WEEK_SECONDS, fill_journal
from bench.installation import installation
from bench.plan import Plan
from bench.progress import say
from bench.results import Answer, Lists
from bench.stats import summary
from bench.testbed.installation import Installation
from orchestrator.domain.execution import Kind, Language

REMEMBERED = 10_000
PAGE = 50
HALF_AN_HOUR, HOUR, DAY = 1800.0, 3600.0, 24 * 3600.0
WHOLE_PAGE, PART_OF_A_PAGE, NOTHING = range(PAGE, PAGE + 1), range(1, PAGE), range(1)


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    path: str
    finds: range  # so many executions: a wrong answer is no fast one


def measure_lists(_: Engine, plan: Plan) -> Lists:
    now = time.time()

    def remember(place: Installation) -> None:
        asyncio.run(fill_journal(place.settings.journal_file, REMEMBERED, now))
        megabytes = place.settings.journal_file.stat().st_size / 1e6
        say(f"  a journal of {REMEMBERED:,} executions and {megabytes:.0f} MB, filled in {time.time() - now:.0f} s")

    with installation(pool=0, prepare=remember) as daemon:
        client = daemon.client()
        lists, stats = list_questions(now), stats_questions(now)
        answers = ask(client, [*lists, *stats], plan)
        client.close()
    for answer in answers:
        say(f"  {answer.question}: {answer.wall.p50_ms:.1f} ms, {answer.slowest_ms:.1f} ms at most")
    return Lists(executions=REMEMBERED, lists=answers[: len(lists)], stats=answers[len(lists) :])


def list_questions(now: float) -> list[Question]:
    """Ask plainly and with each filter. Where there is a choice, so few fit that it cannot end early."""
    began = now - WEEK_SECONDS
    return [
        _listed("the newest", WHOLE_PAGE),
        _listed("outcome", PART_OF_A_PAGE, outcome=history.RARE_OUTCOME),
        _listed("state", PART_OF_A_PAGE, state=history.RARE_STATE),
        _listed("caller", PART_OF_A_PAGE, caller=history.RARE_CALLER),
        _listed("language", WHOLE_PAGE, language=Language.PYTHON),
        _listed("kind", WHOLE_PAGE, kind=Kind.CALL),
        _listed("tool, as SERVER", PART_OF_A_PAGE, tool=history.RARE_SERVER),
        _listed("tool, as SERVER/TOOL", PART_OF_A_PAGE, tool=f"{history.RARE_SERVER}/{history.RARE_TOOL}"),
        _listed("since, the last half hour", PART_OF_A_PAGE, since=_moment(now - HALF_AN_HOUR)),
        _listed("until, the first half hour", PART_OF_A_PAGE, until=_moment(began + HALF_AN_HOUR)),
        _listed(
            "since and until, but for half an hour at each end",
            WHOLE_PAGE,
            since=_moment(began + HALF_AN_HOUR),
            until=_moment(now - HALF_AN_HOUR),
        ),
        _listed("text that is common", WHOLE_PAGE, text=history.COMMON_TEXT),
        _listed("text that is rare", PART_OF_A_PAGE, text=history.RARE_TEXT),
        _listed("text that is nowhere", NOTHING, text=history.TEXT_NOWHERE),
    ]


def stats_questions(now: float) -> list[Question]:
    spans = {"1 h": HOUR, "24 h": DAY, "7 d": WEEK_SECONDS}
    return [
        Question(
            f"stats of {name}",
            f"/stats?{urlencode({'since': _moment(now - seconds), 'until': _moment(now)})}",
            range(1, REMEMBERED + 1),
        )
        for name, seconds in spans.items()
    ]


def ask(client: Client, questions: Sequence[Question], plan: Plan) -> list[Answer]:
    seconds: dict[Question, list[float]] = {question: [] for question in questions}
    found: dict[Question, int] = {}
    for number in range(plan.warm_up_rounds + plan.rounds):
        for question in random.sample(questions, len(questions)):
            began = time.perf_counter()
            body = client.get(question.path)
            taken = time.perf_counter() - began
            found[question] = _found(body)
            if found[question] not in question.finds:
                raise RuntimeError(f"{question.path} found {found[question]} executions, not {question.finds}")
            if number >= plan.warm_up_rounds:
                seconds[question].append(taken)
    return [
        Answer(question=question.name, found=found[question], wall=summary(taken), slowest_ms=1000 * max(taken))
        for question, taken in seconds.items()
    ]


def _listed(name: str, finds: range, **filters: str) -> Question:
    return Question(name, f"/executions?{urlencode({'limit': PAGE, **filters})}", finds)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _found(body: str) -> int:
    """A list has them all, the figures only how many they are."""
    executions = json.loads(body)["executions"]
    return executions if isinstance(executions, int) else len(executions)
