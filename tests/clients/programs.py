"""The programs that every client has run, and what they leave behind. None spells out what it prints."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

MARK = "toldonce"
ERROR = "ZeroDivisionError"
LINES = 4000
FIRST_LINE, LAST_LINE = "line 0000", f"line {LINES - 1}"


@dataclass(frozen=True)
class Program:
    name: str
    code: str

    @property
    def arguments(self) -> dict[str, Any]:
        return {"code": self.code, "language": "python"}


def png(width: int, height: int) -> bytes:
    """An orange rectangle."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\x80\x00" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURE = png(64, 64)

PRINTS_42 = Program("prints 42", "print(6 * 7)")
SHOWS_A_PICTURE = Program(
    "shows a picture",
    f"""
from servers.output import emit_image

emit_image(bytes.fromhex("{PICTURE.hex()}"))
print("".join(["told", "once"]))
""",
)
FAILS = Program(
    "fails",
    """
def share(total, heads):
    return total / heads

print("".join(["told", "once"]))
share(1, 0)
""",
)
FAILS_AGAIN = replace(FAILS, name="fails again")
PRINTS_MUCH = Program("prints much", f"for number in range({LINES}):\n    print(f'line {{number:04}}')")
PRINTS_MUCH_AND_FAILS = Program("prints much and fails", f"{PRINTS_MUCH.code}\nraise SystemExit(3)")
RUNS_LONG = Program("runs long", "import time\nprint('up', flush=True)\ntime.sleep(60)")

ALL = (PRINTS_42, SHOWS_A_PICTURE, FAILS, FAILS_AGAIN, PRINTS_MUCH, PRINTS_MUCH_AND_FAILS)


def output_of_much() -> str:
    return "".join(f"line {number:04}\n" for number in range(LINES))
