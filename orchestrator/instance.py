"""The name of an installation, by which it tells its own from others', and the directory that it keeps its data in."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import structlog

log = structlog.get_logger()

PRIVATE = 0o700
# What the daemon itself keeps there. A directory that holds something else is not its own to lock.
OWN_FILES = ("instance-id", "journal.")


def instance_id(file: Path, known: str | None = None) -> str:
    """Return the name that the file holds; write the one that is known, or make one, if there is no file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(known or secrets.token_hex(8))
        fresh.replace(file)
    return file.read_text().strip()


def lock_data_directory(directory: Path) -> None:
    """Make the directory, for nobody else; lock one that others may enter, unless it serves for something else, too."""
    directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    if exposed(directory):
        try:
            if directory.stat().st_uid == os.geteuid() and not list(foreign_files(directory)):
                directory.chmod(PRIVATE)
        except OSError as error:
            log.warning("data_directory.not_locked", directory=str(directory), error=str(error))
    if exposed(directory):
        log.warning("data_directory.open_to_others", directory=str(directory), fix=f"chmod 700 {directory}")


def exposed(directory: Path) -> bool:
    """Return whether others than its owner may enter or read the directory."""
    return bool(directory.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def foreign_files(directory: Path) -> Iterator[str]:
    return (name for name in os.listdir(directory) if not name.startswith(OWN_FILES))
