"""The security page: everything the engine is told about a sandbox, and the check that it obeyed.

Pure functions. `sandbox_config` computes the engine's create request; `differences` compares it with what the engine
says it made, and a sandbox with any difference is never started.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from orchestrator.domain.execution import Limits
from orchestrator.domain.sandbox import GATEWAY_PORT, SandboxSpec

LABEL = "mcp-code-executor"
LABEL_OWNER = f"{LABEL}.owner"
LABEL_EPOCH = f"{LABEL}.epoch"
LABEL_EXECUTION = f"{LABEL}.execution"
LABEL_DEADLINE = f"{LABEL}.deadline"

USER = "1000:1000"
ENVIRONMENT = ("PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8")
PYTHON = ("/usr/bin/python3", "-I", "-S", "-B")
SUPERVISOR = "/opt/runner/supervisor.py"
SLOT_KEEPER = "/opt/runner/slot.py"
SLOT_MEMORY_BYTES = 64 * 1024 * 1024
SLOT_PROCESSES = 8

# The engine replaces its own lists by ours, so both begin with the engine's defaults.
MASKED_PATHS = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    # and beyond the defaults: what describes the host or its kernel
    "/proc/buddyinfo",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kallsyms",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/modules",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/slabinfo",
    "/proc/swaps",
    "/proc/vmallocinfo",
    "/proc/zoneinfo",
    "/sys/block",
    "/sys/bus",
    "/sys/class/dmi",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class Kind(StrEnum):
    SANDBOX = "sandbox"
    SLOT = "slot"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose container it is: this installation, and this start of the daemon."""

    owner: str
    epoch: str

    def labels(self, kind: Kind, execution_id: str, deadline: float) -> dict[str, str]:
        return {
            LABEL: kind.value,
            LABEL_OWNER: self.owner,
            LABEL_EPOCH: self.epoch,
            LABEL_EXECUTION: execution_id,
            LABEL_DEADLINE: f"{deadline:.0f}",
        }


@dataclass(frozen=True, slots=True)
class Confinement:
    image: str
    network: str
    seccomp_profile: str
    runtime: str


def sandbox_config(
    spec: SandboxSpec, slot_id: str, confinement: Confinement, identity: Identity, deadline: float
) -> dict[str, Any]:
    lifetime = f"{spec.lifetime_seconds:.0f}"
    return {
        **_attached_process(confinement.image, [*PYTHON, SUPERVISOR, spec.recipe.language.value, lifetime], USER),
        "Labels": identity.labels(Kind.SANDBOX, spec.execution_id, deadline),
        "HostConfig": {
            **_isolation(confinement),
            **_resources(spec.limits),
            "NetworkMode": f"container:{slot_id}",
            "Tmpfs": _tmpfs(spec.limits),
        },
    }


def slot_config(confinement: Confinement, identity: Identity) -> dict[str, Any]:
    """Compute the request for a slot, which runs only our own program: that closes the network, then drops its
    one capability."""
    return {
        **_attached_process(confinement.image, [*PYTHON, SLOT_KEEPER, str(GATEWAY_PORT)], "0:0"),
        "Hostname": "sandbox",
        "Labels": identity.labels(Kind.SLOT, "", 0),
        "HostConfig": {
            **_isolation(replace(confinement, seccomp_profile=_with_capset(confinement.seccomp_profile))),
            "CapAdd": ["NET_ADMIN"],
            "Memory": SLOT_MEMORY_BYTES,
            "MemorySwap": SLOT_MEMORY_BYTES,
            "PidsLimit": SLOT_PROCESSES,
            "NetworkMode": confinement.network,
            "Dns": ["127.0.0.1"],
            "DnsSearch": ["."],
        },
    }


def differences(config: Mapping[str, Any], inspected: Mapping[str, Any]) -> list[str]:
    """Return where the engine did not do as it was asked; empty when the lockdown stands."""
    found = list(_differing("HostConfig", config["HostConfig"], inspected["HostConfig"]))
    asked = {key: value for key, value in config.items() if key not in ("HostConfig", "Labels")}
    found += _differing("Config", asked, inspected["Config"])
    found += _differing("Labels", config["Labels"], inspected["Config"]["Labels"])  # the image's labels join ours
    if inspected.get("Mounts"):
        found.append(f"Mounts: expected none, got {inspected['Mounts']!r}")
    return found


def _with_capset(seccomp_profile: str) -> str:
    """Allow the one system call that a slot needs to drop its capability; a sandbox has none to drop."""
    profile = json.loads(seccomp_profile)
    profile["syscalls"].append({"names": ["capset"], "action": "SCMP_ACT_ALLOW"})
    return json.dumps(profile)


def _attached_process(image: str, command: list[str], user: str) -> dict[str, Any]:
    return {
        "Image": image,
        "Entrypoint": command,
        "Cmd": None,
        "User": user,
        "WorkingDir": "/workspace",
        "Env": list(ENVIRONMENT),
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,  # the leash: when the daemon's attachment ends, so does stdin, and so the supervisor
        "Tty": False,
        "Volumes": None,
        "ExposedPorts": None,
    }


def _isolation(confinement: Confinement) -> dict[str, Any]:
    return {
        "AutoRemove": True,
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "CapAdd": None,
        "Privileged": False,
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={confinement.seccomp_profile}"],
        "MaskedPaths": list(MASKED_PATHS),
        "ReadonlyPaths": list(READONLY_PATHS),
        "IpcMode": "none",
        "PidMode": "",
        "UTSMode": "",
        "UsernsMode": "",
        "CgroupnsMode": "private",
        "CgroupParent": "",
        "Runtime": confinement.runtime,
        "Init": False,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "Ulimits": [],
        "OomKillDisable": False,
        "Binds": None,
        "Mounts": None,
        "VolumesFrom": None,
        "VolumeDriver": "",
        "Devices": None,
        "DeviceCgroupRules": None,
        "DeviceRequests": None,
        "GroupAdd": None,
        "Links": None,
        "Sysctls": None,
        "PortBindings": None,
        "PublishAllPorts": False,
    }


def _resources(limits: Limits) -> dict[str, Any]:
    return {
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # memory and swap together: equal means no swap
        "NanoCpus": int(limits.cpus * 1_000_000_000),
        "PidsLimit": limits.max_processes,
        "OomScoreAdj": 500,  # under pressure the host gives up sandboxes before its own services
        "Ulimits": [
            _ulimit("core", 0),
            _ulimit("fsize", limits.workspace_bytes),
            _ulimit("memlock", 0),
            _ulimit("msgqueue", 0),
            _ulimit("nofile", 1024),
        ],
    }


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def _tmpfs(limits: Limits) -> dict[str, str]:
    def options(size: int, mode: str) -> str:
        inodes = max(1024, size // 4096)
        return f"rw,nosuid,nodev,noexec,size={size},nr_inodes={inodes},uid=1000,gid=1000,mode={mode}"

    return {
        "/workspace": options(limits.workspace_bytes, "0755"),
        "/tmp": options(limits.scratch_bytes, "1777"),  # noqa: S108  (inside the sandbox)
        "/tmp/executions": options(limits.scratch_bytes, "0700"),  # noqa: S108
    }


def _differing(where: str, asked: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
    for key, value in asked.items():
        if _plain(value) != _plain(made.get(key)):
            yield f"{where}.{key}: asked for {_short(value)}, the engine made {_short(made.get(key))}"


def _plain(value: Any) -> Any:
    """Make all empty values alike: which of null, false, 0, "", [] and {} the engine writes depends on its version."""
    return value if value not in (None, False, "", [], {}, 0) else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
