"""The page docs/figures.md."""

from __future__ import annotations

from collections.abc import Mapping

from bench import machine
from tests.figures.figure import Figure, Figures
from tests.figures.parts import PARTS

INTRODUCTION = (
    "Written by `make figures`. Tests enforce most of these too, with a smaller n. "
    "What failed or was left out is listed below."
)


def rendered(parts: Mapping[str, Figures], *, quick: bool) -> str:
    missing = [part for part in PARTS if part not in parts]
    notes = [note for part in parts.values() for note in part.notes]
    notes += [f"Not measured yet: {', '.join(missing)}."] if missing else []
    return "\n".join(
        [
            "# Figures",
            "",
            INTRODUCTION,
            "",
            *_circumstances(quick),
            "",
            "| Promise | Target | Measured | n | Met | Command | When |",
            "|---|---|---|---|---|---|---|",
            *(_row(figure, part.when) for part in parts.values() for figure in part.figures),
            "",
            "## Failures, skips and what is not counted",
            "",
            *([f"- {note}" for note in notes] or ["- None."]),
            "",
        ]
    )


def _circumstances(quick: bool) -> list[str]:
    here = machine.describe()
    size = ["- A quick run, with small numbers"] if quick else []
    return [
        *size,
        f"- Machine: {here.processor}, {here.cores} cores, {here.memory_gb:.0f} GB, {here.system}, Linux {here.kernel}",
        f"- Engine: {here.engine}, runtime runc; Node.js {here.runner_node} in the runner image",
    ]


def _row(figure: Figure, when: str) -> str:
    met = "yes" if figure.met else "**no**"
    cells = (figure.promise, figure.target, figure.measured, str(figure.n), met, f"`{figure.command}`", when)
    return f"| {' | '.join(cells)} |"
