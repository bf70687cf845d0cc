"""Starts the one program process in advance; it waits for its program on the control pipe."""

from __future__ import annotations

import fcntl
import os
import time

from supervision import signals

# Numbers that both runtimes know.
_CONTROL_FD = 3
_READY_FD = 4
_FIRST_FREE_FD = 10

# With the program at a lower priority a fork bomb cannot keep the supervisor from the CPU. It has to lower itself:
# the seccomp profile lets nobody touch another process's priority.
_AT_LOW_PRIORITY = ["/usr/bin/nice", "-n", "10"]
# The check takes what the program leaves, which is almost everything while it waits for its first tool call.
_AT_LOWEST_PRIORITY = ["/usr/bin/nice", "-n", "19"]
_OOM_SCORE_ADJUSTMENT = 1000
_MOST_OFFERS = 1000

# Matplotlib looks for its list of fonts in a directory that it can write to; the list itself is in the image.
_FONT_LISTS = "/opt/matplotlib"
_MATPLOTLIB = "/tmp/.matplotlib"  # noqa: S108 - a tmpfs of this sandbox alone


class Program:
    """The supervisor's view of the process: its pid and our non-blocking ends of its pipes."""

    __slots__ = ("control", "pid", "ready", "stderr", "stdout")

    def __init__(self, pid: int, control: int, ready: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.control = control
        self.ready = ready
        self.stdout = stdout
        self.stderr = stderr
        for fd in (control, ready, stdout, stderr):
            os.set_blocking(fd, False)

    def cpu_seconds(self) -> float:
        # The kernel's encoding of "CPU clock of process pid", as clock_getcpuclockid() computes it.
        try:
            return time.clock_gettime((~self.pid << 3) | 2)
        except OSError:
            return 0.0


def start(command: list[str], workspace: str) -> Program:
    """Start the language runtime, with pipes for its output, for orders to it and for its own messages."""
    control_end, control = _pipe()
    ready, ready_end = _pipe()
    stdout, stdout_end = _pipe()
    stderr, stderr_end = _pipe()
    _link_font_lists()
    targets = {1: stdout_end, 2: stderr_end, _CONTROL_FD: control_end, _READY_FD: ready_end}
    pid = _spawn([*_AT_LOW_PRIORITY, *command], workspace, targets)
    for fd in targets.values():
        os.close(fd)
    _offer_to_oom_killer(pid)
    return Program(pid, control, ready, stdout, stderr)


def start_checker(command: list[str], workspace: str) -> tuple[int, int]:
    """Start the check of a program; return its pid and our end of the pipe that carries its verdict."""
    verdict, verdict_end = _pipe()
    pid = _spawn([*_AT_LOWEST_PRIORITY, *command], workspace, {1: verdict_end})
    os.close(verdict_end)
    os.set_blocking(verdict, False)
    _offer_to_oom_killer(pid)
    return pid, verdict


def _pipe() -> tuple[int, int]:
    """Make a pipe whose ends close on exec and lie above the numbers that the program's ends are moved to."""
    low_ends = os.pipe()
    read_end, write_end = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in low_ends)
    for fd in low_ends:
        os.close(fd)
    return read_end, write_end


def _spawn(command: list[str], workspace: str, targets: dict[int, int]) -> int:
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]]
    actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3) if fd not in targets]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for target, source in targets.items()]
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": workspace,
        # The user id is this sandbox's alone, so no file names it.
        "USER": "runner",
        "LOGNAME": "runner",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - a tmpfs of this sandbox alone
        "MPLBACKEND": "agg",
        "MPLCONFIGDIR": _MATPLOTLIB,
        # One thread for each of the host's CPUs would only get in each other's way, and count as processes.
        "OPENBLAS_NUM_THREADS": "1",
    }
    return os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=actions,
        setsid=True,
        setsigmask=[],
        setsigdef=[*signals.IGNORED, signals.CHILD_ENDED],
    )


def _link_font_lists() -> None:
    try:
        names = os.listdir(_FONT_LISTS)
        os.mkdir(_MATPLOTLIB)
        for name in names:
            os.symlink(f"{_FONT_LISTS}/{name}", f"{_MATPLOTLIB}/{name}")
    except OSError:
        # An image without packages; or no room, then matplotlib makes a list of its own.
        return


def _offer_to_oom_killer(pid: int) -> None:
    for _ in range(_MOST_OFFERS):
        try:
            with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
                file.write(str(_OOM_SCORE_ADJUSTMENT))
        except PermissionError:
            # We are back in the middle of its exec: for a moment it is as undumpable as we are, its files are root's.
            time.sleep(0.001)
        except OSError:
            # It has already died, which reaping will show.
            return
        else:
            return
