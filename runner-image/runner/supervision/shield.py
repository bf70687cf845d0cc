"""Keeps the program from touching the supervisor, although both have the same uid."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

# SIGCHLD stays: ignoring it would make the kernel reap children and throw their exit status away.
_LEFT_ALONE = frozenset(
    (
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGCHLD,
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
    )
)
IGNORED_SIGNALS = signal.valid_signals() - _LEFT_ALONE


def raise_shield() -> None:
    """A process that is not dumpable has its /proc entries owned by root and cannot be traced."""
    _prctl(_PR_SET_DUMPABLE, 0)
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def adopt_orphans() -> None:
    """PID 1 gets them anyway; any other process has to ask."""
    if os.getpid() != 1:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")
