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
from typing import Any

from orchestrator.domain.sandbox import Program

MAX_FRAME_BYTES = 65_536
_RUNNER_HEADER = struct.Struct(">cI")
_LENGTH = struct.Struct(">I")
_LIMITS = struct.Struct(">dQQ?")
PROTOCOL = b"4"  # what a runner says when it is ready; one more with each change of the messages below


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
    FILES = b"P"
    PRELOAD = b"L"
    RUN = b"G"


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


def encode_run(program: Program) -> bytes:
    limits = program.limits
    order = _LIMITS.pack(limits.timeout_seconds, limits.max_output_bytes, limits.flood_bytes, program.is_checked)
    environment = _text("".join(f"{name}={value}\0" for name, value in program.environment.items()))
    return encode(FrameKind.RUN, order + _LENGTH.pack(len(environment)) + environment + _text(program.code))


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # a lone surrogate, legal in the JSON of a tool's description, is no text
