"""Many executions: as fast as they go (closed loop), and at a given rate whatever happens (open loop)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from bench.client import Client, Refused, Reply
from bench.contestants import DOCKER_RUN, OURS_WARM, Contestant, DockerRun
from bench.engine import Engine
from bench.installation import Daemon, installation
from bench.plan import Plan
from bench.programs import HELLO_PYTHON, HELLO_TYPESCRIPT, Program
from bench.progress import say
from bench.replies import phases
from bench.results import Level, Load, OpenLoop, Sustained
from bench.stats import summary

MOST_AT_ONCE = 256
RETRY_SECONDS = 0.05


@dataclass
class Tally:
    """What several threads saw, in one place."""

    began: float
    seconds: list[float] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    refused: int = 0
    ended: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, seconds: float, reply: Reply | None = None) -> None:
        with self._lock:
            if time.monotonic() >= self.began:
                self.seconds.append(seconds)
                self.replies += [reply] if reply else []

    def note_refusal(self) -> None:
        with self._lock:
            self.refused += 1


class OurWorkers:
    """One connection per thread, as so many callers would have."""

    def __init__(self, daemon: Daemon, program: Program) -> None:
        self._daemon = daemon
        self._program = program
        self._local = threading.local()
        self._clients: list[Client] = []

    def execute(self) -> Reply:
        reply = self._client().execute(self._program.code, self._program.language)
        if not self._program.accepts(reply.output):
            raise AssertionError(f"the daemon answered {reply.output[:80]!r}")
        return reply

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _client(self) -> Client:
        if not hasattr(self._local, "client"):
            self._local.client = self._daemon.client()
            self._clients.append(self._local.client)
        client: Client = self._local.client
        return client


def measure_load(engine: Engine, plan: Plan) -> Load:
    with installation(pool=plan.load_pool) as daemon:
        python = _sustained(daemon, engine, HELLO_PYTHON, plan, plan.levels, plan.docker_levels)
        loops = [_open_loop(daemon, HELLO_PYTHON, share, python.ours.per_second, plan) for share in plan.load_shares]
        typescript = _sustained(daemon, engine, HELLO_TYPESCRIPT, plan, plan.levels[-2:-1], plan.docker_levels[1:])
    return Load(pool=plan.load_pool, sustained=[python, typescript], open_loops=loops)


def _sustained(
    daemon: Daemon, engine: Engine, program: Program, plan: Plan, ours: tuple[int, ...], docker: tuple[int, ...]
) -> Sustained:
    order = [(OURS_WARM, level) for level in ours] + [(DOCKER_RUN, level) for level in docker]
    random.shuffle(order)
    replies: list[Reply] = []

    def measured(name: str, concurrency: int, seconds: float) -> Level:
        if name == OURS_WARM:
            level, seen = _our_level(daemon, program, concurrency, plan.level_warm_up_seconds, seconds)
            replies.extend(seen)
        else:
            docker_run = DockerRun(engine)
            level = _docker_level(docker_run, program, concurrency, plan.level_warm_up_seconds, seconds)
        rate = f"{level.per_second:.2f}/s, p50 {level.wall.p50_ms:.0f} ms"
        say(f"  {program.title}, {concurrency} at once for {seconds:.0f} s, {name}: {rate}")
        return level

    levels = [measured(name, concurrency, plan.level_seconds) for name, concurrency in order]
    levels.sort(key=lambda level: (level.contestant, level.concurrency))
    return Sustained(
        language=program.language,
        levels=levels,
        ours=measured(OURS_WARM, _best(levels, OURS_WARM), plan.capacity_seconds),
        docker=measured(DOCKER_RUN, _best(levels, DOCKER_RUN), plan.capacity_seconds),
        phases=phases(replies),
    )


def _best(levels: list[Level], name: str) -> int:
    """The concurrency at which it was fastest."""
    return max((level for level in levels if level.contestant == name), key=lambda level: level.per_second).concurrency


def _our_level(
    daemon: Daemon, program: Program, concurrency: int, warm_up_seconds: float, seconds: float
) -> tuple[Level, list[Reply]]:
    daemon.settle()
    workers = OurWorkers(daemon, program)
    tally = closed_loop(workers, concurrency, warm_up_seconds, seconds)
    daemon.settle()
    workers.close()
    return _level(OURS_WARM, concurrency, tally), tally.replies


def closed_loop(workers: OurWorkers, concurrency: int, warm_up_seconds: float, seconds: float) -> Tally:
    tally = Tally(time.monotonic() + warm_up_seconds)

    def once() -> None:
        try:
            reply = workers.execute()
        except Refused:
            tally.note_refusal()
            time.sleep(RETRY_SECONDS)
        else:
            tally.note(reply.seconds, reply)

    _repeat(once, concurrency, tally.began + seconds)
    tally.ended = time.monotonic()
    return tally


def _docker_level(
    docker: Contestant, program: Program, concurrency: int, warm_up_seconds: float, seconds: float
) -> Level:
    tally = Tally(time.monotonic() + warm_up_seconds)
    _repeat(lambda: tally.note(docker.run(program).seconds), concurrency, tally.began + seconds)
    tally.ended = time.monotonic()
    return _level(DOCKER_RUN, concurrency, tally)


def _repeat(once: Callable[[], None], concurrency: int, until: float) -> None:
    """Each thread begins nothing after the end, and what it began before is counted: so many more seconds it took."""

    def worker() -> None:
        while time.monotonic() < until:
            once()

    with ThreadPoolExecutor(concurrency) as threads:
        for finished in [threads.submit(worker) for _ in range(concurrency)]:
            finished.result()


def _level(name: str, concurrency: int, tally: Tally) -> Level:
    # The pool is empty at both moments (the warm-up takes what was in it), so nothing is counted that was made before.
    elapsed = tally.ended - tally.began
    return Level(
        contestant=name,
        concurrency=concurrency,
        per_second=len(tally.seconds) / elapsed,
        wall=summary(tally.seconds),
        refused=tally.refused,
    )


def _open_loop(daemon: Daemon, program: Program, share: float, capacity: float, plan: Plan) -> OpenLoop:
    daemon.settle()
    workers = OurWorkers(daemon, program)
    rate = share * capacity
    tally = Tally(time.monotonic())
    arrivals = list(_arrivals(rate, plan.load_seconds))
    with ThreadPoolExecutor(MOST_AT_ONCE) as threads:
        sent = [_send_at(tally.began + arrival, threads, workers, tally) for arrival in arrivals]
        for finished in sent:
            finished.result()
    daemon.settle()
    workers.close()
    result = OpenLoop(
        share=share,
        per_second=rate,
        seconds=plan.load_seconds,
        sent=len(arrivals),
        refused=tally.refused,
        wall=summary(tally.seconds),
        warm_share=sum(reply.warm for reply in tally.replies) / len(tally.replies),
        phases=phases(tally.replies),
    )
    wall = result.wall
    say(f"  open loop at {share:.0%}: p50 {wall.p50_ms:.0f} ms, p99 {wall.p99_ms:.0f} ms, {tally.refused} refused")
    return result


def _arrivals(rate: float, seconds: float) -> list[float]:
    """At random moments, as independent callers arrive; the same ones in every run at the same rate."""
    draw, times = random.Random(1), [0.0]
    while times[-1] < seconds:
        times.append(times[-1] + draw.expovariate(rate))
    return times[:-1]


def _send_at(moment: float, threads: ThreadPoolExecutor, workers: OurWorkers, tally: Tally) -> Future[None]:
    time.sleep(max(0.0, moment - time.monotonic()))

    def once() -> None:
        try:
            reply = workers.execute()
        except Refused:
            tally.note_refusal()
        else:
            # From the moment of arrival: time in which the benchmark itself was late counts as well.
            tally.note(time.monotonic() - moment, reply)

    return threads.submit(once)
