"""What a program shows its caller besides what it prints."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from ._client import ask, now_or_pending

if TYPE_CHECKING:
    from .content import Image


def emit_image(picture: bytes | bytearray | memoryview | Image) -> Any:
    """Shows a PNG, JPEG, GIF or WebP picture to the caller; its kind is found out from its bytes."""
    data = picture if isinstance(picture, (bytes, bytearray, memoryview)) else getattr(picture, "data", None)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"emit_image takes bytes or an Image, not {type(picture).__name__}")
    body = f'{{"data": "{b64encode(data).decode()}"}}'
    return now_or_pending(lambda: _shown(body))


def _shown(body: str) -> None:
    ask("/emit", body)
