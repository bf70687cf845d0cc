"""Knows the command that starts each language's runtime."""

from __future__ import annotations

import os
import sys

from supervision import cgroup

LANGUAGES = ("typescript", "python")

_RUNNER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NODE = "/usr/local/bin/node"
_PYTHON = "/usr/bin/python3"
_MAIN_FILES = {"typescript": "main.ts", "python": "main.py"}
_FALLBACK_HEAP_BYTES = 1024 * 1024 * 1024


def main_file(language: str, workspace: str) -> str:
    """Name the file that a program is run from."""
    return f"{workspace}/{_MAIN_FILES[language]}"


def checker(language: str, workspace: str) -> list[str]:
    """Return the command that checks the program in its file, whatever its language; it is written in Python."""
    return [sys.executable or _PYTHON, "-I", "-S", "-B", f"{_RUNNER}/checker.py", language, workspace]


def command(language: str, workspace: str, interpreter: str | None = None) -> list[str]:
    """Return the command that waits for a program in this language."""
    if language == "python":
        return [interpreter or _PYTHON, "-I", "-B", "-u", f"{_RUNNER}/python/program.py"]
    if language != "typescript":
        raise ValueError(f"the language must be one of {', '.join(LANGUAGES)}, not {language!r}")
    # V8 would abort at about half of the memory limit; the cgroup is what ends a program that wants too much.
    heap_bytes = cgroup.memory_limit_bytes() or _FALLBACK_HEAP_BYTES
    return [
        interpreter or _NODE,
        f"--max-old-space-size={heap_bytes // (1024 * 1024)}",
        f"--import={_RUNNER}/typescript/program.mjs",
        main_file(language, workspace),
    ]
