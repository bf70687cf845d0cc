"""Reads and checks what the orchestrator asks for."""

from __future__ import annotations

import os
import struct
from _collections_abc import Iterator

from supervision import frames
from supervision.frames import ProtocolError

_LENGTH = struct.Struct(">I")
_LIMITS = struct.Struct(">dQQ?")
_PLACE = struct.Struct(">cIQQ")
_INFINITY = float("inf")
_NO_ROOM = (27, 28)  # EFBIG and ENOSPC; the module with their names is not loaded at the start

# The folders of the workspace whose files are handed over at the end, by their letters in the protocol.
PLACES = {b"o": "out", b"f": "files"}
INPUTS = "in"
OUTPUTS = PLACES[b"o"]
WORKSPACE_FILES = PLACES[b"f"]


class Prepare:
    """Write files into the workspace; each path is relative to it."""

    __slots__ = ("files",)

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files


class Append:
    """Write the beginning of a file, or more of it."""

    __slots__ = ("data", "path")

    def __init__(self, path: str, data: memoryview) -> None:
        self.path = path
        self.data = data


class Stop:
    """End the program."""

    __slots__ = ()


class Place:
    """Hand over what is in a folder of the workspace when the program has ended, within these limits."""

    __slots__ = ("code", "max_file_bytes", "max_files", "max_total_bytes", "name")

    def __init__(self, code: bytes, max_files: int, max_file_bytes: int, max_total_bytes: int) -> None:
        self.code = code
        self.name = PLACES[code]
        self.max_files = max_files
        self.max_file_bytes = max_file_bytes
        self.max_total_bytes = max_total_bytes


class Preload:
    """Load what a program may need, while nobody waits for it."""

    __slots__ = ()


class Run:
    """Run a program.

    `parcel` is what the language runtime reads: the length of the environment, each NAME=value with a NUL, the code.
    Of each output stream at most `max_output_bytes` are forwarded; more than `flood_bytes` end the program.
    """

    __slots__ = ("checked", "code", "flood_bytes", "max_output_bytes", "parcel", "places", "timeout_seconds")

    def __init__(
        self,
        parcel: bytes,
        code: memoryview,
        timeout_seconds: float,
        max_output_bytes: int,
        flood_bytes: int,
        *,
        checked: bool,
        places: tuple[Place, ...] = (),
    ) -> None:
        self.parcel = parcel
        self.code = code
        self.timeout_seconds = timeout_seconds
        self.max_output_bytes = max_output_bytes
        self.flood_bytes = flood_bytes
        self.checked = checked
        self.places = places


Order = Prepare | Append | Preload | Run | Stop


def parse(kind: bytes, payload: bytes) -> Order:
    if kind == frames.FILES:
        return Prepare(dict(_files(payload)))
    if kind == frames.APPEND:
        path, data = _cut(memoryview(payload), "append")
        return Append(_path(path, "append"), data)
    if kind == frames.PRELOAD:
        return Preload()
    if kind == frames.RUN:
        return _run(payload)
    if kind == frames.STOP:
        return Stop()
    raise ProtocolError(f"unknown message kind {kind!r}")


def _files(payload: bytes) -> Iterator[tuple[str, bytes]]:
    rest = memoryview(payload)
    while rest:
        name, rest = _cut(rest, "prepare")
        text, rest = _cut(rest, "prepare")
        yield _path(name, "prepare"), text


def _path(encoded: bytes, what: str) -> str:
    """Return a path that is below the workspace wherever that is."""
    try:
        path = encoded.decode()
    except UnicodeDecodeError:
        raise ProtocolError(f"{what}: {encoded!r} is not a path in UTF-8") from None
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ProtocolError(f"{what}: {path!r} is not a path below the workspace")
    return path


def _cut(data: memoryview, what: str) -> tuple[bytes, memoryview]:
    """Return the first piece, which has its length before it, and the rest uncopied: there are hundreds of files."""
    start = _LENGTH.size
    if len(data) < start or len(data) < (end := start + int(_LENGTH.unpack_from(data)[0])):
        raise ProtocolError(f"{what}: the message ends too early")
    return bytes(data[start:end]), data[end:]


def _run(payload: bytes) -> Run:
    if len(payload) < _LIMITS.size:
        raise ProtocolError("run: the message ends too early")
    timeout_seconds, max_output_bytes, flood_bytes, checked = _LIMITS.unpack_from(payload)
    if not 0 < timeout_seconds < _INFINITY:
        raise ProtocolError("run: timeout_seconds must be a positive number")
    places, parcel = _places(payload[_LIMITS.size :])
    environment, code = _cut(memoryview(parcel), "run")
    for entry in environment.split(b"\0")[:-1]:
        if entry.find(b"=") < 1:
            raise ProtocolError(f"run: {entry!r} cannot be set in the environment; it must be NAME=value")
    return Run(parcel, code, timeout_seconds, max_output_bytes, flood_bytes, checked=checked, places=places)


def _places(payload: bytes) -> tuple[tuple[Place, ...], bytes]:
    """Cut off the places, which have their number before them."""
    end = 1 + payload[0] * _PLACE.size if payload else 1
    if len(payload) < end:
        raise ProtocolError("run: the message ends too early")
    fields = list(_PLACE.iter_unpack(payload[1:end]))
    if any(code not in PLACES for code, *_ in fields) or len({code for code, *_ in fields}) < len(fields):
        raise ProtocolError("run: a place is not known, or named twice")
    return tuple(Place(*each) for each in fields), payload[end:]


def write_program(path: str, code: memoryview) -> None:
    """Write the program where its runtime and its check expect it."""
    try:
        with open(path, "wb") as file:
            file.write(code)
    except OSError as error:
        raise ProtocolError(f"run: cannot write the program: {error.strerror}") from None


def write_files(workspace: str, files: dict[str, bytes]) -> None:
    """Write files with their directories."""
    made = {workspace}
    for name, text in files.items():
        path = os.path.join(workspace, name)
        try:
            if (directory := os.path.dirname(path)) not in made:
                os.makedirs(directory, exist_ok=True)
                made.add(directory)
            with open(path, "wb") as file:
                file.write(text)
        except OSError as error:
            raise ProtocolError(f"prepare: cannot write {name!r}: {error.strerror}") from None


def append(workspace: str, order: Append, *, first: bool) -> os.stat_result:
    """Write a piece of a file, the first with its directories and instead of what was there; return what it is now."""
    path = os.path.join(workspace, order.path)
    try:
        if first:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb" if first else "ab", buffering=0) as file:
            rest = order.data
            while rest:
                rest = rest[file.write(rest) :]
            return os.fstat(file.fileno())
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise ProtocolError(f"append: {order.path!r} does not fit into the room that the workspace has") from None
        raise ProtocolError(f"append: cannot write {order.path!r}: {error.strerror}") from None


def make_folder(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except OSError as error:
        raise ProtocolError(f"cannot make {path!r}: {error.strerror}") from None


def is_stray(entry: os.DirEntry[str], at_first: frozenset[str]) -> bool:
    """Tell whether a program left a file beside the folders that are handed over."""
    return entry.name not in at_first and entry.is_file(follow_symlinks=False)


def has_stray(workspace: str, at_first: frozenset[str]) -> bool:
    try:
        with os.scandir(workspace) as entries:
            return any(is_stray(entry, at_first) for entry in entries)
    except OSError:
        return False


def holds_anything(folder: str) -> bool:
    """Tell whether there may be something to hand over; whatever is not an empty folder counts."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        with os.scandir(opened) as entries:
            return next(entries, None) is not None
    except OSError:
        return True
    finally:
        os.close(opened)
