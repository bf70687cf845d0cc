"""Hands over the files that a program left. It no longer runs, but what it left may be anything.

Loaded only when there is something to hand over.
"""

from __future__ import annotations

import os
import stat
import time
from _collections_abc import Iterator
from binascii import crc32
from struct import Struct

from supervision import frames
from supervision.brought import Brought
from supervision.orders import OUTPUTS, Place, is_stray
from supervision.outbox import Outbox

MAX_DEPTH = 32  # of the parts of a name
MAX_NAMED = 20  # of those left out in a place; the others are only counted

TOO_LARGE = b"l"
TOO_MANY = b"m"
NO_ROOM = b"r"
NOT_A_FILE = b"x"
TOO_DEEP = b"d"
UNREADABLE = b"u"
LOST = b"o"
ELSEWHERE = b"e"

_FILE = Struct(">c?Q")
_LEFT_OUT = Struct(">ccQ")
_DIRECTORY, _REGULAR, _OTHER = b"\0d", b"\0f", b"\0x"
# Never through a link, and never waiting for whoever might open the other end of a FIFO.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The loop serves the leash and the clocks in between.
_TURN_SECONDS = 0.01
_ENTRIES_PER_STEP = 256
_SUMMED_BYTES = 256 * 1024


class Handover:
    """Goes through the places, in the order of names, as fast as the leash takes what it finds."""

    __slots__ = ("_outbox", "_steps")

    def __init__(
        self,
        workspace: str,
        places: tuple[Place, ...],
        brought: Brought,
        at_first: frozenset[str],
        outbox: Outbox,
    ) -> None:
        self._outbox = outbox
        self._steps = self._all(workspace, places, brought, at_first)

    def go_on(self) -> bool:
        """Do as much as the leash takes, for a short time; return False when all is handed over."""
        ends = time.monotonic() + _TURN_SECONDS
        while time.monotonic() < ends:
            if self._outbox.full:
                self._outbox.flush()
            if self._outbox.full:
                break
            try:
                next(self._steps)
            except StopIteration:
                return False
        return True

    def _all(
        self, workspace: str, places: tuple[Place, ...], brought: Brought, at_first: frozenset[str]
    ) -> Iterator[None]:
        left_out: dict[str, str | float | None] = {}
        _unlock(workspace)
        for place in places:
            folder = _Folder(place, brought, self._outbox)
            yield from folder.hand_over(f"{workspace}/{place.name}")
            if place.name == OUTPUTS and not folder.found_anything:
                yield from folder.tell_of_strays(workspace, at_first)
            left_out[place.name] = folder.left_out
        self._outbox.put(frames.HANDED_OVER, frames.json(left_out))


class _Folder:
    """One place: what of it was handed over so far, and how many were left out."""

    __slots__ = ("_brought", "_bytes", "_files", "_outbox", "_place", "left_out")

    def __init__(self, place: Place, brought: Brought, outbox: Outbox) -> None:
        self._place = place
        self._brought = brought
        self._outbox = outbox
        self._files = 0
        self._bytes = 0
        self.left_out = 0

    @property
    def found_anything(self) -> bool:
        return bool(self._files or self.left_out)

    def tell_of_strays(self, workspace: str, at_first: frozenset[str]) -> Iterator[None]:
        """Name what a program wrote beside this folder, perhaps because it took the workspace itself for it."""
        try:
            with os.scandir(workspace) as entries:
                for number, entry in enumerate(entries):
                    if is_stray(entry, at_first):
                        size = entry.stat(follow_symlinks=False).st_size
                        self._leave_out(os.fsencode(entry.name), ELSEWHERE, size=size)
                    if number % _ENTRIES_PER_STEP == 0:
                        yield
        except OSError:
            return  # nothing is lost by it that was to be kept

    def hand_over(self, path: str) -> Iterator[None]:
        try:
            folder = _open_directory(path, None)
        except FileNotFoundError:
            return
        except OSError:
            # The folder itself was replaced by a link or a file, or cannot be read.
            self._leave_out(b".", NOT_A_FILE if _is_something_else(path) else UNREADABLE)
            return
        yield from self._directory(folder, b"", 0)

    def _directory(self, directory: int, path: bytes, depth: int) -> Iterator[None]:
        """Go through a directory and those below, and close it. Recursion is bounded by the depth of names."""
        try:
            entries: list[bytes] = []
            with os.scandir(directory) as found:
                for entry in found:
                    entries.append(os.fsencode(entry.name) + _kind(entry))
                    if len(entries) % _ENTRIES_PER_STEP == 0:
                        yield
            entries.sort(reverse=True)  # taken from the end, so that what is done with needs no room any more
            while entries:
                name, kind = entries[-1][:-2], entries.pop()[-2:]
                below = path + name
                if kind == _DIRECTORY:
                    yield from self._enter(directory, name, below, depth + 1)
                elif kind == _REGULAR and self._files < self._place.max_files:
                    yield from self._file(directory, name, below)
                elif kind == _REGULAR:
                    self._leave_out(below, TOO_MANY, directory, name)
                else:
                    self._leave_out(below, NOT_A_FILE)
                if len(entries) % _ENTRIES_PER_STEP == 0:
                    yield
        except OSError:
            self._leave_out(path.rstrip(b"/") or b".", UNREADABLE)
        finally:
            os.close(directory)

    def _enter(self, directory: int, name: bytes, path: bytes, depth: int) -> Iterator[None]:
        if depth >= MAX_DEPTH:
            self._leave_out(path, TOO_DEEP)
            yield
            return
        try:
            entered = _open_directory(name, directory)
        except OSError:
            self._leave_out(path, UNREADABLE)
            yield
            return
        yield from self._directory(entered, path + b"/", depth)

    def _file(self, directory: int, name: bytes, path: bytes) -> Iterator[None]:
        try:
            file = _open(name, 0, directory)
        except OSError:
            self._leave_out(path, UNREADABLE, directory, name)
            yield
            return
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                self._leave_out(path, NOT_A_FILE)
            elif status.st_size > self._place.max_file_bytes:
                self._leave_out(path, TOO_LARGE, size=status.st_size)
            elif self._bytes + status.st_size > self._place.max_total_bytes:
                self._leave_out(path, NO_ROOM, size=status.st_size)
            else:
                yield from self._content(file, path, status)
            yield
        except OSError:
            self._leave_out(path, UNREADABLE)
        finally:
            os.close(file)

    def _content(self, file: int, path: bytes, status: os.stat_result) -> Iterator[None]:
        size = status.st_size
        before = self._brought.find(b"%s/%s" % (self._place.name.encode(), path))
        unchanged = before is not None and before.may_be(status)
        if unchanged and before is not None:
            found = 0
            while piece := os.read(file, _SUMMED_BYTES):
                found = crc32(piece, found)
                yield
            os.lseek(file, 0, os.SEEK_SET)
            unchanged = found == before.sum
        self._files += 1
        self._bytes += size
        self._outbox.put(frames.FILE, _FILE.pack(self._place.code, unchanged, size) + path)
        missing = 0 if unchanged else size
        while missing:
            yield
            try:
                piece = os.read(file, min(missing, frames.MAX_PAYLOAD_BYTES))
            except OSError:
                piece = b""
            if not piece:
                self._leave_out(path, LOST, size=size, always_named=True)
                return
            self._outbox.put(frames.CONTENT, piece)
            missing -= len(piece)

    def _leave_out(
        self,
        path: bytes,
        why: bytes,
        directory: int | None = None,
        name: bytes = b"",
        size: int = 0,
        *,
        always_named: bool = False,
    ) -> None:
        # What is no file never travels: some of it is named, but only files are counted without end.
        if why == NOT_A_FILE and self.left_out >= MAX_NAMED:
            return
        self.left_out += 1
        if self.left_out > MAX_NAMED and not always_named:
            return
        if directory is not None:
            try:
                size = os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
            except OSError:
                size = 0
        self._outbox.put(frames.LEFT_OUT, _LEFT_OUT.pack(self._place.code, why, size) + path)


def _kind(entry: os.DirEntry[str]) -> bytes:
    if entry.is_symlink():
        return _OTHER
    if entry.is_dir(follow_symlinks=False):
        return _DIRECTORY
    return _REGULAR if entry.is_file(follow_symlinks=False) else _OTHER


def _open(name: str | bytes, flags: int, directory: int | None) -> int:
    """Open what is there; we have the program's user id, so we may read what it forbade itself to read."""
    try:
        return os.open(name, _READ | flags, dir_fd=directory)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=directory)
        return os.open(name, _READ | flags, dir_fd=directory)


def _open_directory(name: str | bytes, directory: int | None) -> int:
    """Open a directory so that what is in it can be opened, too: whoever may only list it gets no further."""
    opened = _open(name, os.O_DIRECTORY, directory)
    if not os.fstat(opened).st_mode & stat.S_IXUSR:
        os.fchmod(opened, 0o700)
    return opened


def _unlock(workspace: str) -> None:
    """Open the way to the places, which a program may have closed."""
    try:
        os.close(_open_directory(workspace, None))
    except OSError:
        return  # then no place can be read, which each of them tells


def _is_something_else(path: str) -> bool:
    try:
        return not stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode)
    except OSError:
        return False
