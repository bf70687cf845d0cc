"""The pictures of one execution: what its program emitted and what tools returned to it, up to a limit."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from orchestrator.domain.errors import InvalidArguments, LimitExceeded
from orchestrator.domain.execution import GatewayLimits, Image

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class Pictures:
    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._kept: dict[bytes, Image] = {}
        self._bytes_left = limits.max_images_bytes

    def all(self) -> tuple[Image, ...]:
        return tuple(self._kept.values())

    def emit(self, order: Mapping[str, Any]) -> int:
        """Keep a picture that the program wants its caller to see; return how many there are."""
        data = _decoded(order.get("data"))
        if data is None:
            raise InvalidArguments("`data` must be the bytes of a picture in base64.")
        mime_type = _mime_type(data)
        if mime_type is None:
            raise InvalidArguments("`data` must be a PNG, JPEG, GIF or WebP picture.")
        if not self._keep(Image(mime_type, data)):
            count, size = self._limits.max_images, self._limits.max_images_bytes
            raise LimitExceeded(f"An execution may show at most {count} pictures of {size} bytes in total.")
        return len(self._kept)

    def note(self, result: Mapping[str, Any]) -> None:
        """Keep the pictures of a tool's result, for as long as there is room: the program did not ask for it."""
        contents = result.get("content")
        for content in contents if isinstance(contents, list) else ():
            if not isinstance(content, Mapping) or content.get("type") != "image":
                continue
            encoded = content.get("data")
            if isinstance(encoded, str) and len(encoded) * 3 // 4 <= self._bytes_left + 2:
                data = _decoded(encoded) or b""
                mime_type = _mime_type(data)
                if mime_type is not None:
                    self._keep(Image(mime_type, data))

    def _keep(self, image: Image) -> bool:
        digest = sha256(image.data).digest()  # a program may well emit what a tool gave it
        if digest in self._kept:
            return True
        if len(self._kept) >= self._limits.max_images or len(image.data) > self._bytes_left:
            return False
        self._bytes_left -= len(image.data)
        self._kept[digest] = image
        return True


def _decoded(data: object) -> bytes | None:
    try:
        return b64decode(data, validate=True) if isinstance(data, str) and data else None
    except (binascii.Error, ValueError):
        return None


def _mime_type(data: bytes) -> str | None:
    """Tell the type from the bytes: a client refuses a whole reply if a picture is not of the type it says."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime_type for start, mime_type in _SIGNATURES.items() if data.startswith(start)), None)
