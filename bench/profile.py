"""Where the time goes when the daemon is busy: who is on the CPUs, and what the daemon does in its share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from bench import machine
from bench.engine import Engine
from bench.installation import Daemon, installation
from bench.load import OurWorkers, closed_loop
from bench.plan import Plan
from bench.programs import HELLO_PYTHON
from bench.progress import say
from bench.results import Profile, Share

AT_ONCE = 8
SAMPLE_SECONDS = 0.05
MOST_LINES = 10


def measure_profile(engine: Engine, plan: Plan) -> Profile:
    with installation(pool=plan.pool) as daemon:
        workers = OurWorkers(daemon, HELLO_PYTHON)
        closed_loop(workers, AT_ONCE, 0, 1)
        used = machine.process_cpu_seconds(daemon.pid)
        shares, executed = _processes_during(workers, plan.profile_seconds)
        used = machine.process_cpu_seconds(daemon.pid) - used
        functions = _functions_during(daemon, workers, plan.profile_seconds)
        workers.close()
    profile = Profile(
        per_second=executed / plan.profile_seconds,
        daemon_cpu_share=used / plan.profile_seconds,
        processes=shares,
        daemon=functions,
    )
    say("  on the CPUs: " + ", ".join(f"{share.name} {share.share:.0%}" for share in profile.processes[:5]))
    return profile


def _processes_during(workers: OurWorkers, seconds: float) -> tuple[list[Share], int]:
    running, ended = machine.RunningProcesses(), threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            running.sample()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        executed = len(closed_loop(workers, AT_ONCE, 0, seconds).seconds)
    finally:
        ended.set()
        watcher.join()
    return running.shares(), executed


def _functions_during(daemon: Daemon, workers: OurWorkers, seconds: float) -> list[Share]:
    """By py-spy, where it is installed and allowed; the functions in which the daemon's threads were found busy."""
    found = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        return []
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        stacks = Path(directory) / "stacks"
        record = [found, "record", "--pid", str(daemon.pid), "--duration", f"{seconds:.0f}", "--rate", "200"]
        spy = subprocess.Popen(
            [*record, "--format", "raw", "--output", str(stacks)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        closed_loop(workers, AT_ONCE, 0, seconds)
        spy.wait(seconds + 30)
        return _hottest(stacks.read_text()) if stacks.exists() else []


def _hottest(stacks: str) -> list[Share]:
    """Inclusive: a function's share counts everything that it called."""
    inclusive: Counter[str] = Counter()
    total = 0
    for line in stacks.splitlines():
        frames, count = line.rsplit(" ", 1)
        total += int(count)
        for frame in {_short(frame) for frame in frames.split(";") if _is_ours(frame)}:
            inclusive[frame] += int(count)
    return [Share(name=name, share=count / max(1, total)) for name, count in inclusive.most_common(MOST_LINES)]


def _is_ours(frame: str) -> bool:
    return "orchestrator/" in frame


def _short(frame: str) -> str:
    function, place = frame.split(" ", 1)
    return f"{function} ({place.strip('()').rsplit('orchestrator/', 1)[1].rsplit(':', 1)[0]})"
