"""What an idle warm sandbox costs, and what the daemon keeps after many executions."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

from bench import machine
from bench.engine import Engine
from bench.installation import installation
from bench.load import OurWorkers, closed_loop
from bench.plan import Plan
from bench.programs import HELLO_PYTHON, Language
from bench.progress import say
from bench.results import IdleMemory, Soak
from bench.testbed.engine import containers_of

SANDBOXES_LOOKED_AT = 4
SOAKED_AT_ONCE = 4
SOAK_PIECES = 10
LONG_SOAK_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Footprint:
    language: str
    container_mb: float
    shim_mb: float
    cpu_ms: float


def measure_idle_memory(engine: Engine, plan: Plan) -> list[IdleMemory]:
    with installation(pool=SANDBOXES_LOOKED_AT) as daemon:
        running = [container for container in containers_of(daemon.owner) if container.status == "running"]
        footprints = [_footprint(container) for container in running]
    return [_idle_memory(language, footprints) for language in Language]


def _footprint(container: Any) -> Footprint:
    container.reload()
    pid = container.attrs["State"]["Pid"]
    arguments = container.attrs["Config"]["Entrypoint"]
    language = next(language for language in Language if language in arguments)
    shim = machine.parent_of(pid)
    return Footprint(language, machine.cgroup_memory_mb(pid), machine.proportional_mb(shim), machine.cgroup_cpu_ms(pid))


def _idle_memory(language: Language, footprints: list[Footprint]) -> IdleMemory:
    sandboxes = [footprint for footprint in footprints if footprint.language == language]
    memory = IdleMemory(
        language=language,
        n=len(sandboxes),
        sandbox_mb=statistics.mean(one.container_mb for one in sandboxes),
        shim_mb=statistics.mean(one.shim_mb for one in sandboxes),
        start_cpu_ms=statistics.mean(one.cpu_ms for one in sandboxes),
    )
    sizes = f"{memory.sandbox_mb:.1f} MB and {memory.shim_mb:.1f} MB of its shim"
    say(f"  idle {language}: {sizes}; {memory.start_cpu_ms:.0f} ms of CPU to start")
    return memory


def measure_soak(engine: Engine, plan: Plan) -> Soak:
    with installation(pool=plan.pool) as daemon:
        workers = OurWorkers(daemon, HELLO_PYTHON)
        idle = machine.resident_mb(daemon.pid)
        points = [(0, idle)]
        began = time.monotonic()
        while points[-1][0] < plan.soak_executions and not _time_is_up(began, plan):
            executed = points[-1][0] + _piece(workers, plan)
            points.append((executed, machine.resident_mb(daemon.pid)))
            say(f"  {executed} executions, daemon {points[-1][1]:.1f} MB")
        daemon.settle()
        workers.close()
        after = machine.resident_mb(daemon.pid)
    return Soak(
        executions=points[-1][0],
        idle_mb=idle,
        after_mb=after,
        growth_mb=after - idle,
        points=points,
    )


def _time_is_up(began: float, plan: Plan) -> bool:
    return plan.soak_seconds is not None and time.monotonic() - began >= plan.soak_seconds


def _piece(workers: OurWorkers, plan: Plan) -> int:
    seconds = (plan.soak_seconds or LONG_SOAK_SECONDS) / SOAK_PIECES
    return len(closed_loop(workers, SOAKED_AT_ONCE, 0, seconds).seconds)
