"""Remembers what was brought, so that a file that is as it was need not be sent back."""

from __future__ import annotations

import os
from binascii import crc32

from supervision.orders import WORKSPACE_FILES


class Content:
    """What a file was like when it was brought.

    Whatever changes a file changes its time, which no program can set, or else goes through a mapping: in a tmpfs
    what is written to a page that was read before changes no time. For that there is the sum.
    """

    __slots__ = ("changed_at", "inode", "size", "sum")

    def __init__(self) -> None:
        self.inode = 0
        self.changed_at = 0
        self.size = 0
        self.sum = 0

    def add(self, data: memoryview, status: os.stat_result) -> None:
        self.sum = crc32(data, self.sum)
        self.inode, self.changed_at, self.size = status.st_ino, status.st_ctime_ns, status.st_size

    def may_be(self, status: os.stat_result) -> bool:
        return (self.inode, self.changed_at, self.size) == (status.st_ino, status.st_ctime_ns, status.st_size)


class Brought:
    """The files that were brought: which there are, and what those were like that are handed over again."""

    __slots__ = ("_begun", "_contents")

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._contents: dict[bytes, Content] = {}

    def begins(self, path: str) -> bool:
        """Tell whether nothing of a file was brought so far."""
        return path not in self._begun

    def note(self, path: str, data: memoryview, status: os.stat_result) -> None:
        self._begun.add(path)
        if path.startswith(WORKSPACE_FILES + "/"):
            self._contents.setdefault(path.encode(), Content()).add(data, status)

    def find(self, path: bytes) -> Content | None:
        return self._contents.get(path)
