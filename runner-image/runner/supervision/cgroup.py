"""Reads the sandbox's memory cgroup, in either hierarchy; what cannot be read counts as unknown."""

from __future__ import annotations

ROOT = "/sys/fs/cgroup"


def oom_kills(root: str = ROOT) -> int:
    for name in ("memory.events", "memory/memory.oom_control"):
        for line in _read(f"{root}/{name}").splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdecimal():
                return int(value)
    return 0


def memory_limit_bytes(root: str = ROOT) -> int | None:
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        value = _read(f"{root}/{name}").strip()
        # Version 1 writes "no limit" as the largest multiple of the page size.
        if value.isdecimal() and int(value) < 2**62:
            return int(value)
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
