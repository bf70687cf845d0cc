"""The two framings on the container's attached streams."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAX_INCOMING_BYTES = 16 * 1024 * 1024
MAX_PAYLOAD_BYTES = 65_536

READY = b"R"
STDOUT = b"O"
STDERR = b"E"
DONE = b"D"
FAULT = b"X"

_LENGTH = struct.Struct(">I")


class ProtocolError(Exception):
    """The orchestrator sent something that is not a message of the protocol."""


def encode(kind: bytes, payload: bytes) -> bytes:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a frame carries at most {MAX_PAYLOAD_BYTES} bytes")
    return kind + _LENGTH.pack(len(payload)) + payload


class FrameDecoder:
    """Cuts the incoming byte stream into payloads."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> Iterator[bytes]:
        self._buffer += received
        while (payload := self._next_payload()) is not None:
            yield payload

    def _next_payload(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_INCOMING_BYTES:
            raise ProtocolError(f"a frame of {length} bytes is longer than {MAX_INCOMING_BYTES}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return payload
