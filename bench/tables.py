"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.lists import PAGE
from bench.results import CheckCost, Latency, Level, Lists, Load, Results, Row, Summary, Target, Workload

JOURNAL = (
    "Of a week, by three callers: programs of about 1 kB with 0.5 to 5 kB of output and up to 12 tool calls each, on 8 "
    f"servers. A list that finds fewer than {PAGE} has found all that fit, and could not end early."
)
YES_NO = {True: "yes", False: "**no**", None: "-"}


def report(results: Results) -> str:
    parts = [f"# Benchmark of {results.machine.date}", machine_line(results), how_measured(results)]
    parts += ["## Figures to reach", targets_table(results.targets)]
    for latency in (results.latency, results.tools):
        parts += _latency(latency) if latency else []
    parts += _load(results.load) if results.load else []
    parts += [
        *_burst(results),
        *_crowd(results),
        *_memory(results),
        *_gateway(results),
        *_check(results),
        *_workspaces(results),
        *_lists(results),
    ]
    parts += _profile(results)
    return "\n\n".join(parts) + "\n"


def speed_section(results: Results, chart: str) -> str:
    parts = [machine_line(results), f"![Time of a hello program by contestant]({chart})"]
    workloads = results.latency.workloads[:2] if results.latency else []
    parts += [part for workload in workloads for part in (f"**{workload.title}**", workload_table(workload))]
    parts += ["**Figures to reach**", targets_table(results.targets)]
    parts += [f"**{lists_title(results.lists)}**", lists_table(results.lists), JOURNAL] if results.lists else []
    parts += ["`make bench` measures all of this; `bench/results/` holds every table, the charts and the raw figures."]
    return "\n\n".join(parts)


def machine_line(results: Results) -> str:
    machine = results.machine
    quick = " **A quick run: too few rounds to quote.**" if results.quick else ""
    return (
        f"{machine.date}, {machine.cores} cores of {machine.processor}, {machine.memory_gb:.0f} GB, {machine.system}, "
        f"kernel {machine.kernel}, {machine.engine}, Node.js {machine.runner_node.lstrip('v')}.{quick}"
    )


def how_measured(results: Results) -> str:
    return (
        "Contestants take turns, in random order within each round. A round in which others used the CPU counts for "
        "nobody. A ratio is the median of the rounds' ratios, with its 95 % bootstrap interval. CPU time is that of "
        f"the whole machine, from the {results.machine.cpu_source}, from the call until the contestant has cleaned up "
        "(ours: destroyed the sandbox and refilled the pool), less the background. `docker run` has our own lockdown's "
        "flags but for the masked paths, which its command line cannot say. llm-sandbox's time ends with the output, "
        "before its container is removed; it runs the same image, as root and with its own defaults otherwise."
    )


def targets_table(targets: Iterable[Target]) -> str:
    rows = [[one.name, one.target, one.measured, YES_NO[one.met], f"{one.n:,}", one.detail] for one in targets]
    return _table(["", "target", "measured", "met", "n", ""], rows)


def workload_table(workload: Workload) -> str:
    header = ["", "sandbox", "isolated", "p50 ms", "p95 ms", "p99 ms", "first byte ms", "CPU ms", "ours ÷ this"]
    return _table(header, [_cells(row) for row in sorted(workload.rows, key=lambda row: row.wall.p50_ms)])


def _cells(row: Row) -> list[str]:
    against = row.ours_against_it
    return [
        row.contestant,
        "single use" if row.single_use else "reused",
        "yes" if row.isolated else "no",
        *_percentiles(row.wall),
        _ms(row.first_byte.p50_ms) if row.first_byte else "-",
        _ms(row.cpu_ms),
        f"{against.median:.3g} ({against.low:.3g}-{against.high:.3g})" if against else "1",
    ]


def _latency(latency: Latency) -> list[str]:
    parts: list[str] = []
    for workload in latency.workloads:
        parts += [f"## {workload.title[0].upper()}{workload.title[1:]}", workload_table(workload), _rounds(workload)]
        parts += [_phases_of(row) for row in workload.rows if row.phases]
    parts += [f"Not taking part: {name}: {reason}" for name, reason in latency.unavailable.items()]
    return parts


def _rounds(workload: Workload) -> str:
    noisy = ", **of a machine that was never quiet enough**" if workload.noisy else ""
    return (
        f"{workload.kept} rounds{noisy}, {workload.dropped} dropped; others used {workload.background_cores:.2f} cores."
    )


def _phases_of(row: Row) -> str:
    assert row.phases is not None
    phases = row.phases
    return (
        f"{row.contestant}, medians: queue {phases.queue_ms:.2f} ms, start {phases.start_ms:.2f} ms, "
        f"run {phases.run_ms:.2f} ms, the rest {phases.rest_ms:.2f} ms."
    )


def _load(load: Load) -> list[str]:
    parts = []
    for sustained in load.sustained:
        header = ["", "at once", "per second", "p50 ms", "p95 ms", "p99 ms", "n"]
        parts += [
            f"## Sustained, {sustained.language}, with a pool of {load.pool}",
            _table(header, [_level(one) for one in sustained.levels]),
            "The fastest of each once more, for longer; these count:",
            _table(header, [_level(one) for one in (sustained.ours, sustained.docker)]),
        ]
    loops = [
        [
            f"{one.share:.0%}",
            f"{one.per_second:.2f}",
            str(one.sent),
            str(one.refused),
            *_percentiles(one.wall),
            f"{one.warm_share:.0%}",
        ]
        for one in load.open_loops
    ]
    header = ["of capacity", "per second", "sent", "refused", "p50 ms", "p95 ms", "p99 ms", "warm"]
    seconds = load.open_loops[0].seconds
    return [
        *parts,
        f"## Open loop, {seconds:.0f} s each, random arrivals, with a pool of {load.pool}",
        _table(header, loops),
    ]


def _level(level: Level) -> list[str]:
    rate = f"{level.per_second:.2f}"
    return [level.contestant, str(level.concurrency), rate, *_percentiles(level.wall), str(level.wall.n)]


def _burst(results: Results) -> list[str]:
    burst = results.burst
    if burst is None:
        return []
    ours, docker = (_seconds(seconds) for seconds in (burst.ours_seconds, burst.docker_seconds))
    rows = [
        ["/health, idle", *_percentiles(burst.health_idle), str(burst.health_idle.n)],
        ["/health during the burst", *_percentiles(burst.health), str(burst.health.n)],
        ["an execution of the burst", *_percentiles(burst.wall), str(burst.wall.n)],
    ]
    text = f"Until the last answer, with a pool of {burst.pool}: ours {ours} s, `docker run` {docker} s."
    return [f"## Burst of {burst.size}", text, _table(["", "p50 ms", "p95 ms", "p99 ms", "n"], rows)]


def _crowd(results: Results) -> list[str]:
    if not results.crowd:
        return []
    rows = [
        [
            str(one.alive),
            *(_ms(wall.p50_ms) for wall in (one.ours_start, one.ours_first_byte, one.docker)),
            str(one.ours_start.n),
        ]
        for one in results.crowd
    ]
    header = ["containers alive", "our cold start, p50 ms", "our first byte, p50 ms", "docker run, p50 ms", "n"]
    return ["## Start cost beside other containers", _table(header, rows)]


def _memory(results: Results) -> list[str]:
    parts: list[str] = []
    if results.memory:
        rows = [
            [
                one.language,
                f"{one.sandbox_mb:.1f}",
                f"{one.shim_mb:.1f}",
                f"{one.start_cpu_ms:.0f}",
            ]
            for one in results.memory
        ]
        header = ["MB", "sandbox (cgroup)", "its shim (PSS)", "CPU ms inside until it is warm"]
        parts += ["## Idle memory of a warm sandbox", _table(header, rows)]
    if results.soak:
        points = ", ".join(f"{count:,}: {mb:.1f}" for count, mb in _thinned(results.soak.points))
        parts += ["## The daemon's resident memory", f"MB after so many executions: {points}."]
    return parts


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    step = max(1, len(points) // 12)
    return [*points[:-1:step], points[-1]]


def _gateway(results: Results) -> list[str]:
    gateway = results.gateway
    if gateway is None:
        return []
    rows = [
        ["the MCP server, directly", *_percentiles(gateway.direct), str(gateway.direct.n)],
        ["through the gateway, as the ledger tells it", *_percentiles(gateway.gateway), str(gateway.gateway.n)],
        ["through the gateway, as the program sees it", *_percentiles(gateway.through), str(gateway.through.n)],
    ]
    text = f"The gateway adds {gateway.overhead_p50_ms:.2f} ms at p50 and {gateway.overhead_p99_ms:.2f} ms at p99."
    if gateway.leash is not None:
        floor = "the engine's attached streams alone, there and back"
        rows.insert(1, [floor, *_percentiles(gateway.leash), str(gateway.leash.n)])
    return ["## What the gateway adds to a tool call", _table(["", "p50 ms", "p95 ms", "p99 ms", "n"], rows), text]


def _check(results: Results) -> list[str]:
    return (
        ["## What the check adds to a program with one tool call", check_table(results.check)] if results.check else []
    )


def check_table(costs: Iterable[CheckCost]) -> str:
    rows = [
        [
            one.language,
            _ms(one.unchecked.p50_ms),
            _ms(one.checked.p50_ms),
            _ms(one.added.p50_ms),
            _ms(one.added.p95_ms),
            f"{one.ratio.median:.3g} ({one.ratio.low:.3g}-{one.ratio.high:.3g})",
            str(one.added.n),
        ]
        for one in costs
    ]
    header = ["", "not checked, p50 ms", "checked, p50 ms", "added, p50 ms", "added, p95 ms", "checked ÷ not", "n"]
    return _table(header, rows)


def _workspaces(results: Results) -> list[str]:
    rows = [
        [one.name, _ms(one.without.p50_ms), _ms(one.with_it.p50_ms), _ms(one.added.p50_ms), str(one.added.n)]
        for one in results.workspaces or []
    ]
    header = ["", "without, p50 ms", "with it, p50 ms", "added, p50 ms", "n"]
    return ["## What a workspace adds to a warm hello in Python", _table(header, rows)] if rows else []


def _lists(results: Results) -> list[str]:
    return [f"## {lists_title(results.lists)}", lists_table(results.lists), JOURNAL] if results.lists else []


def lists_title(lists: Lists) -> str:
    return f"Lists of {PAGE} and figures, out of {lists.executions:,} executions"


def lists_table(lists: Lists) -> str:
    rows = [
        [one.question, f"{one.found:,}", _ms(one.wall.p50_ms), _ms(one.slowest_ms), str(one.wall.n)]
        for one in (*lists.lists, *lists.stats)
    ]
    return _table(["", "found", "p50 ms", "slowest ms", "n"], rows)


def _profile(results: Results) -> list[str]:
    profile = results.profile
    if profile is None:
        return []
    processes = ", ".join(f"{one.name} {one.share:.0%}" for one in profile.processes)
    functions = [[f"`{one.name}`", f"{one.share:.0%}"] for one in profile.daemon]
    text = f"At {profile.per_second:.1f} executions/s the daemon uses {profile.daemon_cpu_share:.2f} cores. "
    text += f"Found on the CPUs: {processes}."
    table = [_table(["the daemon's busy time, callees included", "share"], functions)] if functions else []
    return ["## Where the time goes under load", text, *table]


def _percentiles(wall: Summary) -> list[str]:
    return [_ms(wall.p50_ms), _ms(wall.p95_ms), _ms(wall.p99_ms)]


def _ms(milliseconds: float) -> str:
    return (
        f"{milliseconds:.2f}"
        if milliseconds < 10
        else f"{milliseconds:,.1f}"
        if milliseconds < 100
        else f"{milliseconds:,.0f}"
    )


def _seconds(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
