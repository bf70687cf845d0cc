"""Takes each hardening option away in turn and sees whether a test notices: `python -m bench.mutation --sample 20`.

What is asked of the engine and what is compared with its answer are weakened alike, so that the check of the lockdown
itself says nothing and the tests have to notice, most of them from inside the sandbox. The tests are those of the
suite, called one by one until the first fails.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import inspect
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import _pytest.outcomes
import structlog

from bench.mutants import Mutant, all_mutants
from bench.paths import ROOT, SECCOMP
from bench.progress import say
from orchestrator.engines.docker import lockdown
from tests.support.api import Api
from tests.support.engine import remove_network
from tests.support.installation import Installation

# The reaper, which discards what was tampered with, looks so seldom that the tests have to notice.
SETTINGS = {"warm_floor": 0, "warm_ceiling": 0, "check_seconds": 3600}
TEST_SECONDS = 90.0
STARTS = 3

# The tests that may notice, by group of mutants; the likeliest first.
TESTS: dict[str, list[str]] = {
    "user": ["integration/test_lockdown.py::test_the_program_is_user_1000_without_other_groups"],
    "leash": ["escape/test_pool.py::test_a_sandbox_ends_by_itself_when_its_leash_is_cut"],
    "files": ["integration/test_lockdown.py::test_the_root_is_read_only_and_the_tmpfs_are_writable"],
    "privileges": [
        "integration/test_lockdown.py::test_the_program_has_no_capability",
        "integration/test_lockdown.py::test_no_new_privileges_and_the_seccomp_filter_are_on",
    ],
    "filter": [
        "escape/test_filter.py::test_every_system_call_that_the_profile_does_not_name_is_refused",
        "escape/test_filter.py::test_calls_younger_than_the_profile_are_refused_or_unknown",
    ],
    "arguments": [
        "escape/test_kernel.py::test_no_namespace_can_be_made_or_entered",
        "escape/test_kernel.py::test_clone3_is_unknown_so_that_libraries_fall_back",
        "escape/test_filter.py::test_only_three_families_of_sockets_are_let_through",
        "escape/test_filter.py::test_the_supervisor_cannot_be_rescheduled_or_limited",
        "escape/test_filter.py::test_socket_pairs_of_other_families_are_refused",
        "escape/test_filter.py::test_not_even_the_harmless_device_node_of_an_overlay_can_be_made",
        "escape/test_filter.py::test_the_way_addresses_are_chosen_cannot_be_changed",
    ],
    "architecture": [
        "escape/test_kernel.py::test_the_foreign_32_bit_abi_cannot_be_used",
        "escape/test_kernel.py::test_x32_system_calls_are_refused",
    ],
    "ipc": ["integration/test_lockdown.py::test_shared_memory_and_message_queues_are_out_of_reach"],
    "namespaces": [
        "escape/test_filesystem.py::test_the_place_of_the_sandbox_on_the_host_is_not_told",
        "integration/test_lockdown.py::test_only_the_sandboxs_own_processes_are_there",
    ],
    "inspected": [
        "integration/test_lockdown.py::test_the_engine_made_the_sandbox_as_it_was_asked",
        "integration/test_lockdown.py::test_the_code_is_in_no_argument_variable_or_log_of_the_container",
    ],
    "resources": [
        "integration/test_lockdown.py::test_memory_is_limited_to_one_gigabyte_without_swap",
        "integration/test_lockdown.py::test_the_processor_is_limited_to_one",
        "integration/test_lockdown.py::test_processes_are_limited",
        "escape/test_hoarding.py::test_the_program_is_given_up_before_the_hosts_own_services",
        "integration/test_lockdown.py::test_the_engine_made_the_sandbox_as_it_was_asked",
    ],
    "paths": [
        "escape/test_filesystem.py::test_every_path_that_tells_of_the_host_is_masked",
        "escape/test_filesystem.py::test_the_kernels_own_settings_are_mounted_read_only",
    ],
    "tmpfs": [
        "integration/test_lockdown.py::test_the_mounts_are_tmpfs_with_nosuid_nodev_and_noexec",
        "integration/test_lockdown.py::test_the_tmpfs_have_their_sizes",
        "escape/test_filesystem.py::test_the_tmpfs_hold_a_bounded_number_of_files",
    ],
    "ulimits": [
        "integration/test_lockdown.py::test_resource_limits_cannot_be_raised",
        "escape/test_hoarding.py::test_descriptors_run_out_at_their_limit",
    ],
    "network": [
        "escape/test_network.py::test_the_internet_and_the_metadata_service_are_unreachable",
        "integration/test_lockdown.py::test_the_only_interfaces_are_loopback_and_one_that_leads_nowhere",
    ],
    "slot": [
        "escape/test_pool.py::test_a_slot_is_locked_down_like_a_sandbox",
        "escape/test_pool.py::test_a_slots_own_process_has_no_capability_left",
        "integration/test_lockdown.py::test_the_slot_of_a_sandbox_is_alone_on_the_internal_network",
    ],
}


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


class Weakening:
    """Stands between the engine and the lockdown; what it computes is weakened before it is sent and compared."""

    def __init__(self) -> None:
        self.mutant: Mutant | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        original = lockdown.sandbox_config, lockdown.slot_config
        lockdown.sandbox_config = self._around(lockdown.sandbox_config, of_slot=False)
        lockdown.slot_config = self._around(lockdown.slot_config, of_slot=True)
        try:
            yield
        finally:
            lockdown.sandbox_config, lockdown.slot_config = original

    def _around(self, compute: Callable[..., Any], *, of_slot: bool) -> Callable[..., Any]:
        def weakened(*arguments: Any, **options: Any) -> Any:
            config = compute(*arguments, **options)
            applies = self.mutant is not None and self.mutant.of_slot == of_slot
            return self.mutant.applied_to(config) if self.mutant is not None and applies else config

        return weakened


@dataclass(frozen=True, slots=True)
class Place:
    """What the tests' fixtures stand for here: one daemon without warm sandboxes."""

    api: Api
    installation: Installation

    def fixture(self, name: str, directory: Path) -> Any:
        if name in ("api", "cold", "one_by_one"):
            return self.api
        if name in ("installation", "cold_installation", "single"):
            return self.installation
        if name == "tmp_path":
            return directory
        raise LookupError(f"a test wants {name}")


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        installation = Installation.create(Path(directory), **SETTINGS)
        try:
            async with AsyncExitStack() as stack:
                yield Place(await _started(installation, stack), installation)
        finally:
            remove_network(installation.settings.network)


async def _started(installation: Installation, stack: AsyncExitStack) -> Api:
    """One that looks so seldom stays unready if the engine was too busy at its first look; then another is started."""
    for _ in range(STARTS - 1):
        with suppress(Exception):
            return await stack.enter_async_context(installation.run())
    return await stack.enter_async_context(installation.run())


async def mutation(mutants: list[Mutant]) -> MutationReport:
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
        failure = await _failure(test, shared)
        if failure is not None:
            raise RuntimeError(f"{test} fails without any mutant: {failure}")


async def _verdict(weakening: Weakening, mutant: Mutant, shared: Place) -> Verdict:
    if _is_equivalent(mutant):
        return Verdict(mutant.name, Fate.EQUIVALENT)
    async with AsyncExitStack() as stack:
        stack.callback(setattr, weakening, "mutant", None)
        weakening.mutant = mutant
        # A slot lives on in its daemon, so a weakened one gets a daemon of its own.
        try:
            where = await stack.enter_async_context(place()) if mutant.of_slot else shared
            runs = await _runs_a_program(where)
        except Exception:
            runs = False
        if not runs:
            return Verdict(mutant.name, Fate.STILLBORN)
        return await _judged(mutant, where)


async def _judged(mutant: Mutant, where: Place) -> Verdict:
    for test in TESTS[mutant.group]:
        if await _failure(test, where) is not None:
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
    """A path that this kernel does not have needs no mask, and an ABI that it does not have no filter."""
    kind, _, path = mutant.name.partition(" without ")
    if kind in ("MaskedPaths", "ReadonlyPaths"):
        return not Path(path).exists()
    return mutant.name.endswith("SCMP_ARCH_X32") and not _kernel_has_x32()


def _kernel_has_x32() -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(ctypes.c_long(0x40000000 + 39))) >= 0


async def _runs_a_program(where: Place) -> bool:
    status, body = await where.api.post("/execute", {"code": "print(1)", "language": "python", "timeoutSeconds": 20})
    return (status, body.get("output")) == (200, "1\n")


async def _failure(test: str, where: Place) -> BaseException | None:
    function = _function(test)
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        fixtures = {name: where.fixture(name, Path(directory)) for name in inspect.signature(function).parameters}
        try:
            async with asyncio.timeout(TEST_SECONDS):
                await function(**fixtures)
        except _pytest.outcomes.Skipped:
            return None
        except Exception as error:
            return error
    return None


def _function(test: str) -> Callable[..., Awaitable[None]]:
    path, _, name = test.partition(".py::")
    function: Callable[..., Awaitable[None]] = getattr(import_module(f"tests.{path.replace('/', '.')}"), name)
    return function


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, help="only so many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only mutants whose group or name has this")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    report = asyncio.run(mutation(chosen_mutants(options.sample, options.seed, options.only)))
    print(summary(report), *(f"survived: {name}" for name in report.named(Fate.SURVIVED)), sep="\n")
    return 0 if not report.named(Fate.SURVIVED) else 1


if __name__ == "__main__":
    sys.exit(main())
