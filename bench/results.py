"""What a run found, as it is kept in bench/results/; the tables and charts are made from here."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Summary(Body):
    n: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Ratio(Body):
    median: float
    low: float
    high: float
    n: int


class Phases(Body):
    """Medians of what the replies say of themselves; the rest is HTTP, admission and the journal."""

    queue_ms: float
    start_ms: float
    run_ms: float
    rest_ms: float


class Row(Body):
    contestant: str
    single_use: bool
    isolated: bool
    wall: Summary
    first_byte: Summary | None
    cpu_ms: float
    ours_against_it: Ratio | None
    phases: Phases | None


class Workload(Body):
    name: str
    title: str
    kept: int
    dropped: int
    background_cores: float
    noisy: bool
    rows: list[Row]
    cold_first_byte: Ratio | None


class Latency(Body):
    workloads: list[Workload]
    unavailable: dict[str, str]


class Level(Body):
    contestant: str
    concurrency: int
    per_second: float
    wall: Summary
    refused: int


class Sustained(Body):
    language: str
    levels: list[Level]
    ours: Level  # the fastest once more, for longer: of several short runs the best is also the luckiest
    docker: Level
    phases: Phases


class OpenLoop(Body):
    share: float
    per_second: float
    seconds: float
    sent: int
    refused: int
    wall: Summary
    warm_share: float
    phases: Phases


class Load(Body):
    pool: int
    sustained: list[Sustained]
    open_loops: list[OpenLoop]


class Burst(Body):
    size: int
    pool: int
    ours_seconds: list[float]
    docker_seconds: list[float]
    ratio: Ratio
    wall: Summary
    phases: Phases
    health_idle: Summary
    health: Summary


class Crowd(Body):
    alive: int
    ours_start: Summary
    ours_first_byte: Summary
    docker: Summary


class IdleMemory(Body):
    language: str
    n: int
    sandbox_mb: float
    shim_mb: float
    start_cpu_ms: float


class Soak(Body):
    executions: int
    idle_mb: float
    after_mb: float
    growth_mb: float
    points: list[tuple[int, float]]


class GatewayOverhead(Body):
    direct: Summary
    through: Summary
    gateway: Summary
    leash: Summary | None = None
    overhead_p50_ms: float
    overhead_p99_ms: float


class CheckCost(Body):
    """One program with one tool call, checked and not checked; what is added is that of each round."""

    language: str
    checked: Summary
    unchecked: Summary
    ratio: Ratio
    added: Summary


class WorkspaceCost(Body):
    """Hello with and without a workspace; what is added is that of each round."""

    name: str
    with_it: Summary
    without: Summary
    added: Summary


class Answer(Body):
    """What GET /executions or GET /stats took to answer one question, over HTTP."""

    question: str
    found: int  # executions that it listed or counted
    wall: Summary
    slowest_ms: float


class Lists(Body):
    executions: int  # in the journal
    lists: list[Answer]
    stats: list[Answer]


class Share(Body):
    name: str
    share: float


class Profile(Body):
    per_second: float
    daemon_cpu_share: float
    processes: list[Share]
    daemon: list[Share]


class Machine(Body):
    date: str
    processor: str
    cores: int
    memory_gb: float
    system: str
    kernel: str
    engine: str
    runner_node: str
    python: str
    cpu_source: str


class Target(Body):
    name: str
    target: str
    measured: str
    met: bool | None
    n: int
    detail: str


class Results(Body):
    machine: Machine
    quick: bool
    seconds: float
    latency: Latency | None = None
    tools: Latency | None = None
    load: Load | None = None
    burst: Burst | None = None
    crowd: list[Crowd] | None = None
    memory: list[IdleMemory] | None = None
    soak: Soak | None = None
    gateway: GatewayOverhead | None = None
    check: list[CheckCost] | None = None
    workspaces: list[WorkspaceCost] | None = None
    lists: Lists | None = None
    profile: Profile | None = None
    background_cores: dict[str, float] = {}
    targets: list[Target] = []


def read(file: Path) -> Results:
    return Results.model_validate_json(file.read_text())


def write(results: Results, file: Path) -> None:
    rounded = _rounded(results.model_dump(mode="json"))
    fresh = file.with_suffix(".new")
    fresh.write_text(Results.model_validate(rounded).model_dump_json(indent=1) + "\n")
    fresh.replace(file)


def _rounded(value: object) -> object:
    """Four digits: a figure of a benchmark has no more, and the file stays small."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < 1000 else round(value, 1)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value
