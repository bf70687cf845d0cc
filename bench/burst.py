"""Fifty at once: the time until the last one has its answer, and what /health says meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bench.client import Reply
from bench.contestants import DockerRun
from bench.engine import Engine
from bench.installation import Daemon, installation
from bench.load import OurWorkers
from bench.paths import ROOT
from bench.plan import Plan
from bench.programs import HELLO_PYTHON
from bench.progress import say
from bench.replies import phases
from bench.results import Burst
from bench.stats import ratio, summary

IDLE_SECONDS = 3.0


def measure_burst(engine: Engine, plan: Plan) -> Burst:
    ours: list[float] = []
    docker: list[float] = []
    replies: list[Reply] = []
    health: list[float] = []
    with installation(pool=plan.pool) as daemon:
        idle = _idle_health(daemon)
        for number in range(plan.burst_rounds):
            seconds, seen = _our_burst(daemon, plan.burst, health)
            ours.append(seconds)
            replies += seen
            docker.append(_docker_burst(engine, plan.burst))
            say(f"  burst of {plan.burst}, round {number + 1}: ours {ours[-1]:.1f} s, docker run {docker[-1]:.1f} s")
    return Burst(
        size=plan.burst,
        pool=plan.pool,
        ours_seconds=ours,
        docker_seconds=docker,
        ratio=ratio(ours, docker),
        wall=summary([reply.seconds for reply in replies]),
        phases=phases(replies),
        health_idle=summary(idle),
        health=summary(health),
    )


def _our_burst(daemon: Daemon, size: int, health: list[float]) -> tuple[float, list[Reply]]:
    daemon.settle()
    workers = OurWorkers(daemon, HELLO_PYTHON)
    with _probed(daemon, health), ThreadPoolExecutor(size) as threads:
        began = time.perf_counter()
        sent = [threads.submit(workers.execute) for _ in range(size)]
        replies = [one.result() for one in sent]
        seconds = time.perf_counter() - began
    daemon.settle()
    workers.close()
    return seconds, replies


def _docker_burst(engine: Engine, size: int) -> float:
    docker = DockerRun(engine)
    with ThreadPoolExecutor(size) as threads:
        began = time.perf_counter()
        for one in [threads.submit(docker.run, HELLO_PYTHON) for _ in range(size)]:
            one.result()
        return time.perf_counter() - began


def _idle_health(daemon: Daemon) -> list[float]:
    taken: list[float] = []
    with _probed(daemon, taken):
        time.sleep(IDLE_SECONDS)
    return taken


@contextmanager
def _probed(daemon: Daemon, into: list[float]) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.prober", str(daemon.port)]
    prober = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield
        output, _ = prober.communicate(timeout=60)
        into += json.loads(output)
    finally:
        prober.kill()
        prober.communicate()
