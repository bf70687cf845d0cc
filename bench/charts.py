"""The results as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from bench.contestants import DOCKER_RUN, OURS_WARM
from bench.results import Latency, Load, Results, Row, Soak, Workload

OURS, OTHERS, REUSED = "#1f6f54", "#8a94a3", "#c9a227"
STYLE = {
    "svg.hashsalt": "bench",  # the same figures give the same file
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(results: Results, directory: Path, stem: str) -> list[Path]:
    drawn = []
    with mpl.rc_context(STYLE):
        if results.latency:
            drawn.append(_save(_hellos(results.latency), directory / f"{stem}-latency.svg"))
        if results.load:
            drawn.append(_save(_under_load(results.load, results.soak), directory / f"{stem}-load.svg"))
    return drawn


def _save(figure: Any, file: Path) -> Path:
    figure.savefig(file, metadata={"Date": None}, bbox_inches="tight")
    figure.savefig(file.with_suffix(".png"), dpi=110, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    return file


def _hellos(latency: Latency) -> Any:
    workloads = latency.workloads[:2]
    figure, axes = plt.subplots(1, len(workloads), figsize=(10, 3.6), squeeze=False)
    for axis, workload in zip(axes[0], workloads, strict=True):
        _bars(axis, workload)
    figure.tight_layout()
    return figure


def _bars(axis: Any, workload: Workload) -> None:
    rows = sorted(workload.rows, key=lambda row: -row.wall.p50_ms)
    middle = [row.wall.p50_ms for row in rows]
    tail = [max(0.0, row.wall.p95_ms - row.wall.p50_ms) for row in rows]
    labels = [_label(row) for row in rows]
    axis.barh(labels, middle, xerr=[[0.0] * len(rows), tail], color=[_colour(row) for row in rows], capsize=2)
    axis.set_xscale("log")
    axis.set_xlim(min(middle) / 3, 2.5 * max(row.wall.p95_ms for row in rows))
    axis.set_xlabel("ms until the whole answer is there: p50, whisker to p95")
    axis.set_title(workload.title)
    for place, milliseconds in enumerate(middle):
        axis.text(1.08 * (milliseconds + tail[place]), place, _short(milliseconds), va="center", fontsize=8)


def _short(milliseconds: float) -> str:
    return f"{milliseconds:.1f}" if milliseconds < 100 else f"{milliseconds:,.0f}"


def _label(row: Row) -> str:
    marks = [mark for mark, shown in (("reused", not row.single_use), ("not isolated", not row.isolated)) if shown]
    return f"{row.contestant}\n({', '.join(marks)})" if marks else row.contestant


def _colour(row: Row) -> str:
    if row.contestant.startswith("ours"):
        return OURS
    return OTHERS if row.single_use else REUSED


def _under_load(load: Load, soak: Soak | None) -> Any:
    figure, axes = plt.subplots(1, 3 if soak else 2, figsize=(10, 3))
    _throughput(axes[0], load)
    _open_loops(axes[1], load)
    if soak:
        axes[2].plot([count for count, _ in soak.points], [mb for _, mb in soak.points], color=OURS)
        axes[2].set(title="the daemon's memory", xlabel="executions", ylabel="MB resident", ylim=(0, None))
    figure.tight_layout()
    return figure


def _throughput(axis: Any, load: Load) -> None:
    for name, colour in ((OURS_WARM, OURS), (DOCKER_RUN, OTHERS)):
        levels = [level for level in load.sustained[0].levels if level.contestant == name]
        axis.plot(
            [level.concurrency for level in levels],
            [level.per_second for level in levels],
            marker="o",
            color=colour,
            label=name,
        )
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:.0f}")
    axis.set(title="sustained", xlabel="at once", ylabel="executions per second", ylim=(0, None))
    axis.legend(frameon=False)


def _open_loops(axis: Any, load: Load) -> None:
    shares = [100 * loop.share for loop in load.open_loops]
    for name, style in (("p50_ms", "-"), ("p99_ms", "--")):
        walls = [getattr(loop.wall, name) for loop in load.open_loops]
        axis.plot(shares, walls, style, marker="o", color=OURS, label=name.removesuffix("_ms"))
    axis.set_yscale("log")
    axis.set(title="open loop", xlabel="% of capacity", ylabel="ms")
    axis.legend(frameon=False)
