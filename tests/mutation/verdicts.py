"""Which mutants there are, and what becomes of each."""

from __future__ import annotations

import ctypes
import json
import random
import time
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path

from bench.paths import ROOT, SECCOMP
from bench.progress import say
from orchestrator.engines.docker.lockdown import MASKED_PATHS
from tests.mutation.mutants import Mutant, all_mutants
from tests.mutation.noticing import TESTS, failure_of
from tests.mutation.place import Place, place
from tests.mutation.weakening import Weakening


class Fate(StrEnum):
    KILLED = "killed"
    SURVIVED = "survived"
    STILLBORN = "stillborn"  # no program runs in such a sandbox, so there is nothing to protect
    EQUIVALENT = "equivalent"  # this machine has nothing that the option protects, or the engine ignores the change


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: str
    fate: Fate
    by: str = ""

    @property
    def how(self) -> str:
        return f" (by {self.by})" if self.by else ""


@dataclass
class MutationReport:
    verdicts: list[Verdict] = field(default_factory=list)
    total: int = 0
    seconds: float = 0.0

    def named(self, fate: Fate) -> list[str]:
        return [verdict.mutant for verdict in self.verdicts if verdict.fate is fate]

    @property
    def score(self) -> float:
        killed, survived = len(self.named(Fate.KILLED)), len(self.named(Fate.SURVIVED))
        return killed / max(1, killed + survived)


async def judge(mutants: list[Mutant]) -> MutationReport:
    began, weakening = time.monotonic(), Weakening()
    report = MutationReport(total=len(mutants))
    with weakening.installed():
        async with place() as shared:
            await _require_passing(shared, {mutant.group for mutant in mutants})
            for mutant in mutants:
                verdict = await _verdict(weakening, mutant, shared)
                report.verdicts.append(verdict)
                say(f"  {len(report.verdicts)}/{len(mutants)} {verdict.fate}: {mutant.name}{verdict.how}")
    report.seconds = time.monotonic() - began
    return report


async def _require_passing(shared: Place, groups: set[str]) -> None:
    """A test that fails by itself would seem to notice everything."""
    for test in sorted({test for group in groups for test in TESTS[group]}):
        failure = await failure_of(test, shared)
        if failure is not None:
            raise RuntimeError(f"{test} fails without any mutant: {failure}")


async def _verdict(weakening: Weakening, mutant: Mutant, shared: Place) -> Verdict:
    if _is_equivalent(mutant):
        return Verdict(mutant.name, Fate.EQUIVALENT)
    weakening.mutant = mutant
    try:
        try:
            runs = await _runs_a_program(shared)
        except Exception:
            runs = False
        return await _judged(mutant, shared) if runs else Verdict(mutant.name, Fate.STILLBORN)
    finally:
        weakening.mutant = None


async def _judged(mutant: Mutant, where: Place) -> Verdict:
    for test in TESTS[mutant.group]:
        if await failure_of(test, where) is not None:
            return Verdict(mutant.name, Fate.KILLED, test)
    return Verdict(mutant.name, Fate.EQUIVALENT if await _is_unknown_call(mutant, where) else Fate.SURVIVED)


async def _is_unknown_call(mutant: Mutant, where: Place) -> bool:
    """A call that the runtime's library knows no name for cannot be let through by a profile: it stays unknown."""
    kind, _, name = mutant.name.rpartition(" ")
    if kind != "system call":
        return False
    answers = await import_module("tests.escape.test_filter").sweep(where.api, {name: known_calls()[name]})
    return bool(answers == {name: "ENOSYS"})


def _is_equivalent(mutant: Mutant) -> bool:
    """A path that this kernel does not have needs no mask, an ABI that it does not have no filter, and a path that is
    masked is read-only already."""
    kind, _, path = mutant.name.partition(" without ")
    if kind in ("MaskedPaths", "ReadonlyPaths"):
        return not Path(path).exists() or (kind == "ReadonlyPaths" and path in MASKED_PATHS)
    return mutant.name.endswith("SCMP_ARCH_X32") and not _kernel_has_x32()


def _kernel_has_x32() -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(ctypes.c_long(0x40000000 + 39))) >= 0


async def _runs_a_program(where: Place) -> bool:
    status, body = await where.api.post("/execute", {"code": "print(1)", "language": "python", "timeoutSeconds": 20})
    return (status, body.get("output")) == (200, "1\n")


def known_calls() -> dict[str, int]:
    numbers: dict[str, int] = json.loads((ROOT / "tests" / "support" / "system_calls_x86_64.json").read_text())
    return numbers


def known_mutants() -> list[Mutant]:
    return all_mutants(json.loads(SECCOMP.read_text()), known_calls())


def chosen_mutants(sample: int | None, seed: int, only: str = "") -> list[Mutant]:
    known = [mutant for mutant in known_mutants() if only in f"{mutant.group} {mutant.name}"]
    return known if sample is None else random.Random(seed).sample(known, min(sample, len(known)))


def summary(report: MutationReport) -> str:
    counts = ", ".join(f"{len(report.named(fate))} {fate}" for fate in Fate)
    return f"{report.total} mutants in {report.seconds:.0f} s: {counts}; score {report.score:.1%}"
