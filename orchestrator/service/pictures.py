"""The pictures of one execution: what its program emitted and what tools returned to it, up to a limit."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from orchestrator.domain.errors import InvalidArguments, LimitExceeded
from orchestrator.domain.execution import GatewayLimits, Image
from orchestrator.domain.upstream import CallResult, LargeResult

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that is one, and what tells it from others."""

    image: Image
    digest: bytes

    @classmethod
    def read(cls, encoded: object) -> Picture:
        """Read a picture in base64, which for a large one takes a while."""
        data = _decoded(encoded)
        if data is None:
            raise InvalidArguments("`data` must be the bytes of a picture in base64.")
        mime_type = picture_type(data)
        if mime_type is None:
            raise InvalidArguments("`data` must be a PNG, JPEG, GIF or WebP picture.")
        return cls(Image(mime_type, data), sha256(data).digest())


class Pictures:
    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._kept: dict[bytes, Image] = {}
        self._bytes_left = limits.max_images_bytes

    def all(self) -> tuple[Image, ...]:
        return tuple(self._kept.values())

    def emit(self, picture: Picture) -> int:
        """Keep a picture that the program wants its caller to see; return how many there are."""
        if not self._keep(picture):
            count, size = self._limits.max_images, self._limits.max_images_bytes
            raise LimitExceeded(f"An execution may show at most {count} pictures of {size} bytes in total.")
        return len(self._kept)

    def readable(self, encoded: Iterable[object]) -> list[Picture]:
        """Read those of a tool's pictures for which there is room. It changes nothing, so a thread may do it."""
        found = []
        for data in encoded if len(self._kept) < self._limits.max_images else ():
            if isinstance(data, str) and len(data) * 3 // 4 <= self._bytes_left + 2:
                with suppress(InvalidArguments):  # the program did not ask for it
                    found.append(Picture.read(data))
        return found

    def note(self, pictures: Iterable[Picture]) -> None:
        """Keep the pictures of a tool's result, for as long as there is room."""
        for picture in pictures:
            self._keep(picture)

    def _keep(self, picture: Picture) -> bool:
        if picture.digest in self._kept:  # a program may well emit what a tool gave it
            return True
        size = len(picture.image.data)
        if len(self._kept) >= self._limits.max_images or size > self._bytes_left:
            return False
        self._bytes_left -= size
        self._kept[picture.digest] = picture.image
        return True


def images_in(result: CallResult) -> list[object]:
    """Return the data of a result's images, as the server wrote them."""
    if isinstance(result, LargeResult):
        return list(result.images)
    contents = result.get("content")
    pieces = contents if isinstance(contents, list) else []
    return [piece.get("data") for piece in pieces if isinstance(piece, Mapping) and piece.get("type") == "image"]


def _decoded(data: object) -> bytes | None:
    try:
        return b64decode(data, validate=True) if isinstance(data, str) and data else None
    except (binascii.Error, ValueError):
        return None


def picture_type(data: bytes) -> str | None:
    """Tell the type from the bytes: a client refuses a whole reply if a picture is not of the type it says."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime_type for start, mime_type in _SIGNATURES.items() if data.startswith(start)), None)
