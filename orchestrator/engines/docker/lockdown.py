"""The security page: everything the engine is told about a sandbox, and the check that it obeyed.

Pure functions. `sandbox_config` computes the engine's create request; `differences` compares it with what the engine
says it made, and a sandbox with any difference is never started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.execution import Language
from orchestrator.domain.sandbox import GATEWAY

LABEL = "mcp-code-executor"
LABEL_OWNER = f"{LABEL}.owner"
LABEL_EPOCH = f"{LABEL}.epoch"
LABEL_EXECUTION = f"{LABEL}.execution"
LABEL_DEADLINE = f"{LABEL}.deadline"
SANDBOX = "sandbox"

ENVIRONMENT = ("PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8")
PYTHON = ("/usr/bin/python3", "-I", "-S", "-B")
SUPERVISOR = "/opt/runner/supervisor.py"
# The kernel counts much by user: watches, pipe pages, pending signals, descriptors in flight. Each sandbox is therefore
# a user of its own, of numbers that nobody else has: between those of containers of systemd and the end of the range.
# Its group has the same number, for the 1000 of most images is often a person's own group on the host.
USERS = range(1_900_000_000, 1_900_000_000 + 2**20)
# In a user namespace there are 65,536 numbers, each of which is another one outside.
USERS_OF_A_NAMESPACE = range(2_000, 60_000)
# Open at once, by each process. What the host may have open in all is shared by everybody.
MAX_FILES = 512

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
    # and beyond the defaults: what describes the host, its kernel, or what others use of it
    "/proc/buddyinfo",
    "/proc/cgroups",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kallsyms",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/locks",
    "/proc/misc",
    "/proc/modules",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/schedstat",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/swaps",
    "/proc/sys",
    "/proc/sysvipc",
    "/proc/vmallocinfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
    # all of /sys but the sandbox's own cgroup: what is hidden in one directory is often found again in another
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/fs/bpf",
    "/sys/fs/btrfs",
    "/sys/fs/erofs",
    "/sys/fs/ext4",
    "/sys/fs/f2fs",
    "/sys/fs/fuse",
    "/sys/fs/pstore",
    "/sys/fs/resctrl",
    "/sys/fs/selinux",
    "/sys/fs/smackfs",
    "/sys/fs/tmpfs",
    "/sys/fs/xfs",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
    # the host has a few thousand terminals in all; /dev/ptmx leads in here
    "/dev/pts",
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True)
class Confinement:
    image: str
    seccomp_profile: str
    runtime: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose container it is: which installation's, of which start of the daemon, for which execution, until when."""

    owner: str
    epoch: str
    execution_id: str
    deadline: float

    @property
    def labels(self) -> dict[str, str]:
        return {
            LABEL: SANDBOX,
            LABEL_OWNER: self.owner,
            LABEL_EPOCH: self.epoch,
            LABEL_EXECUTION: self.execution_id,
            LABEL_DEADLINE: f"{self.deadline:.0f}",
        }


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of the machine a sandbox may take."""

    memory_bytes: int
    cpus: float
    max_processes: int
    workspace_bytes: int
    scratch_bytes: int

    @property
    def max_files(self) -> int:
        """Return how many files all processes of a sandbox can have open together."""
        return self.max_processes * MAX_FILES


def sandbox_config(
    language: Language, lifetime_seconds: float, user: int, bounds: Bounds, confinement: Confinement, identity: Identity
) -> dict[str, Any]:
    command = [*PYTHON, SUPERVISOR, language.value, f"{lifetime_seconds:.0f}", GATEWAY]
    return {
        **_attached_process(confinement.image, command, f"{user}:{user}"),
        **_no_network(),
        "Labels": identity.labels,
        "HostConfig": {
            **_isolation(confinement),
            **_resources(bounds),
            "NetworkMode": "none",
            "Tmpfs": _tmpfs(user, bounds),
        },
    }


def _no_network() -> dict[str, Any]:
    """Keep the engine out of the network namespace, which the runtime then makes anew for each sandbox: what was never
    there cannot come up. A namespace of the engine's network "none" would double the time of a start."""
    return {"NetworkDisabled": True, "Hostname": "sandbox"}


def differences(config: Mapping[str, Any], inspected: Mapping[str, Any]) -> list[str]:
    """Return where the engine did not do as it was asked; empty when the lockdown stands."""
    found = list(_differing("HostConfig", config["HostConfig"], inspected["HostConfig"]))
    asked = {key: value for key, value in config.items() if key not in ("HostConfig", "Labels")}
    found += _differing("Config", asked, inspected["Config"])
    found += _differing("Labels", config["Labels"], inspected["Config"]["Labels"])  # the image's labels join ours
    if inspected.get("Mounts"):
        found.append(f"Mounts: expected none, got {inspected['Mounts']!r}")
    return found


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


def _resources(bounds: Bounds) -> dict[str, Any]:
    return {
        "Memory": bounds.memory_bytes,
        "MemorySwap": bounds.memory_bytes,  # memory and swap together: equal means no swap
        "NanoCpus": int(bounds.cpus * 1_000_000_000),
        "PidsLimit": bounds.max_processes,
        "OomScoreAdj": 500,  # under pressure the host gives up sandboxes before its own services
        "Ulimits": [
            _ulimit("core", 0),
            _ulimit("fsize", bounds.workspace_bytes),
            _ulimit("memlock", 0),
            _ulimit("msgqueue", 0),
            _ulimit("nofile", MAX_FILES),
            _ulimit("sigpending", 4096),
        ],
    }


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def _tmpfs(user: int, bounds: Bounds) -> dict[str, str]:
    def options(size: int, mode: str) -> str:
        inodes = max(1024, size // 4096)
        return f"rw,nosuid,nodev,noexec,size={size},nr_inodes={inodes},uid={user},gid={user},mode={mode}"

    return {
        "/workspace": options(bounds.workspace_bytes, "0755"),
        "/tmp": options(bounds.scratch_bytes, "1777"),  # noqa: S108  (inside the sandbox)
        "/tmp/executions": options(bounds.scratch_bytes, "0700"),  # noqa: S108
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
