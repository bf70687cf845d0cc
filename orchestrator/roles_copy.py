"""Keeps a copy of the role file where the daemon sees it: roles_copy.py [--check] SOURCE COPY; --check only compares.

The file lies in the project's directory. Whoever replaces it there, as editors do, gives its name to another file: a
mount of the file alone would go on showing the old one, and a mount of the directory would show the daemon the keys. So
this runs in a container of its own, which sees the directory and has no network, and hands on the one file.

It has no dependencies, because it is started without any, and it looks instead of being told, because file systems of
virtual machines do not tell.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from pathlib import Path

EVERY_SECONDS = 0.25
# One more than the daemon takes, which then says that it is too large.
MAX_BYTES = 1024 * 1024 + 1
EVERYBODY_READS = 0o644

State = tuple[int, int, int, int] | None  # inode, time of change, size and mode; None for a file that is not there


def main(arguments: list[str]) -> int:
    source, copy = map(Path, arguments[-2:])
    if arguments[0] == "--check":
        return 0 if content_of(source) == content_of(copy) else 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    handed_on: State | str = "nothing yet"
    while True:
        state = state_of(source)
        if state != handed_on:
            try:
                hand_on(content_of(source), copy)
                handed_on = state
            except OSError as error:
                say(f"The copy cannot be written and is tried again ({error.strerror}).")
        time.sleep(EVERY_SECONDS)


def hand_on(content: bytes | None, copy: Path) -> None:
    """Replace the copy at once and whole; a file that is gone, or cannot be read, leaves none."""
    if content is None:
        copy.unlink(missing_ok=True)
        return
    fresh = copy.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.chmod(EVERYBODY_READS)
    fresh.replace(copy)


def content_of(file: Path) -> bytes | None:
    """Return what the file holds; neither a pipe without a writer nor an endless device keeps us."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        say(f"{file} cannot be read ({error.strerror}).")
        return None
    with open(descriptor, "rb") as opened:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return opened.read(MAX_BYTES)
    say(f"{file} is not a regular file.")
    return None


def state_of(file: Path) -> State:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


def say(message: str) -> None:
    sys.stderr.write(f"{message}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
