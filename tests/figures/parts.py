"""The parts of the page, each of which can be measured alone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.paths import BUILD
from bench.progress import say
from tests.figures.attacks import attacks, mutants
from tests.figures.figure import Figure, Figures, Plan
from tests.figures.load import crowd, kills
from tests.figures.neighbours import beside_stress, bleed
from tests.figures.soak import soak
from tests.figures.tenants import beside_attacks
from tests.figures.times import cancellations, deadlines, warm_starts

KEPT = BUILD / "figures"

Measure = Callable[[Figures, Plan], Awaitable[None]]
PARTS: dict[str, tuple[Measure, ...]] = {
    "attacks": (attacks,),
    "mutation": (mutants,),
    "chaos": (kills,),
    "load": (crowd,),
    "times": (deadlines, cancellations, warm_starts),
    "stress": (beside_stress,),
    "tenants": (beside_attacks,),
    "soak": (soak,),
    "bleed": (bleed,),
}


async def measure(part: str, plan: Plan, *, quick: bool) -> Figures:
    figures = Figures(quick)
    for one in PARTS[part]:
        try:
            await one(figures, plan)
        except Exception as error:
            figures.notes.append(f"Not measured: {one.__name__} ({type(error).__name__}: {str(error)[:200]}).")
            say(figures.notes[-1])
    return figures


def keep(part: str, figures: Figures) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    _kept_file(part, quick=figures.quick).write_text(json.dumps(asdict(figures), indent=2))


def kept(*, quick: bool) -> dict[str, Figures]:
    """What was measured last of each part, in the order of the page."""
    files = {part: _kept_file(part, quick=quick) for part in PARTS}
    return {part: _restored(json.loads(file.read_text())) for part, file in files.items() if file.exists()}


def _kept_file(part: str, *, quick: bool) -> Path:
    return KEPT / f"{part}{'-quick' if quick else ''}.json"


def _restored(saved: dict[str, Any]) -> Figures:
    return Figures(**{**saved, "figures": [Figure(**figure) for figure in saved["figures"]]})
