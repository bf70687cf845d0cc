"""The machine under test: its CPU counters, who else uses them, and what it is."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from bench.paths import NODE, RUNNER_IMAGE
from bench.results import Machine, Share

QUIET_SECONDS = 0.04
# More than this much of a core used by others, while no contestant runs, spoils a round.
MOST_BACKGROUND_CORES = 0.15
CGROUP_V1 = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")
CGROUP_V2 = Path("/sys/fs/cgroup/cpu.stat")
RUNNER = "/opt/runner/"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_source() -> str:
    if CGROUP_V1.exists():
        return "root cgroup (cpuacct.usage)"
    return "root cgroup (cpu.stat)" if CGROUP_V2.exists() else "/proc/stat"


def cpu_seconds() -> float:
    """CPU time of everything on this machine: also of what lives too briefly to be asked itself."""
    if CGROUP_V1.exists():
        return int(CGROUP_V1.read_text()) / 1e9
    if CGROUP_V2.exists():
        return int(CGROUP_V2.read_text().split()[1]) / 1e6
    user, nice, system, _, _, irq, soft_irq, *_ = (int(ticks) for ticks in _stat_line())
    return (user + nice + system + irq + soft_irq) / TICKS


def _stat_line() -> list[str]:
    return Path("/proc/stat").read_text().splitlines()[0].split()[1:]


def background_cores(seconds: float = QUIET_SECONDS) -> float:
    """How many cores others use right now; called while no contestant has anything to do."""
    used, began = cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds() - used) / (time.monotonic() - began)


class RunningProcesses:
    """Counts by name which processes are on a CPU, sampled; short-lived ones included."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def sample(self) -> None:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            name, state = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2]
            if state == "R" and int(stat.parent.name) != os.getpid():
                self._seen[_readable(name, stat.parent)] += 1

    def shares(self) -> list[Share]:
        total = sum(self._seen.values()) or 1
        return [Share(name=name, share=count / total) for name, count in self._seen.most_common(8)]


def _readable(name: str, process: Path) -> str:
    if not name.startswith(("python", "node", "MainThread", "exe")):
        return name.split(":")[0].split("/")[0]
    try:
        words = (process / "cmdline").read_text().replace("\0", " ").split()
    except OSError:
        return name
    if "orchestrator" in words:
        return "our daemon"
    return next((word.removeprefix(RUNNER) for word in words if word.startswith(RUNNER)), name)


def process_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS:") / 1024


def proportional_mb(pid: int) -> float:
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") / 1024


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def cgroup_memory_mb(pid: int) -> float:
    """What the cgroup of a process is charged, without the page cache that the kernel would give up first."""
    directory, usage, inactive = _memory_cgroup(pid)
    stat = dict(line.split() for line in (directory / "memory.stat").read_text().splitlines())
    return (int((directory / usage).read_text()) - int(stat[inactive])) / 2**20


def cgroup_cpu_ms(pid: int) -> float:
    """CPU time that the cgroup of a process has used so far."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "cpuacct" in controllers.split(","):
            return int(Path(f"/sys/fs/cgroup/cpuacct{path}/cpuacct.usage").read_text()) / 1e6
    return int(Path(f"/sys/fs/cgroup{lines[0][2]}/cpu.stat").read_text().split()[1]) / 1e3


def _memory_cgroup(pid: int) -> tuple[Path, str, str]:
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory" + path), "memory.usage_in_bytes", "total_inactive_file"
    return Path("/sys/fs/cgroup" + lines[0][2]), "memory.current", "inactive_file"


def _kilobytes(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(f"{file} has no {name}")


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def describe() -> Machine:
    return Machine(
        date=today(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gb=_kilobytes(Path("/proc/meminfo"), "MemTotal:") / 2**20,
        system=platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"),
        kernel=platform.release(),
        engine="Docker " + _said_by("docker", "version", "--format", "{{.Server.Version}}"),
        runner_node=_said_by("docker", "run", "--rm", "--entrypoint", "node", RUNNER_IMAGE, "--version")
        or _said_by(str(NODE), "--version"),
        python=platform.python_version(),
        cpu_source=cpu_source(),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _said_by(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
