"""A caller that comes late, after a crowd of another's requests."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.load.callers import both_roles
from tests.support.api import Api, eventually
from tests.support.metrics import gauges
from tests.support.victim import Victim


@dataclass(frozen=True, slots=True)
class FairnessReport:
    crowd: int
    late: int
    finished_before_the_last_late_one: int

    @property
    def share(self) -> float:
        """Of the late caller, while it had something to do; 0.5 is its due, first come first served gives far less."""
        return self.late / (self.late + self.finished_before_the_last_late_one)

    @property
    def fair(self) -> bool:
        return abs(self.share - 0.5) <= 0.1


async def fairness(crowd: int, late: int) -> FairnessReport:
    """One caller sends a crowd of requests; another comes after it with a few. What ran already is not counted."""
    order: list[str] = []
    waiting = {"max_waiting": crowd + late + 10, "max_waiting_per_caller": crowd + late + 10}
    with tempfile.TemporaryDirectory(prefix="fairness-") as directory:
        async with Victim.in_directory(Path(directory), **waiting) as victim:
            await victim.start()
            async with both_roles(victim) as (greedy, modest):
                first = [asyncio.create_task(_noted(greedy, "crowd", order)) for _ in range(crowd)]
                await eventually(lambda: _all_arrived(greedy, crowd), seconds=60)
                already = len(order) + int((await gauges(greedy))["code_executor_running"])
                await asyncio.gather(*(_noted(modest, "late", order) for _ in range(late)))
                between = max(0, order.count("crowd") - already)
                await asyncio.gather(*first)
    return FairnessReport(crowd, late, between)


async def _all_arrived(api: Api, count: int) -> bool:
    _, listing = await api.get(f"/executions?limit={min(500, count)}")
    return len(listing["executions"]) >= min(500, count) or (await gauges(api))["code_executor_waiting"] == 0


async def _noted(api: Api, name: str, order: list[str]) -> None:
    status, _ = await api.post("/execute", {"code": "print(1)", "language": "python"})
    assert status == 200, status
    order.append(name)
