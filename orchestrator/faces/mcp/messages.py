"""How much one message may hold, and which pictures fit into it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.domain.execution import Image
from orchestrator.domain.file_words import size_in_words

# The official Python client drops a larger event, and with it the whole reply.
MAX_MESSAGE_BYTES = 1024 * 1024
# Left for what is said beside pictures, or beside the content of a file.
TEXT_BYTES = 64 * 1024
# Base64 makes four bytes of three.
MAX_CONTENT_BYTES = (MAX_MESSAGE_BYTES - TEXT_BYTES) // 4 * 3
# What the protocol puts around a reply and its pictures, and what is said of those that do not fit.
FRAME_BYTES = 8 * 1024


def fitting(images: Iterable[Image], text_bytes: int) -> tuple[Image, ...]:
    """Return the pictures for which a message has room beside its text, in their order."""
    room = MAX_MESSAGE_BYTES - max(TEXT_BYTES, text_bytes + FRAME_BYTES)
    shown = []
    for image in images:
        size = (len(image.data) + 2) // 3 * 4
        if size <= room:
            room -= size
            shown.append(image)
    return tuple(shown)


def pictures_line(images: tuple[Image, ...], shown: tuple[Image, ...]) -> str:
    """Count the pictures, and say of those that are not shown how large they are and what to do."""
    left_out = [image for image in images if image not in shown]
    if not left_out:
        return f"Pictures: {len(images)}."
    sizes = ", ".join(size_in_words(len(image.data)) for image in left_out)
    those = "it" if len(left_out) == 1 else "them"
    return (
        f"Pictures: {len(shown)} of {len(images)}; not shown: {sizes}. A reply holds at most "
        f"{size_in_words(MAX_CONTENT_BYTES)} of pictures, and less beside a long output. Make {those} smaller, with a "
        f"lower dpi or as JPEG, or save {those} in /workspace/out: a person gets {those} with `code-executor files`."
    )
