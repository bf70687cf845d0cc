"""Handles signals by the C module beneath `signal`, which would load enum and more at every start."""

from __future__ import annotations

import os
from _signal import (  # type: ignore[import-not-found]
    SIG_IGN,
    SIGBUS,
    SIGCHLD,
    SIGFPE,
    SIGILL,
    SIGKILL,
    SIGSEGV,
    SIGSTOP,
    set_wakeup_fd,
    signal,
    valid_signals,
)

CHILD_ENDED: int = SIGCHLD
KILL: int = SIGKILL

# SIGCHLD stays: ignoring it would make the kernel reap children and throw their exit status away.
_LEFT_ALONE = {SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL}
IGNORED: frozenset[int] = frozenset(valid_signals()) - _LEFT_ALONE


def ignore() -> None:
    for number in IGNORED:
        signal(number, SIG_IGN)


def wakeup_on_child_exit() -> int:
    """Return a descriptor that becomes readable when a child has ended."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal(SIGCHLD, lambda number, frame: None)
    set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end
