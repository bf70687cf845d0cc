"""The figures to reach, each with what was measured and, where it is missed, where the time goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.contestants import DOCKER_RUN, OURS_COLD, OURS_WARM
from bench.lists import REMEMBERED
from bench.llm_sandbox import WITH_POOL
from bench.machine import MOST_BACKGROUND_CORES
from bench.programs import HELLO_PYTHON, HELLO_TYPESCRIPT, Language, Program
from bench.results import Latency, Phases, Profile, Ratio, Results, Row, Soak, Sustained, Target, Workload
from bench.workspaces import EMPTY, FULL

BARE = "bare subprocess"
NOT_MEASURED = "not measured"
CROWD = 100
SOAKED = 10_000


@dataclass(frozen=True, slots=True)
class Figure:
    value: float
    n: int
    detail: str = ""
    interval: tuple[float, float] | None = None
    where_the_time_goes: str = ""
    as_asked: bool = True  # else it was measured with less than the target names, which shows neither yes nor no


@dataclass(frozen=True, slots=True)
class Bound:
    name: str
    limit: float
    unit: str
    section: str
    read: Callable[[Results], Figure | None]
    at_least: bool = False

    def judge(self, results: Results) -> Target:
        figure = self.read(results)
        said = f"{'≥' if self.at_least else '≤'} {self.limit:g}{self.unit}"
        if figure is None:
            return Target(name=self.name, target=said, measured=NOT_MEASURED, met=None, n=0, detail="")
        met = figure.value >= self.limit if self.at_least else figure.value <= self.limit
        where = "" if met else figure.where_the_time_goes
        return Target(
            name=self.name,
            target=said,
            measured=_said(figure, self.unit),
            met=met if figure.as_asked else None,
            n=figure.n,
            detail="; ".join(filter(None, [figure.detail, where, _disturbance(results, self.section)])),
        )


def judged(results: Results) -> list[Target]:
    return [bound.judge(results) for bound in BOUNDS]


def _said(figure: Figure, unit: str) -> str:
    interval = f" ({figure.interval[0]:.3g}-{figure.interval[1]:.3g})" if figure.interval else ""
    return f"{figure.value:.3g}{unit}{interval}"


def _disturbance(results: Results, section: str) -> str:
    cores = results.background_cores.get(section, 0)
    return f"NOT A QUIET MACHINE: others used {cores:.1f} cores" if cores > MOST_BACKGROUND_CORES else ""


def _against(program: Program, contestant: str) -> Callable[[Results], Figure | None]:
    def read(results: Results) -> Figure | None:
        workload = _workload(results.latency, program)
        mine, other = _row(workload, OURS_WARM), _row(workload, contestant)
        if mine is None or other is None or other.ours_against_it is None:
            return None
        walls = f"{mine.wall.p50_ms:.1f} ms against {other.wall.p50_ms:.1f} ms"
        return _figure(other.ours_against_it, walls, _phases(mine.phases))

    return read


def _cold(results: Results) -> Figure | None:
    workload = _workload(results.latency, HELLO_PYTHON)
    cold, docker = _row(workload, OURS_COLD), _row(workload, DOCKER_RUN)
    if not (workload and workload.cold_first_byte and cold and docker and cold.first_byte and docker.first_byte):
        return None
    walls = f"Python: {cold.first_byte.p50_ms:.0f} ms against {docker.first_byte.p50_ms:.0f} ms"
    return _figure(workload.cold_first_byte, walls, _phases(cold.phases))


def _figure(found: Ratio, detail: str, where: str) -> Figure:
    return Figure(found.median, found.n, detail, (found.low, found.high), where)


def _workload(latency: Latency | None, program: Program) -> Workload | None:
    return next((one for one in latency.workloads if one.name == program.name), None) if latency else None


def _row(workload: Workload | None, contestant: str) -> Row | None:
    return next((row for row in workload.rows if row.contestant == contestant), None) if workload else None


def _sustained(results: Results) -> Figure | None:
    if results.load is None:
        return None
    python, *others = results.load.sustained
    detail = "; ".join(_rates(sustained) for sustained in (python, *others))
    return Figure(
        python.ours.per_second / python.docker.per_second,
        python.ours.wall.n + python.docker.wall.n,
        detail,
        where_the_time_goes=f"{_phases(python.phases)}; {_processors(results.profile)}",
    )


def _rates(sustained: Sustained) -> str:
    return f"{sustained.language} {sustained.ours.per_second:.2f}/s against {sustained.docker.per_second:.2f}/s"


def _tail(results: Results) -> Figure | None:
    if results.load is None:
        return None
    for loop in results.load.open_loops:
        if loop.share == 0.8:
            wall = loop.wall
            latency = f"p50 {wall.p50_ms:.0f} ms, p99 {wall.p99_ms:.0f} ms"
            detail = f"{loop.per_second:.1f}/s: {latency}; pool of {results.load.pool}"
            where = f"{loop.warm_share:.0%} found a warm sandbox; the others waited for a cold start"
            return Figure(wall.p99_ms / wall.p50_ms, wall.n, detail, where_the_time_goes=where)
    return None


def _burst(results: Results) -> Figure | None:
    burst = results.burst
    if burst is None:
        return None
    where = f"{_phases(burst.phases)}; {_processors(results.profile)}"
    return _figure(burst.ratio, f"pool of {burst.pool}, {burst.size} at once", where)


def _crowd(results: Results) -> Figure | None:
    if not results.crowd:
        return None
    alone, crowded = results.crowd[0], results.crowd[-1]
    detail = f"{alone.ours_start.p50_ms:.0f} ms with {alone.alive}, {crowded.ours_start.p50_ms:.0f} ms with "
    detail += f"{crowded.alive} alive; docker run {alone.docker.p50_ms:.0f} and {crowded.docker.p50_ms:.0f} ms"
    value = crowded.ours_start.p50_ms / alone.ours_start.p50_ms
    where = "the engine's own start grows too: see docker run beside it"
    n = alone.ours_start.n + crowded.ours_start.n
    return Figure(value, n, detail, where_the_time_goes=where, as_asked=crowded.alive >= CROWD)


def _idle(language: Language) -> Callable[[Results], Figure | None]:
    def read(results: Results) -> Figure | None:
        for one in results.memory or []:
            if one.language == language:
                detail = f"sandbox {one.sandbox_mb:.1f}, its shim {one.shim_mb:.1f}"
                return Figure(one.sandbox_mb + one.shim_mb, one.n, detail)
        return None

    return read


def _resident(results: Results) -> Figure | None:
    soak = results.soak
    if soak is None:
        return None
    value = max(soak.idle_mb, soak.after_mb)
    return Figure(value, soak.executions, f"idle {soak.idle_mb:.0f} MB", as_asked=_soaked(soak))


def _growth(results: Results) -> Figure | None:
    soak = results.soak
    if soak is None:
        return None
    detail = f"after {soak.executions:,} executions of {SOAKED:,}"
    return Figure(soak.growth_mb, soak.executions, detail, as_asked=_soaked(soak))


def _soaked(soak: Soak) -> bool:
    return soak.executions >= SOAKED


def _health(results: Results) -> Figure | None:
    burst = results.burst
    if burst is None:
        return None
    detail = f"p50 {burst.health.p50_ms:.1f} ms; idle p99 {burst.health_idle.p99_ms:.1f} ms"
    where = f"all {results.machine.cores} cores are taken: {_processors(results.profile)}"
    return Figure(burst.health.p99_ms, burst.health.n, detail, where_the_time_goes=where)


def _check(language: Language) -> Callable[[Results], Figure | None]:
    def read(results: Results) -> Figure | None:
        for one in results.check or []:
            if one.language == language:
                walls = (
                    f"{one.checked.p50_ms:.0f} ms against {one.unchecked.p50_ms:.0f} ms, {one.ratio.median:.3g} times"
                )
                return Figure(one.added.p50_ms, one.added.n, walls)
        return None

    return read


def _workspace(name: str) -> Callable[[Results], Figure | None]:
    def read(results: Results) -> Figure | None:
        for one in results.workspaces or []:
            if one.name == name:
                walls = f"{one.with_it.p50_ms:.1f} ms against {one.without.p50_ms:.1f} ms"
                return Figure(one.added.p50_ms, one.added.n, walls)
        return None

    return read


def _slowest_list(results: Results) -> Figure | None:
    """The median of the list that takes longest: every other filter is faster."""
    if results.lists is None:
        return None
    worst = max(results.lists.lists, key=lambda one: one.wall.p50_ms)
    detail = f"{worst.question}; plain {results.lists.lists[0].wall.p50_ms:.1f} ms"
    return Figure(worst.wall.p50_ms, worst.wall.n, detail, as_asked=results.lists.executions >= REMEMBERED)


def _slowest_answer(results: Results) -> Figure | None:
    if results.lists is None:
        return None
    worst = max(results.lists.lists, key=lambda one: one.slowest_ms)
    n = sum(one.wall.n for one in results.lists.lists)
    return Figure(worst.slowest_ms, n, worst.question, as_asked=results.lists.executions >= REMEMBERED)


def _phases(phases: Phases | None) -> str:
    if phases is None:
        return ""
    named = (("queue", phases.queue_ms), ("start", phases.start_ms), ("run", phases.run_ms))
    parts = ", ".join(f"{name} {milliseconds:.1f}" for name, milliseconds in (*named, ("the rest", phases.rest_ms)))
    return f"median ms: {parts}"


def _processors(profile: Profile | None) -> str:
    if profile is None:
        return ""
    return "on the CPUs: " + ", ".join(f"{one.name} {one.share:.0%}" for one in profile.processes[:5])


BOUNDS = (
    Bound(
        "warm hello Python, full reply, against `docker run --rm`",
        0.04,
        "",
        "latency",
        _against(HELLO_PYTHON, DOCKER_RUN),
    ),
    Bound("the same in TypeScript", 0.04, "", "latency", _against(HELLO_TYPESCRIPT, DOCKER_RUN)),
    Bound("warm hello Python against an unisolated `python3 -I -S`", 1.0, "", "latency", _against(HELLO_PYTHON, BARE)),
    Bound(
        "warm hello TypeScript against an unisolated `node file.ts`",
        0.25,
        "",
        "latency",
        _against(HELLO_TYPESCRIPT, BARE),
    ),
    Bound(
        "warm single-use against llm-sandbox's reused pool, Python",
        0.05,
        "",
        "latency",
        _against(HELLO_PYTHON, WITH_POOL),
    ),
    Bound("the same in TypeScript (its JavaScript)", 0.05, "", "latency", _against(HELLO_TYPESCRIPT, WITH_POOL)),
    Bound("cold first byte against `docker run` with the same options", 0.6, "", "latency", _cold),
    Bound("sustained executions/s against the best `docker run` loop", 2.5, "", "load", _sustained, at_least=True),
    Bound("p99 / p50 at 80 % of capacity", 8, "", "load", _tail),
    Bound("burst of 50, total against 50 parallel `docker run`", 0.5, "", "burst", _burst),
    Bound("start cost with 100 containers alive against 0", 1.15, "", "crowd", _crowd),
    Bound("idle warm memory of Python, shim included", 25, " MB", "memory", _idle(Language.PYTHON)),
    Bound("idle warm memory of Node.js, shim included", 45, " MB", "memory", _idle(Language.TYPESCRIPT)),
    Bound("daemon's resident memory", 150, " MB", "soak", _resident),
    Bound("its growth", 20, " MB", "soak", _growth),
    Bound("`/health` p99 during a burst", 10, " ms", "burst", _health),
    Bound(
        "the check of a warm TypeScript program with one tool call", 150, " ms", "check", _check(Language.TYPESCRIPT)
    ),
    Bound("the same in Python", 150, " ms", "check", _check(Language.PYTHON)),
    Bound("an empty workspace, added to a warm start", 2, " ms", "workspaces", _workspace(EMPTY)),
    Bound("a workspace of 10 MB, added to a warm start", 100, " ms", "workspaces", _workspace(FULL)),
    Bound("a list of 50 out of 10,000 executions, with the slowest filter", 100, " ms", "lists", _slowest_list),
    Bound("the slowest answer of all lists", 100, " ms", "lists", _slowest_answer),
)
