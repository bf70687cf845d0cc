"""Frames between the slot and the daemon: kind, length, payload; a connection's frames begin with its number.

R  ready              to the daemon
C  opened             to the daemon
B  bytes              both ways, at most a window of them unacknowledged
W  window             both ways: that many bytes were passed on, as many more may come
F  finished           both ways
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

PROTOCOL = b"2"
READY, OPENED, BYTES, WINDOW, FINISHED = b"R", b"C", b"B", b"W", b"F"
MAX_DATA_BYTES = 32 * 1024
WINDOW_BYTES = 128 * 1024

_HEADER = struct.Struct(">cI")
_NUMBER = struct.Struct(">I")
_MAX_PAYLOAD_BYTES = MAX_DATA_BYTES + _NUMBER.size


class WireBroken(Exception):
    """The daemon sent something that is not a frame."""


def encode(kind: bytes, number: int, data: bytes = b"") -> bytes:
    return _HEADER.pack(kind, _NUMBER.size + len(data)) + _NUMBER.pack(number) + data


def encode_ready() -> bytes:
    return _HEADER.pack(READY, len(PROTOCOL)) + PROTOCOL


def encode_window(number: int, size: int) -> bytes:
    return encode(WINDOW, number, _NUMBER.pack(size))


def decode_window(data: bytes) -> int:
    (size,) = _NUMBER.unpack(data)
    return int(size)


class Decoder:
    """Cuts the incoming byte stream into (kind, number, data)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> Iterator[tuple[bytes, int, bytes]]:
        self._buffer += received
        while len(self._buffer) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._buffer)
            if not _NUMBER.size <= length <= _MAX_PAYLOAD_BYTES:
                raise WireBroken(f"a payload must have {_NUMBER.size} to {_MAX_PAYLOAD_BYTES} bytes, not {length}")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            (number,) = _NUMBER.unpack_from(self._buffer, _HEADER.size)
            data = bytes(self._buffer[_HEADER.size + _NUMBER.size : end])
            del self._buffer[:end]
            yield kind, number, data
