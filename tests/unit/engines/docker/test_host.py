"""What is told of a kernel and an engine that do not give all that sandboxes could use."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.domain.sandbox import Verdict
from orchestrator.engines.docker.host import host_findings, kernel_setting

GOOD: dict[str, Any] = {
    "SecurityOptions": ["name=seccomp,profile=default", "name=apparmor", "name=userns"],
    "CgroupVersion": "2",
    "MemoryLimit": True,
    "SwapLimit": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "Runtimes": {"runc": {}, "runsc": {}},
}
SETTINGS = {
    "net/core/bpf_jit_limit": "528482304",
    "kernel/unprivileged_bpf_disabled": "2",
    "fs/file-max": "9223372036854775807",
}
MOST_FILES = 8 * 256 * 512


def look(info: dict[str, Any] | None = None, settings: dict[str, str] | None = None) -> dict[str, Any]:
    found = host_findings({**GOOD, **(info or {})}, MOST_FILES, {**SETTINGS, **(settings or {})}.get)
    assert all(finding.fix for finding in found if finding.verdict is not Verdict.OK)
    return {finding.check: finding for finding in found}


def test_a_host_that_gives_everything_has_nothing_to_mend():
    assert {finding.verdict for finding in look().values()} == {Verdict.OK}


@pytest.mark.parametrize(
    ("check", "verdict", "told", "info", "settings"),
    [
        ("limits", Verdict.FAILED, "does not enforce the swap", {"SwapLimit": False}, {}),
        ("limits", Verdict.FAILED, "memory and the swap", {"SwapLimit": False, "MemoryLimit": False}, {}),
        ("cgroups", Verdict.OK, "does not count the memory of network sockets", {"CgroupVersion": "1"}, {}),
        ("seccomp", Verdict.FAILED, "filters no system calls", {"SecurityOptions": []}, {}),
        ("users", Verdict.WARNING, "not remapped", {"SecurityOptions": ["name=seccomp"]}, {}),
        ("users", Verdict.OK, "rootless", {"SecurityOptions": ["name=seccomp", "name=rootless"]}, {}),
        ("mandatory access control", Verdict.WARNING, "neither AppArmor", {"SecurityOptions": ["name=seccomp"]}, {}),
        ("stronger runtimes", Verdict.OK, "no runsc", {"Runtimes": {"runc": {}}}, {}),
        ("memory for filters", Verdict.WARNING, "1 MiB", {}, {"net/core/bpf_jit_limit": str(1024**2)}),
        ("unprivileged BPF", Verdict.WARNING, "on", {}, {"kernel/unprivileged_bpf_disabled": "0"}),
        ("open files", Verdict.WARNING, "at most 2,097,151 files", {}, {"fs/file-max": "2097151"}),
        ("open files", Verdict.WARNING, "may open 1,048,576", {}, {"fs/file-max": "100000"}),
        ("open files", Verdict.OK, "at most 2,097,152 files", {}, {"fs/file-max": "2097152"}),
    ],
)
def test_what_is_missing_is_told_with_what_it_means(check, verdict, told, info, settings):
    finding = look(info, settings)[check]
    assert (finding.verdict, told in finding.detail) == (verdict, True), finding


@pytest.mark.parametrize("check", ["memory for filters", "unprivileged BPF", "open files"])
def test_what_cannot_be_seen_from_a_container_is_said_not_guessed(check):
    found = {finding.check: finding for finding in host_findings(GOOD, MOST_FILES, lambda name: None)}
    assert (found[check].verdict, "not visible from here" in found[check].detail) == (Verdict.OK, True)


def test_a_setting_of_the_kernel_is_read_or_not_visible():
    assert kernel_setting("kernel/ostype") == "Linux"
    assert kernel_setting("kernel/no_such_setting") is None
