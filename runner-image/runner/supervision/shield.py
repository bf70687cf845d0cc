"""Keeps the program from touching the supervisor, although both have the same uid."""

from __future__ import annotations

# The C module beneath ctypes: all that a call with whole numbers needs, without what ctypes loads at every start.
import _ctypes
import os

from supervision import signals

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def step_back_from_oom_killer() -> None:
    """Go as low as a process without rights may; only before the shield, which makes root the owner of the file."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("0")
    except OSError:
        return  # the engine set a floor above it, which then holds for the program too


def raise_shield() -> None:
    """Make us undumpable, so that root owns our /proc entries and nobody can trace us, and ignore signals."""
    _prctl(_PR_SET_DUMPABLE, 0)
    signals.ignore()


def adopt_orphans() -> None:
    """Become the parent of orphans, as PID 1 is anyway and any other process has to ask."""
    if os.getpid() != 1:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    address = _ctypes.dlsym(_ctypes.dlopen("libc.so.6", os.RTLD_NOW), "prctl")
    if _ctypes.call_cdeclfunction(address, (option, value, 0, 0, 0)) != 0:
        raise OSError(f"prctl({option}, {value}) failed")
