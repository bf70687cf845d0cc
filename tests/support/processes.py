"""Processes of this machine, found by what they were started with."""

from pathlib import Path


def processes_with(argument: str) -> set[int]:
    """Return those with this argument; one that has ended and is not yet reaped has none."""
    return {int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if argument in _arguments(file)}


def _arguments(file: Path) -> list[str]:
    try:
        return file.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
