"""Ends and reaps everything that the program started."""

from __future__ import annotations

import os
from _collections_abc import Callable, Iterator

from supervision import signals

Killer = Callable[[], None]


def killer() -> Killer:
    return kill_namespace if os.getpid() == 1 else kill_descendants


def kill_namespace() -> None:
    """Kill every other process of our PID namespace at once, which is what -1 means in PID 1."""
    try:
        os.kill(-1, signals.KILL)
    except ProcessLookupError:
        return


def kill_descendants() -> None:
    """Kill our descendants one by one: outside a namespace of our own, -1 would mean the whole machine."""
    for pid in _descendants(os.getpid()):
        try:
            os.kill(pid, signals.KILL)
        except ProcessLookupError:
            continue


def reap() -> Iterator[tuple[int, int]]:
    """Yield (pid, wait status) of the children that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def any_child_left() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _descendants(root: int) -> list[int]:
    parents = dict(_parents())
    found = [root]
    for ancestor in found:
        found += [pid for pid, parent in parents.items() if parent == ancestor]
    return found[1:]


def _parents() -> Iterator[tuple[int, int]]:
    """Yield (pid, pid of its parent) of every process that can be seen."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue  # it has ended meanwhile
        # The command name, in parentheses, may itself hold spaces and parentheses.
        yield int(name), int(stat.rpartition(b")")[2].split()[1])
