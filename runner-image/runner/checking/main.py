"""Lets a language's compiler look at the program, and prints what it surely got wrong."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator

from checking.mistakes import Mistake, as_told

# One mistake leads to others; the first few are enough to mend the program.
_MAX_MISTAKES = 8
_ENOUGH = 2 * _MAX_MISTAKES


def main(language: str, workspace: str) -> None:
    gc.disable()  # it would look through the program's tree again and again
    os.chdir(workspace)
    found = sorted(_first_mistakes(language, workspace))[:_MAX_MISTAKES]
    os.write(sys.stdout.fileno(), json.dumps({"mistakes": list(as_told(found))}).encode())


def _first_mistakes(language: str, workspace: str) -> set[Mistake]:
    """Return a few: to judge all that a compiler says of a large program would take too long."""
    found: set[Mistake] = set()
    for mistake in _mistakes(language, workspace):
        found.add(mistake)
        if len(found) >= _ENOUGH:
            break
    return found


def _mistakes(language: str, workspace: str) -> Iterator[Mistake]:
    """Load the check of one language only: time counts."""
    if language == "python":
        from checking import python

        return python.mistakes_in(workspace)
    from checking import typescript

    return typescript.mistakes_in(workspace)
