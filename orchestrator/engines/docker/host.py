"""What this kernel and engine do not give, and what that means for sandboxes. From the engine's own description, and
from the few settings of the kernel that are visible from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.domain.sandbox import Finding, Verdict

_STRONGER_RUNTIMES = ("runsc", "kata", "kata-runtime", "io.containerd.runsc.v1", "io.containerd.kata.v2")
# Each limit that lockdown.py sets, by the engine's word for being able to enforce it.
_LIMITS = {
    "MemoryLimit": "memory",
    "SwapLimit": "swap",
    "CpuCfsQuota": "CPU",
    "PidsLimit": "number of processes",
}


# What the filters of a few hundred sandboxes may take, several times over.
_LEAST_JIT_BYTES = 32 * 1024 * 1024
# Of the files that the host may have open, programs leave at least half to everything else.
_FILES_FOR_EACH = 2

ReadSetting = Callable[[str], str | None]


def kernel_setting(name: str) -> str | None:
    """Return a setting below /proc/sys; None if it is not visible from here."""
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return None


def host_findings(info: Mapping[str, Any], most_files: int, setting: ReadSetting = kernel_setting) -> Sequence[Finding]:
    """Return what was found; `most_files` is how many files all programs that run at once can open together."""
    options = " ".join(info.get("SecurityOptions") or ())
    return [
        _limits(info),
        _cgroups(info),
        _seccomp(options),
        _filters(setting("net/core/bpf_jit_limit")),
        _unprivileged_bpf(setting("kernel/unprivileged_bpf_disabled")),
        _open_files(setting("fs/file-max"), most_files),
        _users(options),
        _mandatory_access(options),
        _runtimes(info),
    ]


def _limits(info: Mapping[str, Any]) -> Finding:
    missing = [what for flag, what in _LIMITS.items() if not info.get(flag, True)]
    if not missing:
        return Finding("limits", Verdict.OK, "memory, swap, CPU and processes are enforced")
    fix = "Enable the controllers in the kernel (on Debian: cgroup_enable=memory swapaccount=1 on its command line)."
    return Finding("limits", Verdict.FAILED, f"the kernel does not enforce the {' and the '.join(missing)}", fix)


def _cgroups(info: Mapping[str, Any]) -> Finding:
    if str(info.get("CgroupVersion", "1")) == "2":
        return Finding("cgroups", Verdict.OK, "version 2")
    meaning = "version 1: it does not count the memory of network sockets; sandboxes have none"
    return Finding("cgroups", Verdict.OK, meaning)


def _seccomp(options: str) -> Finding:
    if "name=seccomp" in options:
        return Finding("seccomp", Verdict.OK, "the engine filters system calls")
    fix = "Use a kernel with CONFIG_SECCOMP_FILTER and an engine that was built with seccomp."
    return Finding("seccomp", Verdict.FAILED, "the engine filters no system calls, so no sandbox can be made", fix)


def _filters(limit: str | None) -> Finding:
    check = "memory for filters"
    if limit is None or not limit.isdecimal():
        meaning = "net.core.bpf_jit_limit is not visible from here, only in the host's network namespace"
        return Finding(check, Verdict.OK, meaning)
    detail = f"{int(limit) // 1024**2} MiB for the filters of all sandboxes (net.core.bpf_jit_limit)"
    if int(limit) >= _LEAST_JIT_BYTES:
        return Finding(check, Verdict.OK, f"{detail}; programs can install none of their own")
    fix = f"Raise it: sysctl net.core.bpf_jit_limit={8 * _LEAST_JIT_BYTES}."
    return Finding(check, Verdict.WARNING, f"{detail}: when others use it up, no sandbox starts", fix)


def _unprivileged_bpf(disabled: str | None) -> Finding:
    check = "unprivileged BPF"
    if disabled is None:
        return Finding(check, Verdict.OK, "kernel.unprivileged_bpf_disabled is not visible from here")
    if disabled != "0":
        return Finding(check, Verdict.OK, "off")
    meaning = "on: the filter of system calls alone keeps programs from it"
    return Finding(check, Verdict.WARNING, meaning, "Turn it off: sysctl kernel.unprivileged_bpf_disabled=1.")


def _open_files(limit: str | None, most_files: int) -> Finding:
    check = "open files"
    if limit is None or not limit.isdecimal():
        return Finding(check, Verdict.OK, "fs.file-max is not visible from here")
    detail = f"the host may open at most {int(limit):,} files (fs.file-max), of which programs may open {most_files:,}"
    needed = _FILES_FOR_EACH * most_files
    if int(limit) >= needed:
        return Finding(check, Verdict.OK, detail)
    fix = f"Raise it: sysctl fs.file-max={needed}. Or lower CODE_EXECUTOR_MAX_RUNNING or CODE_EXECUTOR_MAX_PROCESSES."
    return Finding(check, Verdict.WARNING, f"{detail}: together they could leave too few to everything else", fix)


def _users(options: str) -> Finding:
    if "name=rootless" in options:
        return Finding("users", Verdict.OK, "the engine is rootless: a sandbox is an unprivileged user of the host")
    if "name=userns" in options:
        return Finding("users", Verdict.OK, "remapped: not even root in a container is root on the host")
    meaning = (
        "not remapped: each sandbox has a user id of its own, but root in a container would be root on the host; "
        "programs are never root"
    )
    fix = "For one more wall set userns-remap in the engine's daemon.json, or run the engine rootless."
    return Finding("users", Verdict.WARNING, meaning, fix)


def _mandatory_access(options: str) -> Finding:
    if active := [name for name in ("apparmor", "selinux") if f"name={name}" in options]:
        return Finding("mandatory access control", Verdict.OK, active[0])
    meaning = "neither AppArmor nor SELinux: seccomp, capabilities and namespaces stand alone"
    fix = "Install and enable AppArmor on the host if its kernel has it; the engine then uses it by itself."
    return Finding("mandatory access control", Verdict.WARNING, meaning, fix)


def _runtimes(info: Mapping[str, Any]) -> Finding:
    found = sorted(set(_STRONGER_RUNTIMES) & set(info.get("Runtimes") or ()))
    if found:
        detail = f"{', '.join(found)} can be chosen with CODE_EXECUTOR_RUNTIME"
        return Finding("stronger runtimes", Verdict.OK, detail)
    return Finding("stronger runtimes", Verdict.OK, "none: programs share the host's kernel (no runsc, no kata)")
