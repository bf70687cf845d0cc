"""What a client is shown of a file that an execution left: pictures as pictures, text as text, the rest by its name."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import mcp_types as types

from orchestrator.domain.file_words import size_in_words
from orchestrator.domain.files import File
from orchestrator.faces.bodies import files_path
from orchestrator.faces.mcp.messages import MAX_CONTENT_BYTES
from orchestrator.service.files import StoredFile
from orchestrator.service.pictures import picture_type

SNIFFED_BYTES = 8 * 1024
# A search takes a thread; the longer it takes, the longer others wait.
MAX_SEARCHED_BYTES = 4 * 1024 * 1024
# A text in another encoding than UTF-8 has some characters that cannot be read, but not many.
MOST_UNREADABLE = 0.3


async def picture_in(stored: StoredFile) -> types.ImageContent | None:
    """Return a file as a picture, if it is one that a client takes; its bytes decide, not its name."""
    kind = picture_type(await stored.read(0, SNIFFED_BYTES))
    if kind is None or stored.file.bytes > MAX_CONTENT_BYTES:
        return None
    data = await stored.read(0, MAX_CONTENT_BYTES)
    return types.ImageContent(data=b64encode(data).decode(), mime_type=kind)


async def is_text(stored: StoredFile) -> bool:
    beginning = await stored.read(0, SNIFFED_BYTES)
    shown = beginning.decode(errors="replace")
    return b"\0" not in beginning and shown.count("\ufffd") <= MOST_UNREADABLE * len(shown) + 1


def searched_note(file: File) -> str:
    """Say that not all of a file was searched."""
    if file.bytes <= MAX_SEARCHED_BYTES:
        return ""
    searched = size_in_words(MAX_SEARCHED_BYTES)
    return f"\nOnly the first {searched} of {size_in_words(file.bytes)} were searched; let a program search the rest."


async def binary_text(execution_id: str, stored: StoredFile) -> str:
    """Say what a file is that cannot be shown, and how to get at it."""
    file, size = stored.file, size_in_words(stored.file.bytes)
    if picture_type(await stored.read(0, SNIFFED_BYTES)) is not None:
        said = f"a picture of {size}; at most {size_in_words(MAX_CONTENT_BYTES)} can be shown. Let a program shrink it"
    else:
        said = f"no text: {file.media_type}, {size}. Let a program read it"
    return (
        f"{file.name} of {execution_id} is {said}: "
        f'execute_code takes it as "files": [{{"name": …, "from": {{"execution": "{execution_id}"}}}}]. '
        f"A person gets it with `code-executor files {execution_id} --get NAME`, or from "
        f"{files_path(execution_id)}/{quote(file.name)}."
    )
