"""Gives the caller what a program cannot print: pictures, which are shown, and files, which are kept."""

from __future__ import annotations

import os
from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ._client import ask, result_or_awaitable

if TYPE_CHECKING:
    from .content import Image

# What is here when the program ends is handed to the caller.
_OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "out")
_COPIED_BYTES = 1024 * 1024
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


def emit_file(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Give the caller a file: copy it to /workspace/out, under its own name or another such as `reports/june.csv`.

    A file that is in /workspace/out is handed over anyway and stays as it is.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`path` must be the path of a file, not {type(path).__name__}.")
    source = os.path.abspath(path)
    if name is None:
        real, out = os.path.realpath(source), os.path.realpath(_OUT)
        name = os.path.relpath(real, out) if real.startswith(out + os.sep) else os.path.basename(source)
    if not isinstance(name, str) or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"`name` must be a relative path such as `reports/june.csv`, without `..`, not {name!r}.")
    target = os.path.join(_OUT, name)
    return result_or_awaitable(lambda: _copy(source, target))


def _copy(source: str, target: str) -> None:
    if os.path.isdir(source):
        raise IsADirectoryError(f"`path` must be a file, and {source} is a directory: emit its files one by one.")
    with open(source, "rb") as file:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.islink(target):
            os.unlink(target)  # a link is not handed over, and what it leads to is not ours to overwrite
        elif os.path.exists(target) and os.path.samefile(source, target):
            return
        with open(target, "wb") as copy:
            while piece := file.read(_COPIED_BYTES):
                copy.write(piece)


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
