"""What one caller feels of another: of its load, and of what it left."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench.stats import percentile
from tests.figures.figure import Figure, Figures, Plan, alone
from tests.figures.replies import FULL_POOL, reply
from tests.support import stress
from tests.support.api import Api
from tests.support.two_roles import alternate, bleed_among, two_roles
from tests.support.victim import Victim

STRESS_ROUNDS = 10
STRESS_SECONDS = 80.0  # longer than a round; what is left of it is cancelled


async def beside_stress(figures: Figures, plan: Plan) -> None:
    """Alone and beside another caller's stress-ng in turns, so that both meet the machine in the same state."""
    await asyncio.to_thread(stress.ensure_image)
    by_itself: list[float] = []
    beside: list[float] = []
    share = plan.beside_stress // STRESS_ROUNDS
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with Victim.in_directory(Path(directory), **FULL_POOL, runner_image=stress.IMAGE) as victim:
            await victim.start()
            async with victim.caller("admin") as api, victim.caller("developer") as other:
                await _replies(api, 1)  # the first one warms up
                for _ in range(STRESS_ROUNDS):
                    by_itself += await _replies(api, share)
                    async with stress.stressed(other, stress.STRESSORS, STRESS_SECONDS) as load:
                        beside += await _replies(api, share)
                        if load.over:
                            raise RuntimeError("stress-ng was over before the last reply")
    _add_ratio(figures, by_itself, beside, 0.5, at_most=2)
    _add_ratio(figures, by_itself, beside, 0.99, at_most=3)


async def _replies(api: Api, count: int) -> list[float]:
    return [(await reply(api))[0] for _ in range(count)]


def _add_ratio(figures: Figures, by_itself: list[float], beside: list[float], share: float, at_most: float) -> None:
    before, after = percentile(by_itself, share), percentile(beside, share)
    figures.add(
        Figure(
            f"reply beside another caller's stress-ng against alone, p{100 * share:.0f}",
            f"{at_most:.0f} x",
            f"{after / before:.1f} x ({after:.1f} ms against {before:.1f} ms)",
            len(beside),
            after <= at_most * before,
            alone("stress"),
        )
    )


async def bleed(figures: Figures, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with two_roles(Path(directory)) as callers:
            answers = await alternate(callers, plan.alternating)
    found = bleed_among(answers)
    figures.notes += [f"Bleed: {each}." for each in found]
    measured = f"{len(found)} cases" if found else "none"
    command = alone("bleed")
    figures.add(
        Figure("bleed between alternating calls of two roles", "none", measured, len(answers), not found, command)
    )
