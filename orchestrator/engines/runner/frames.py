"""The frames between the daemon and a runner: kind, length, payload.

The supervisor writes them to its stdout, which the program cannot reach, so the program cannot forge one. What the
program sends through the door to the gateway travels inside such frames.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from orchestrator.domain.files import Place, Why
from orchestrator.domain.sandbox import Program

T = TypeVar("T")

MAX_FRAME_BYTES = 65_536
_RUNNER_HEADER = struct.Struct(">cI")
_LENGTH = struct.Struct(">I")
_LIMITS = struct.Struct(">dQQ?")
_PLACE = struct.Struct(">cIQQ")
_FILE = struct.Struct(">c?Q")
_LEFT_OUT = struct.Struct(">ccQ")
PROTOCOL = b"5"  # what a runner says when it is ready; one more with each change of the messages below


class FramingBroken(Exception):
    """The peer sent what the protocol does not allow."""


class FrameKind(Enum):
    READY = b"R"
    STDOUT = b"O"
    STDERR = b"E"
    DONE = b"D"
    FAULT = b"X"
    CHECKED = b"V"
    OPENED = b"C"
    BYTES = b"B"
    WINDOW = b"W"
    FINISHED = b"F"
    FILE = b"N"
    CONTENT = b"T"
    LEFT_OUT = b"M"
    HANDED_OVER = b"Z"
    FILES = b"P"
    APPEND = b"A"
    PRELOAD = b"L"
    RUN = b"G"
    STOP = b"K"


_PLACES = {b"o": Place.OUT, b"f": Place.WORKSPACE}
_CODES = {place: code for code, place in _PLACES.items()}
_WHYS = {
    b"l": Why.TOO_LARGE,
    b"m": Why.TOO_MANY,
    b"r": Why.NO_ROOM,
    b"x": Why.NOT_A_FILE,
    b"d": Why.TOO_DEEP,
    b"u": Why.UNREADABLE,
    b"o": Why.LOST,
    b"e": Why.ELSEWHERE,
}


@dataclass(frozen=True, slots=True)
class Frame:
    kind: FrameKind
    payload: bytes

    def fields(self) -> Mapping[str, Any]:
        try:
            parsed = json.loads(self.payload)
        except (ValueError, RecursionError) as error:
            raise FramingBroken(f"a {self.kind.name} frame is not JSON") from error
        if not isinstance(parsed, dict):
            raise FramingBroken(f"a {self.kind.name} frame is not an object")
        return parsed


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a program left; its content follows unless it is as it was brought."""

    place: Place
    name: bytes
    size: int
    unchanged: bool


@dataclass(frozen=True, slots=True)
class MissedFile:
    """A file that is not handed over."""

    place: Place
    name: bytes
    size: int
    why: Why


class RunnerFrameDecoder:
    """Splits what a runner writes into frames, however the bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= _RUNNER_HEADER.size:
            kind, length = _RUNNER_HEADER.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise FramingBroken(f"a frame of {length} bytes")
            end = _RUNNER_HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_RUNNER_HEADER.size : end])
            del self._buffer[:end]
            try:
                yield Frame(FrameKind(kind), payload)
            except ValueError as error:
                raise FramingBroken(f"a frame of unknown kind {kind!r}") from error


def encode(kind: FrameKind, payload: bytes = b"") -> bytes:
    return _RUNNER_HEADER.pack(kind.value, len(payload)) + payload


def encode_files(files: Mapping[str, str]) -> bytes:
    texts = (_text(text) for item in files.items() for text in item)
    return encode(FrameKind.FILES, b"".join(_LENGTH.pack(len(text)) + text for text in texts))


def encode_append(path: str, data: bytes) -> bytes:
    encoded = _text(path)
    return encode(FrameKind.APPEND, _LENGTH.pack(len(encoded)) + encoded + data)


def encode_run(program: Program) -> bytes:
    limits = program.limits
    order = _LIMITS.pack(limits.timeout_seconds, limits.max_output_bytes, limits.flood_bytes, program.is_checked)
    places = b"".join(
        _PLACE.pack(_CODES[place], each.max_files, each.max_file_bytes, each.max_total_bytes)
        for place, each in program.hands_over.items()
    )
    order += bytes([len(program.hands_over)]) + places
    environment = _text("".join(f"{name}={value}\0" for name, value in program.environment.items()))
    return encode(FrameKind.RUN, order + _LENGTH.pack(len(environment)) + environment + _text(program.code))


def found_file(frame: Frame) -> FoundFile:
    code, unchanged, size, name = _described(frame, _FILE)
    return FoundFile(_known(_PLACES, code), name, size, unchanged)


def missed_file(frame: Frame) -> MissedFile:
    code, why, size, name = _described(frame, _LEFT_OUT)
    return MissedFile(_known(_PLACES, code), name, size, _known(_WHYS, why))


def _described(frame: Frame, fields: struct.Struct) -> tuple[Any, ...]:
    if len(frame.payload) <= fields.size:
        raise FramingBroken(f"a {frame.kind.name} frame without a name")
    return *fields.unpack_from(frame.payload), frame.payload[fields.size :]


def _known(codes: Mapping[bytes, T], code: bytes) -> T:
    if code not in codes:
        raise FramingBroken(f"an unknown code {code!r}")
    return codes[code]


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # a lone surrogate, legal in the JSON of a tool's description, is no text
