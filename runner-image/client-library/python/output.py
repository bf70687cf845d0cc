"""Shows the caller what a program cannot print."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from ._client import ask, result_or_awaitable

if TYPE_CHECKING:
    from .content import Image


def emit_image(picture: bytes | bytearray | memoryview | Image) -> Any:
    """Show the caller a PNG, JPEG, GIF or WebP picture; its bytes tell which of these it is."""
    data = picture if isinstance(picture, (bytes, bytearray, memoryview)) else getattr(picture, "data", None)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"`picture` must be bytes or an Image, not {type(picture).__name__}.")
    body = f'{{"data": "{b64encode(data).decode()}"}}'

    def show() -> None:
        ask("/emit", body)

    return result_or_awaitable(show)
