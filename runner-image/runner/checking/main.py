"""Lets a language's compiler look at the program, and prints what it surely got wrong."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from checking.mistakes import Mistake, as_told

# One mistake leads to others; the first few are enough to mend the program.
_MAX_MISTAKES = 8


def main(language: str, workspace: str) -> None:
    os.chdir(workspace)
    found = sorted(set(_mistakes(language, workspace)))[:_MAX_MISTAKES]
    os.write(sys.stdout.fileno(), json.dumps({"mistakes": list(as_told(found))}).encode())


def _mistakes(language: str, workspace: str) -> Iterator[Mistake]:
    """Load the check of one language only: time counts."""
    if language == "python":
        from checking import python

        return python.mistakes_in(workspace)
    from checking import typescript

    return typescript.mistakes_in(workspace)
