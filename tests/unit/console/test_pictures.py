"""The size of a picture is read before a browser is asked to show it."""

from __future__ import annotations

import base64
import struct

import pytest

from tests.unit.console.page import on_a_page

pytestmark = pytest.mark.processes

PIXEL_GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
TOO_LARGE = "is too large to preview"
UNREADABLE = "cannot be previewed"


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x01\x00\x00\x00\x00"


def gif(screen: tuple[int, int], frame: tuple[int, int, int, int]) -> bytes:
    header = b"GIF89a" + struct.pack("<HHBBB", *screen, 0x80, 0, 0) + bytes(6)
    extension = b"\x21\xf9\x04\x00\x00\x00\x00\x00" + b"\x21\xfe\x02hi\x01!\x00"
    return header + extension + b"\x2c" + struct.pack("<HHHHB", *frame, 0)


def jpeg(width: int, height: int, marker: int = 0xC0) -> bytes:
    application = b"\xff\xe0\x00\x04\xff\xc0"  # holds what looks like a frame header
    table = b"\xff\xff\xc4\x00\x03\x00"
    return b"\xff\xd8" + application + table + bytes([0xFF, marker]) + struct.pack(">HBHHB", 11, 8, height, width, 1)


def webp(kind: bytes, content: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 12 + len(content)) + b"WEBP" + kind + struct.pack("<I", len(content)) + content


def lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x10\x02\x00\x9d\x01\x2a" + struct.pack("<HH", width | 0x4000, height | 0x8000))


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14 | 1 << 28))


def extended(width: int, height: int) -> bytes:
    return webp(
        b"VP8X", bytes([0xFF, 0, 0, 0]) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    )


def size(content: bytes) -> tuple[int, int] | None:
    found = on_a_page("lib/pictures.js", "return module.sizeOf(Uint8Array.from(bytes));", bytes=list(content))
    return found and (found["width"], found["height"])


@pytest.mark.parametrize(
    "content",
    [
        png(640, 480),
        gif((640, 480), (0, 0, 640, 480)),
        gif((1, 1), (40, 80, 600, 400)),
        jpeg(640, 480),
        jpeg(640, 480, marker=0xC2),
        lossy(640, 480),
        lossless(640, 480),
        extended(640, 480),
    ],
)
def test_size_is_in_the_first_bytes(content: bytes) -> None:
    assert size(content) == (640, 480)


def test_size_of_a_real_picture() -> None:
    assert size(base64.b64decode(PIXEL_GIF)) == (1, 1)


def test_sizes_have_all_their_bits() -> None:
    assert size(png(0x80000001, 0xFFFFFFFF)) == (0x80000001, 0xFFFFFFFF)
    assert size(extended(1 << 24, 1 << 24)) == (1 << 24, 1 << 24)
    assert size(lossless(1 << 14, 1 << 14)) == (1 << 14, 1 << 14)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>",
        b"BM" + bytes(60),
        png(1, 1)[:20],
        png(0, 1),
        gif((9, 9), (0, 0, 9, 9))[:30],
        b"GIF89a" + struct.pack("<HHBBB", 9, 9, 0, 0, 0) + b";",
        jpeg(640, 0),
        jpeg(640, 480, marker=0xDA),
        b"\xff\xd8\xff\xe0\x00\x00" + jpeg(1, 1)[2:],
        b"\xff\xd8\xff\xe0\x00\x02garbage" + jpeg(1, 1)[2:],
        webp(b"ALPH", bytes(40)),
        lossy(1, 1)[:26],
    ],
)
def test_size_that_cannot_be_read_for_certain_is_unknown(content: bytes) -> None:
    assert size(content) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (png(5000, 5000), ""),
        (png(5000, 5001), TOO_LARGE),
        (png(16_000, 16_000), TOO_LARGE),
        (gif((1, 1), (0, 0, 16_000, 16_000)), TOO_LARGE),
        (b"hi", UNREADABLE),
    ],
)
def test_picture_that_is_too_large_is_not_previewed(content: bytes, problem: str) -> None:
    image = {"mimeType": "image/png", "data": base64.b64encode(content).decode()}
    told = on_a_page(
        "lib/pictures.js",
        """
        globalThis.fetch = async () => new Response(Uint8Array.from(bytes));
        const [live, kept] = [module.decoded(image), await module.picture({url: '/files/1', mediaType: 'image/png'})];
        return [live, kept].map(({content, problem}) => [content.type, content.size, problem]);
        """,
        image=image,
        bytes=list(content),
    )
    assert told == [["image/png", len(content), problem]] * 2
