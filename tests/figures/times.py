"""Deadlines, cancellations and warm starts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.stats import percentile
from bench.testbed.engine import sandboxes_of
from tests.figures import replies
from tests.figures.figure import Figure, Figures, Plan, alone
from tests.support.api import Api, until
from tests.support.installation import Installation
from tests.support.programs import held
from tests.support.victim import Victim

DEADLINE_SECONDS = 1.0


async def deadlines(figures: Figures, plan: Plan) -> None:
    async def overrun(api: Api, _: Installation) -> float:
        result = await api.python("while True: pass", DEADLINE_SECONDS)
        if result["outcome"] != "timed_out":
            raise RuntimeError(f"a busy loop ended as {result['outcome']}")
        return float(result["metrics"]["runMs"]) - 1000 * DEADLINE_SECONDS

    samples = await _samples(overrun, plan.deadlines, warm_floor=1)
    _add_time(figures, "deadline overrun of a busy loop", samples, 250)


async def cancellations(figures: Figures, plan: Plan) -> None:
    async def until_gone(api: Api, place: Installation) -> float:
        async with held(api) as program:
            (sandbox,) = [each for each in sandboxes_of(place.owner) if _belongs(each, program.execution_id)]
            began = time.perf_counter()
            await api.delete(f"/executions/{program.execution_id}")
            await until(lambda: sandbox.id not in {each.id for each in sandboxes_of(place.owner)}, seconds=30)
            return 1000 * (time.perf_counter() - began)

    samples = await _samples(until_gone, plan.cancellations, warm_floor=0, warm_ceiling=0)
    _add_time(figures, "cancel to container gone", samples, 2000)


def _belongs(container: object, execution_id: str) -> bool:
    labels: dict[str, str] = getattr(container, "labels", {})
    return labels.get("mcp-code-executor.execution") == execution_id


async def warm_starts(figures: Figures, plan: Plan) -> None:
    cold = 0

    async def reply(api: Api, _: Installation) -> float:
        nonlocal cold
        milliseconds, result = await replies.reply(api)
        cold += not result["warm"]
        return milliseconds

    samples = await _samples(reply, plan.warm, **replies.FULL_POOL)
    _add_time(figures, "warm start, full HTTP reply with all hardening on", samples, 50)
    figures.notes += (
        [f"{cold} starts were cold where a warm one was expected; they are counted all the same."] if cold else []
    )


async def _samples(
    measure: Callable[[Api, Installation], Awaitable[float]], count: int, **settings: int
) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with Victim.in_directory(Path(directory), **settings) as victim:
            await victim.start()
            async with victim.caller("admin") as api:
                await measure(api, victim.installation)  # the first one warms up
                return [await measure(api, victim.installation) for _ in range(count)]


def _add_time(figures: Figures, promise: str, samples: list[float], limit_ms: float) -> None:
    p50, p99 = percentile(samples, 0.5), percentile(samples, 0.99)
    command = alone("times")
    figures.add(
        Figure(
            f"{promise}, p99",
            f"{limit_ms:.0f} ms",
            f"{p99:.1f} ms (p50 {p50:.1f} ms)",
            len(samples),
            p99 <= limit_ms,
            command,
        )
    )
