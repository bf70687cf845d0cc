"""The framing on the container's attached streams, the same both ways: kind, length, payload."""

from __future__ import annotations

import struct
from _collections_abc import Iterator

MAX_INCOMING_BYTES = 16 * 1024 * 1024
MAX_PAYLOAD_BYTES = 65_536

# To the orchestrator.
READY = b"R"
STDOUT = b"O"
STDERR = b"E"
DONE = b"D"
FAULT = b"X"
CHECKED = b"V"
OPENED = b"C"
# After DONE: a file, its content, one that is left out, and the end of it.
FILE = b"N"
CONTENT = b"T"
LEFT_OUT = b"M"
HANDED_OVER = b"Z"
# From the orchestrator; PRELOAD also back, when it is done.
FILES = b"P"
APPEND = b"A"
PRELOAD = b"L"
RUN = b"G"
STOP = b"K"
# Both ways, each beginning with the number of a connection through the door: bytes, of which at most a window may be
# unacknowledged; how many more bytes may come; the end of the connection.
BYTES = b"B"
WINDOW = b"W"
FINISHED = b"F"
OF_CONNECTIONS = (BYTES, WINDOW, FINISHED)
MAX_DATA_BYTES = 32 * 1024
WINDOW_BYTES = 128 * 1024

_HEADER = struct.Struct(">cI")
_NUMBER = struct.Struct(">I")


class ProtocolError(Exception):
    """The orchestrator sent something that is not a message of the protocol."""


def encode(kind: bytes, payload: bytes) -> bytes:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a frame carries at most {MAX_PAYLOAD_BYTES} bytes, not {len(payload)}")
    return _HEADER.pack(kind, len(payload)) + payload


def json(fields: dict[str, str | float | None]) -> bytes:
    """Write numbers and quoted words: loading the json module would double the supervisor's start."""
    texts = (f'"{name}": {"null" if value is None else value}' for name, value in fields.items())
    return f"{{{', '.join(texts)}}}".encode()


def number(value: int) -> bytes:
    return _NUMBER.pack(value)


def numbered(payload: bytes) -> tuple[int, bytes]:
    """Cut a payload into the number that it begins with and the rest."""
    if len(payload) < _NUMBER.size:
        raise ProtocolError("a connection's frame ends before its number")
    return int(_NUMBER.unpack_from(payload)[0]), payload[_NUMBER.size :]


class FrameDecoder:
    """Cuts the incoming byte stream into (kind, payload)."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the frames that are complete by now."""
        self._buffer += received
        while len(self._buffer) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._buffer)
            if length > MAX_INCOMING_BYTES:
                raise ProtocolError(f"a frame of {length} bytes is longer than {MAX_INCOMING_BYTES}")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as view:
                payload = bytes(view[_HEADER.size : end])
            del self._buffer[:end]
            yield kind, payload
