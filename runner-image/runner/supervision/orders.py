"""Reads and checks what the orchestrator asks for."""

from __future__ import annotations

import os
import struct
from _collections_abc import Iterator

from supervision import frames
from supervision.frames import ProtocolError

_LENGTH = struct.Struct(">I")
_LIMITS = struct.Struct(">dQQ?")
_INFINITY = float("inf")


class Prepare:
    """Write files into the workspace; each path is relative to it."""

    __slots__ = ("files",)

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files


class Preload:
    """Load what a program may need, while nobody waits for it."""

    __slots__ = ()


class Run:
    """Run a program.

    `parcel` is what the language runtime reads: the length of the environment, each NAME=value with a NUL, the code.
    Of each output stream at most `max_output_bytes` are forwarded; more than `flood_bytes` end the program.
    """

    __slots__ = ("checked", "code", "flood_bytes", "max_output_bytes", "parcel", "timeout_seconds")

    def __init__(
        self,
        parcel: bytes,
        code: memoryview,
        timeout_seconds: float,
        max_output_bytes: int,
        flood_bytes: int,
        *,
        checked: bool,
    ) -> None:
        self.parcel = parcel
        self.code = code
        self.timeout_seconds = timeout_seconds
        self.max_output_bytes = max_output_bytes
        self.flood_bytes = flood_bytes
        self.checked = checked


def parse(kind: bytes, payload: bytes) -> Prepare | Preload | Run:
    if kind == frames.FILES:
        return Prepare(dict(_files(payload)))
    if kind == frames.PRELOAD:
        return Preload()
    if kind == frames.RUN:
        return _run(payload)
    raise ProtocolError(f"unknown message kind {kind!r}")


def _files(payload: bytes) -> Iterator[tuple[str, bytes]]:
    rest = memoryview(payload)
    while rest:
        name, rest = _cut(rest, "prepare")
        text, rest = _cut(rest, "prepare")
        try:
            yield name.decode(), text
        except UnicodeDecodeError:
            raise ProtocolError(f"prepare: {name!r} is not a path in UTF-8") from None


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
    parcel = payload[_LIMITS.size :]
    environment, code = _cut(memoryview(parcel), "run")
    for entry in environment.split(b"\0")[:-1]:
        if entry.find(b"=") < 1:
            raise ProtocolError(f"run: {entry!r} cannot be set in the environment; it must be NAME=value")
    return Run(parcel, code, timeout_seconds, max_output_bytes, flood_bytes, checked=checked)


def write_program(path: str, code: memoryview) -> None:
    """Write the program where its runtime and its check expect it."""
    try:
        with open(path, "wb") as file:
            file.write(code)
    except OSError as error:
        raise ProtocolError(f"run: cannot write the program: {error.strerror}") from None


def write_files(workspace: str, files: dict[str, bytes]) -> None:
    """Write files with their directories, below the workspace only."""
    made = {workspace}
    for name, text in files.items():
        if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
            raise ProtocolError(f"prepare: {name!r} is not a path below the workspace")
        path = os.path.join(workspace, name)
        try:
            if (directory := os.path.dirname(path)) not in made:
                os.makedirs(directory, exist_ok=True)
                made.add(directory)
            with open(path, "wb") as file:
                file.write(text)
        except OSError as error:
            raise ProtocolError(f"prepare: cannot write {name!r}: {error.strerror}") from None
