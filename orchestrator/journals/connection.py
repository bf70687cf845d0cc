"""The connections to a journal's files, for nobody else to read, and whether those files are still where they were."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.journals.schema import bring_up_to_date, set_aside_if_foreign

BUSY_TIMEOUT_SECONDS = 5
PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
WRITTEN_AHEAD = ("-wal", "-shm")  # SQLite gives them the mode of the journal itself

Identity = tuple[int, int]  # device and inode


class JournalLost(OSError):
    """The files that a connection writes to are no longer those that bear the journal's name."""

    def __init__(self, connection: Connection, message: str) -> None:
        super().__init__(message)
        self.connection = connection


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """Connections to the same files: one that waits its turn, one for the event loop, which never waits, and two that
    only read, each for a thread of its own: lists, and figures, which may take long."""

    database: sqlite3.Connection
    impatient: sqlite3.Connection
    lists: sqlite3.Connection
    figures: sqlite3.Connection
    files: Mapping[Path, Identity]

    @classmethod
    def to(cls, path: Path) -> Connection:
        path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        make_private(path)
        set_aside_if_foreign(path, BUSY_TIMEOUT_SECONDS)
        make_private(path)  # what was set aside took the file along
        with ExitStack() as opened:
            database, impatient, lists, figures = (
                opened.enter_context(closing(connect(path))) for connect in (_patient, _impatient, _reading, _reading)
            )
            make_private(path)
            # SQLite keeps the other two beside what a link leads to.
            beside = [Path(f"{path.resolve()}{suffix}") for suffix in WRITTEN_AHEAD]
            files = {file: _identity(file) for file in (path, *beside)}
            opened.pop_all()
        return cls(database, impatient, lists, figures, files)

    def require_in_place(self) -> None:
        for file, identity in self.files.items():
            try:
                found = _identity(file)
            except (FileNotFoundError, NotADirectoryError):
                raise JournalLost(self, f"{file.name} was deleted or moved away while it was in use") from None
            if found != identity:
                raise JournalLost(self, f"{file.name} was replaced while it was in use")

    def close(self) -> None:
        """Close the one that waits; the others must be closed by then. What is left of a lost journal goes, too."""
        self.database.close()
        journal, *beside = self.files
        with suppress(OSError):
            if _identity(journal) == self.files[journal]:
                return
        # SQLite would play what was written ahead for the old journal into the one that has its place now.
        for file in beside:
            with suppress(OSError):
                if _identity(file) == self.files[file]:
                    file.unlink()


def make_private(path: Path) -> None:
    """Have the journal's files, which hold what programs printed, read by nobody else; make the first one."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
    for file in (path, *(Path(f"{path.resolve()}{suffix}") for suffix in WRITTEN_AHEAD)):
        with suppress(FileNotFoundError, PermissionError):  # another's: the doctor tells
            file.chmod(PRIVATE_FILE)


def _identity(file: Path) -> Identity:
    status = os.stat(file)
    return status.st_dev, status.st_ino


def _patient(path: Path) -> sqlite3.Connection:
    # Autocommit: each statement is its own transaction, unless one is begun by hand; then `with` commits or undoes it.
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        bring_up_to_date(database)
        database.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        database.close()
        raise
    return database


def _impatient(path: Path) -> sqlite3.Connection:
    """For the event loop: gives up at once when another writes, and leaves what waits for the disk to the thread."""
    database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    return database


def _reading(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    database.execute("PRAGMA query_only = ON")
    return database
