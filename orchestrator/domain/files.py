"""Files that travel: into a sandbox, out of it, and from one execution to the next by the name of a workspace."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from orchestrator.domain.chat import printable
from orchestrator.domain.errors import InvalidRequest

INPUTS = "in"  # the folder of /workspace with the files that a caller gave
MAX_NAME_CHARACTERS = 512
MAX_PART_BYTES = 255
MAX_DEPTH = 32
# What a file counts for at least: it takes a block and an inode, of which a disk has a limited number.
LEAST_BYTES = 16 * 1024
WORKSPACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SHA256 = re.compile(r"[0-9a-f]{64}")
OCTETS = "application/octet-stream"
# What the media types of the system's files say differs from machine to machine.
_TYPES = mimetypes.MimeTypes()
_MORE_TYPES = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".gz": "application/gzip",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".mts": "text/typescript",
    ".parquet": "application/vnd.apache.parquet",
    ".ts": "text/typescript",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


class Place(StrEnum):
    """A folder of /workspace whose files are handed over when the program has ended."""

    OUT = "out"  # kept with the execution
    WORKSPACE = "files"  # kept for the next execution with the same workspace


class Why(StrEnum):
    """Why a file was not kept."""

    TOO_LARGE = "too_large"
    TOO_MANY = "too_many"
    NO_ROOM = "no_room"  # all files together are too large
    NOT_A_FILE = "not_a_file"  # a link, a FIFO or the like
    TOO_DEEP = "too_deep"
    UNREADABLE = "unreadable"
    BAD_NAME = "bad_name"
    QUOTA = "quota"  # of the caller, or of the disk
    ELSEWHERE = "elsewhere"  # in /workspace, while /workspace/out is empty
    LOST = "lost"  # the sandbox ended before it was handed over, or it changed meanwhile


@dataclass(frozen=True, slots=True)
class File:
    """A file by its name and its content's hash."""

    name: str
    bytes: int
    sha256: str
    media_type: str = OCTETS


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that was not kept."""

    name: str
    why: Why
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How much is taken out of one place."""

    max_files: int
    max_file_bytes: int
    max_total_bytes: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the files that a program left in one place; of those left out, some are named and all counted."""

    files: tuple[File, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    left_out_count: int = 0


# Where an upload stands among those of its caller: by its time, and by its hash among those of one moment.
UploadPlace = tuple[float, str]


class Keep(StrEnum):
    """When a workspace takes what an execution leaves in it."""

    SUCCESS = "success"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class WorkspaceUse:
    """The workspace that an execution works in, as its caller asked for it."""

    name: str
    wait: bool = True
    keep: Keep = Keep.SUCCESS


@dataclass(frozen=True, slots=True)
class WorkspaceEnd:
    """What an execution did to its workspace."""

    name: str
    kept: bool = False
    version: str | None = None  # the execution whose files the workspace has now; None if it has none
    files: int = 0
    bytes: int = 0
    why_not: str | None = None  # a sentence, where the files were not kept
    left_out: tuple[LeftOut, ...] = ()  # the first ones by name
    left_out_count: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """What a workspace held after an execution, which names it."""

    workspace: str
    execution_id: str
    caller: str
    made_at: float  # or when it was last restored
    files: tuple[File, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def digest(self) -> str:
        """Name the snapshot by its content."""
        listed = sorted((file.name, file.sha256) for file in self.files)
        return sha256(json.dumps(listed).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Upload:
    """Content that a caller sent in advance, named by its hash."""

    sha256: str
    bytes: int
    uploaded_at: float

    @property
    def place(self) -> UploadPlace:
        return self.uploaded_at, self.sha256


# --- what a caller says an input comes from ---


@dataclass(frozen=True, slots=True)
class Given:
    content: bytes


@dataclass(frozen=True, slots=True)
class FromExecution:
    execution_id: str
    name: str


@dataclass(frozen=True, slots=True)
class FromWorkspace:
    workspace: str
    name: str
    version: str | None = None  # the execution that made it; the newest if None


@dataclass(frozen=True, slots=True)
class FromUpload:
    sha256: str


Source = Given | FromExecution | FromWorkspace | FromUpload


@dataclass(frozen=True, slots=True)
class Brought:
    """An input that was found."""

    name: str
    file: File
    content: bytes | None = field(default=None, repr=False)  # what came with the request is not in the store


def charged(files: Iterable[File]) -> int:
    """Return what files count for against a quota."""
    return sum(max(file.bytes, LEAST_BYTES) for file in files)


def require_name(name: str) -> str:
    """Return the name of a file, or refuse one that would leave its folder or that no folder takes."""
    if (rule := _broken_rule(name)) is not None:
        raise InvalidRequest(f"{printable(name[:100])!r} is no name for a file. {rule}")
    return name


def is_name(name: str) -> bool:
    return _broken_rule(name) is None


def _broken_rule(name: str) -> str | None:
    """Return the rule that a name of a file breaks, None if it breaks none."""
    parts = name.split("/")
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        return "It must be Unicode text; it holds a lone surrogate."
    if len(name) > MAX_NAME_CHARACTERS:
        return f"It must have at most {MAX_NAME_CHARACTERS} characters; it has {len(name)}."
    if any(part in ("", ".", "..") for part in parts):
        return "It must be a relative path such as `data/orders.csv`, without `.`, `..` or `//`."
    if longest > MAX_PART_BYTES:
        return f"Each part between slashes must have at most {MAX_PART_BYTES} bytes; one has {longest}."
    if len(parts) > MAX_DEPTH:
        return f"It must have at most {MAX_DEPTH} parts between slashes; it has {len(parts)}."
    return None if name.isprintable() else "It must have no control characters."


def shown_name(name: bytes) -> str:
    """Write a name as text, whatever bytes it has: what is no UTF-8 or not printable is spelled out."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def media_type_of(name: str) -> str:
    """Tell by its ending what a file holds. Do not rely on it: a program chose the name."""
    suffix = f".{name.rpartition('.')[2].lower()}" if "." in name.rpartition("/")[2] else ""
    return _MORE_TYPES.get(suffix) or _TYPES.guess_type(f"file{suffix}")[0] or OCTETS


def require_workspace_name(name: str) -> str:
    if not WORKSPACE_NAME.fullmatch(name):
        raise InvalidRequest(
            "`workspace` must have 1 to 64 letters (A to Z, a to z), digits, dots, dashes or underscores, and must "
            "begin with a letter or a digit."
        )
    return name


def inputs_digest(files: Iterable[tuple[str, str]], workspace: str | None) -> str:
    """Name all that a program was given besides its code; empty if that is nothing.

    Each file is a name and what stands for its content: a hash, or the place of a file that is kept.
    """
    listed = sorted(files)
    if not listed and workspace is None:
        return ""
    return sha256(json.dumps([listed, workspace]).encode()).hexdigest()
