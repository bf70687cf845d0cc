"""What a start costs while many other containers are alive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.contestants import OURS_COLD, DockerRun, Ours, Run
from bench.engine import LABEL, Engine
from bench.installation import installation
from bench.paths import RUNNER_IMAGE
from bench.plan import Plan
from bench.programs import HELLO_PYTHON
from bench.progress import say
from bench.results import Crowd
from bench.stats import summary

STARTED_AT_ONCE = 3


@dataclass
class Starts:
    ours: list[Run] = field(default_factory=list)
    docker: list[Run] = field(default_factory=list)


def measure_crowd(engine: Engine, plan: Plan) -> list[Crowd]:
    starts: defaultdict[int, Starts] = defaultdict(Starts)
    with installation(pool=0) as daemon, _bystanders(engine) as bystanders:
        cold, docker = Ours(OURS_COLD, daemon, streaming=True), DockerRun(engine)
        for contestant in (cold, docker):
            contestant.run(HELLO_PYTHON)
        # Up and down again, so that a drift of the machine falls on all alike.
        for alive in plan.crowds:
            bystanders.become(alive)
            for _ in range(plan.starts_per_crowd):
                starts[alive].ours.append(cold.run(HELLO_PYTHON))
                cold.settle()
                starts[alive].docker.append(docker.run(HELLO_PYTHON))
    return [_crowd(alive, seen) for alive, seen in sorted(starts.items())]


def _crowd(alive: int, starts: Starts) -> Crowd:
    replies = [run.reply for run in starts.ours if run.reply]
    crowd = Crowd(
        alive=alive,
        ours_start=summary([reply.start_ms / 1000 for reply in replies]),
        ours_first_byte=summary([run.first_byte_seconds for run in starts.ours if run.first_byte_seconds]),
        docker=summary([run.seconds for run in starts.docker]),
    )
    say(f"  {alive} alive: our start {crowd.ours_start.p50_ms:.0f} ms, docker run {crowd.docker.p50_ms:.0f} ms")
    return crowd


class Bystanders:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._alive: list[Any] = []
        self._threads = ThreadPoolExecutor(STARTED_AT_ONCE)

    def become(self, count: int) -> None:
        leaving, self._alive = self._alive[count:], self._alive[:count]
        list(self._threads.map(lambda container: container.remove(force=True), leaving))
        missing = range(count - len(self._alive))
        self._alive += self._threads.map(lambda _: self._start(), missing)

    def _start(self) -> Any:
        return self._engine.api.containers.run(
            RUNNER_IMAGE,
            entrypoint=["sleep", "3600"],
            detach=True,
            network_mode="none",
            labels={LABEL: self._engine.run_id},
        )

    def leave(self) -> None:
        self.become(0)
        self._threads.shutdown(cancel_futures=True)


@contextmanager
def _bystanders(engine: Engine) -> Iterator[Bystanders]:
    bystanders = Bystanders(engine)
    try:
        yield bystanders
    finally:
        bystanders.leave()
