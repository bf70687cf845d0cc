"""The bytes of files, on disk: each content once, in a file that is named by its hash and never changes.

What is being written lies apart under a name that nobody else has, so that a name always stands for a whole content,
also after a crash of the daemon. After a loss of power a content may be cut short, which its size tells.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from orchestrator.domain.errors import FileNotFound, StoreUnavailable

T = TypeVar("T")

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
THREADS = 4


class StoredContents:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="contents")
        # Held while a content is put in place or removed: a sweep must not remove what has just become new again.
        self.changing = threading.Lock()
        self.written_bytes = 0

    def create(self) -> IncomingContent:
        return IncomingContent(self)

    async def size(self, digest: str) -> int | None:
        def look() -> int | None:
            with suppress(FileNotFoundError):
                return self.path_of(digest).stat().st_size
            return None

        return await self.do(look)

    async def read(self, digest: str, start: int, length: int) -> bytes:
        def read_piece() -> bytes:
            with self.path_of(digest).open("rb") as file:
                return os.pread(file.fileno(), length, start)

        try:
            return await self.do(read_piece)
        except FileNotFoundError:
            raise FileNotFound("The content of this file is no longer there.") from None

    async def sweep(self, wanted: frozenset[str], older_than_seconds: float) -> int:
        def remove_the_rest() -> int:
            before, freed = time.time() - older_than_seconds, 0
            for path in self._all():
                if path.name in wanted:
                    continue
                with self.changing, suppress(FileNotFoundError):
                    status = path.stat()
                    if status.st_mtime < before:
                        path.unlink()
                        freed += status.st_size
            return freed

        return await self.do(remove_the_rest)

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def path_of(self, digest: str) -> Path:
        return self._directory / digest[:2] / digest

    @property
    def incoming(self) -> Path:
        return self._directory / "incoming"

    async def do(self, work: Callable[[], T]) -> T:
        """Do on a thread what may wait for the disk."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except FileNotFoundError:
            raise
        except OSError as error:
            message = f"Files cannot be kept: {error.strerror or error}."
            raise StoreUnavailable(message, retry_after_seconds=10) from error

    def _all(self) -> Iterator[Path]:
        """Yield every content, and whatever a daemon that is gone did not finish."""
        with suppress(FileNotFoundError):
            for folder in self._directory.iterdir():
                if folder.is_dir():
                    yield from folder.iterdir()


class IncomingContent:
    """Content on its way into the store. The pieces come one after the other.

    Whoever is cancelled while it writes leaves a thread behind that goes on for a moment. It must not write to a
    descriptor that was closed: by then the number may be another caller's file.
    """

    def __init__(self, store: StoredContents) -> None:
        self._store = store
        self._path = store.incoming / uuid.uuid4().hex
        self._descriptor: int | None = None
        self._hash = sha256()
        self._size = 0
        self._ended = False
        self._in_turn = threading.Lock()  # also with work that nobody waits for any more

    async def write(self, data: bytes) -> None:
        await self._do(lambda: self._append(data))

    async def finish(self) -> tuple[str, int]:
        return await self._do(self._move_into_place)

    async def abandon(self) -> None:
        await self._do(self._remove)

    async def _do(self, work: Callable[[], T]) -> T:
        def in_turn() -> T:
            with self._in_turn:
                return work()

        return await self._store.do(in_turn)

    def _append(self, data: bytes) -> None:
        if self._ended:
            raise OSError("the file was given up")
        if self._descriptor is None:
            self._path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, PRIVATE_FILE)
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._hash.update(data)
        self._size += len(data)

    def _move_into_place(self) -> tuple[str, int]:
        self._append(b"")  # an empty file is a file
        self._close()
        digest = self._hash.hexdigest()
        target = self._store.path_of(digest)
        target.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        # Also over the same content: then it is as new, and no sweep takes it before somebody names it.
        os.utime(self._path)
        with self._store.changing:
            self._path.replace(target)
            self._store.written_bytes += self._size
        self._ended = True
        return digest, self._size

    def _remove(self) -> None:
        self._ended = True
        self._close()
        self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
