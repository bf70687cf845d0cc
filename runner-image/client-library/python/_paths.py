"""Tells a program that its sandbox and a server have files of their own, though both may call them /workspace/..."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

_NOT_THERE = re.compile(
    "ENOENT|EACCES|no such file|not found|does not exist|doesn't exist|access denied|outside.{0,20}allowed|cannot find",
    re.IGNORECASE,
)


def hint_on_paths(message: str, arguments: Any) -> str | None:
    """Return what to do if a tool did not find a file that the sandbox has."""
    if not _NOT_THERE.search(message):
        return None
    path = next((text for text in _texts_in(arguments) if _is_in_sandbox(text)), None)
    if path is None:
        return None
    return (
        f"{path} is in the sandbox, and the tool's server has files of its own: "
        "read it here with open(), or pass its content to a tool that writes files."
    )


def _is_in_sandbox(text: str) -> bool:
    is_path = "/" in text.strip("/") and "\n" not in text and len(text) < 1024 and "\0" not in text
    return is_path and os.path.exists(text)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)
