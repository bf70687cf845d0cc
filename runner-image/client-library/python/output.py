"""Shows the caller what a program cannot print."""

from __future__ import annotations

import os
from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ._client import ask, result_or_awaitable

if TYPE_CHECKING:
    from .content import Image

# The kinds of pixels that a PNG has.
_PNG_MODES = {"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"}
# The runtime shows figures too, but not one that the program saved and may have shown itself.
emitted_by_program = False


def emit_image(picture: bytes | bytearray | memoryview | str | os.PathLike[str] | Image | Any) -> Any:
    """Show the caller a picture: a matplotlib figure, a PIL image, the path of a file, or bytes.

    A file and bytes must be PNG, JPEG, GIF or WebP; the bytes tell which of these it is.
    """
    global emitted_by_program  # noqa: PLW0603
    emitted_by_program = True
    data = _bytes_of(picture)
    return result_or_awaitable(lambda: _emit(data))


def show_now(picture: Any) -> None:
    """Show a picture and return when it is shown, also where an event loop runs."""
    _emit(_bytes_of(picture))


def _emit(data: bytes | bytearray | memoryview) -> None:
    ask("/emit", f'{{"data": "{b64encode(data).decode()}"}}')


def _bytes_of(picture: Any) -> bytes | bytearray | memoryview:
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return picture
    if isinstance(picture, (str, os.PathLike)):
        with open(picture, "rb") as file:
            return file.read()
    if isinstance(data := getattr(picture, "data", None), (bytes, bytearray, memoryview)):
        return data
    # Neither matplotlib nor PIL is loaded to ask for its classes.
    drawn = BytesIO()
    if hasattr(picture, "savefig"):
        picture.savefig(drawn, format="png", bbox_inches="tight")
    elif hasattr(picture, "save") and hasattr(picture, "convert"):
        (picture if picture.mode in _PNG_MODES else picture.convert("RGB")).save(drawn, format="PNG")
    elif hasattr(figure := getattr(picture, "figure", None), "savefig"):  # what pandas returns of a plot
        return _bytes_of(figure)
    else:
        kinds = "a matplotlib figure, a PIL image, a path, bytes or an Image"
        raise TypeError(f"`picture` must be {kinds}, not {type(picture).__name__}.")
    return drawn.getvalue()
