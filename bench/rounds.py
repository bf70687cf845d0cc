"""Rounds in which every contestant runs once, in random order; a round that others disturbed counts for nobody."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import machine
from bench.contestants import DOCKER_RUN, OURS_COLD, OURS_WARM, Contestant, Failed, Ours, Run
from bench.plan import Plan
from bench.programs import Program
from bench.progress import say
from bench.replies import phases
from bench.results import Ratio, Row, Workload
from bench.stats import ratio, summary


@dataclass(frozen=True, slots=True)
class Sample:
    run: Run
    cpu_seconds: float
    background_cores: float


@dataclass(frozen=True, slots=True)
class Round:
    samples: dict[str, Sample]

    @property
    def background_cores(self) -> float:
        return statistics.mean(sample.background_cores for sample in self.samples.values())

    @property
    def quiet(self) -> bool:
        return self.background_cores <= machine.MOST_BACKGROUND_CORES


def measure(program: Program, field: Sequence[Contestant], plan: Plan, unable: dict[str, str]) -> Workload:
    contestants = [contestant for contestant in field if _is_able(contestant, program, unable)]
    for _ in range(plan.warm_up_rounds):
        _one_round(program, contestants)
    rounds: list[Round] = []
    for _ in range(plan.rounds + plan.spare_rounds):
        rounds.append(_one_round(program, contestants))
        if sum(one.quiet for one in rounds) == plan.rounds:
            break
    kept = _kept(rounds, plan.rounds)
    workload = _workload(program, contestants, kept, len(rounds) - len(kept))
    say(f"  {program.title}: {_brief(workload)}")
    return workload


def _is_able(contestant: Contestant, program: Program, unable: dict[str, str]) -> bool:
    """An alternative that cannot run a program here is named with the reason; ours has to."""
    try:
        _one_sample(contestant, program)
    except Exception as error:
        if isinstance(contestant, Ours):
            raise
        unable[f"{contestant.name} ({program.title})"] = str(error)[:300]
        say(f"  {contestant.name} cannot take part: {str(error)[:200]}")
        return False
    return True


def _kept(rounds: list[Round], wanted: int) -> list[Round]:
    """The quiet rounds; on a machine that is never quiet, the quietest ones, and the result says so."""
    quiet = [one for one in rounds if one.quiet]
    return quiet if len(quiet) >= wanted else sorted(rounds, key=lambda one: one.background_cores)[:wanted]


def _one_round(program: Program, contestants: Sequence[Contestant]) -> Round:
    order = random.sample(contestants, len(contestants))
    return Round({contestant.name: _one_sample(contestant, program) for contestant in order})


def _one_sample(contestant: Contestant, program: Program) -> Sample:
    background, used = machine.background_cores(), machine.cpu_seconds()
    began = time.monotonic()
    try:
        run = contestant.run(program)
    finally:
        contestant.settle()
    cpu_seconds = machine.cpu_seconds() - used - background * (time.monotonic() - began)
    if not program.accepts(run.output):
        raise Failed(f"{contestant.name} printed {run.output[:80]!r} for {program.name}")
    return Sample(run, max(0.0, cpu_seconds), background)


def _workload(program: Program, contestants: Sequence[Contestant], rounds: list[Round], dropped: int) -> Workload:
    background = statistics.mean(one.background_cores for one in rounds)
    return Workload(
        name=program.name,
        title=program.title,
        kept=len(rounds),
        dropped=dropped,
        background_cores=background,
        noisy=not all(one.quiet for one in rounds),
        rows=[_row(contestant, rounds) for contestant in contestants],
        cold_first_byte=_cold_first_byte(rounds),
    )


def _row(contestant: Contestant, rounds: list[Round]) -> Row:
    samples = [one.samples[contestant.name] for one in rounds]
    seconds = [sample.run.seconds for sample in samples]
    ours = [one.samples[OURS_WARM].run.seconds for one in rounds]
    replies = [sample.run.reply for sample in samples if sample.run.reply]
    first_bytes = _first_bytes(rounds, contestant.name)
    return Row(
        contestant=contestant.name,
        single_use=contestant.single_use,
        isolated=contestant.isolated,
        wall=summary(seconds),
        first_byte=summary(first_bytes) if first_bytes else None,
        cpu_ms=1000 * statistics.median(sample.cpu_seconds for sample in samples),
        ours_against_it=ratio(ours, seconds) if contestant.name != OURS_WARM else None,
        phases=phases(replies) if replies else None,
    )


def _first_bytes(rounds: list[Round], name: str) -> list[float]:
    found = [one.samples[name].run.first_byte_seconds for one in rounds if name in one.samples]
    return [seconds for seconds in found if seconds is not None]


def _cold_first_byte(rounds: list[Round]) -> Ratio | None:
    cold, docker = _first_bytes(rounds, OURS_COLD), _first_bytes(rounds, DOCKER_RUN)
    return ratio(cold, docker) if len(cold) == len(docker) == len(rounds) else None


def _brief(workload: Workload) -> str:
    times = ", ".join(f"{row.contestant} {row.wall.p50_ms:.1f} ms" for row in workload.rows)
    return f"{times} ({workload.kept} rounds, {workload.dropped} dropped{', NOISY' if workload.noisy else ''})"
