"""What the daemon's memory becomes after many executions."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench import machine
from tests.figures.figure import Figure, Figures, Plan, alone
from tests.support.api import Api
from tests.support.victim import Victim


async def soak(figures: Figures, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="figures-") as directory:
        async with Victim.in_directory(Path(directory)) as victim:
            await victim.start()
            async with victim.caller("admin") as api:
                await _execute(api, max(10, plan.executions // 20))  # what is loaded and cached once is no growth
                before = machine.resident_mb(victim.pid)
                await _execute(api, plan.executions)
                after = machine.resident_mb(victim.pid)
    n, command = plan.executions, alone("soak")
    grown = after - before
    figures.add(Figure(f"daemon memory after {n} executions", "150 MB", f"{after:.1f} MB", n, after <= 150, command))
    figures.add(Figure("growth of it meanwhile", "20 MB", f"{grown:.1f} MB", n, grown <= 20, command))


async def _execute(api: Api, count: int) -> None:
    turns = asyncio.Semaphore(4)

    async def one(number: int) -> None:
        async with turns:
            result = await api.python(f"print({number})")
        if result["output"] != f"{number}\n":
            raise RuntimeError(f"execution {number} answered {result['output']!r}")

    await asyncio.gather(*(one(number) for number in range(count)))
