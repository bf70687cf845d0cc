"""What is promised and what was measured of it, and how much is measured."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from bench.progress import say


@dataclass(frozen=True, slots=True)
class Plan:
    mutants: int | None
    kills: int
    deadlines: int
    cancellations: int
    at_once: int
    crowd: int
    late: int
    executions: int
    warm: int
    alternating: int
    beside_stress: int
    beside_attack: int


FULL = Plan(None, 200, 100, 100, 1000, 200, 40, 2000, 300, 1000, 300, 60)
QUICK = Plan(10, 3, 5, 5, 50, 30, 6, 40, 20, 40, 20, 10)


@dataclass(frozen=True, slots=True)
class Figure:
    promise: str
    target: str
    measured: str
    n: int
    met: bool
    command: str


@dataclass
class Figures:
    """What one part measured."""

    quick: bool
    when: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M"))
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        say(f"{figure.promise}: {figure.measured} ({'met' if figure.met else 'NOT MET'})")
        self.figures.append(figure)


def alone(part: str) -> str:
    """The command that measures the part again."""
    return f".venv/bin/python -m tests.figures --only {part}"
