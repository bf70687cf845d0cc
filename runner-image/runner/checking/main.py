"""Lets a language's compiler look at the program, and prints what it surely got wrong.

Most programs are right, and wait for this: what only tells mistakes apart is loaded when a compiler complains.
"""

from __future__ import annotations

import gc
import os
import sys
from _collections_abc import Iterator

from checking import compiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from checking.mistakes import Mistake

# One mistake leads to others; the first few are enough to mend the program.
_MAX_MISTAKES = 8
_ENOUGH = 2 * _MAX_MISTAKES
_NONE = b'{"mistakes": []}'


def main(language: str, workspace: str) -> None:
    gc.disable()  # it would look through the program's tree again and again
    os.chdir(workspace)
    mistakes = _in_python(workspace) if language == "python" else _in_typescript(workspace)
    os.write(sys.stdout.fileno(), _NONE if mistakes is None else _told(mistakes))


def _in_typescript(workspace: str) -> Iterator[Mistake] | None:
    said = compiler.tsc(f"{workspace}/main.ts").said()
    if "main.ts(" not in said:
        return None
    from checking import typescript

    return typescript.mistakes_in(workspace, said)


def _in_python(workspace: str) -> Iterator[Mistake] | None:
    path = f"{workspace}/main.py"
    with open(path, "rb") as file:
        code = file.read()
    # What is wrong with async code ty cannot tell, to which a call gives its result, nor which modules `servers` has.
    is_for_ty = not any(word in code for word in (b"await", b"async", b"from servers import"))
    said = compiler.ty(workspace, path).said() if is_for_ty else None
    if said and ": error[" not in said:
        return None
    from checking import python

    return python.mistakes_in(workspace, code, said)


def _told(mistakes: Iterator[Mistake]) -> bytes:
    import json

    from checking.mistakes import as_told

    found: set[Mistake] = set()
    for mistake in mistakes:
        found.add(mistake)
        if len(found) >= _ENOUGH:  # to judge all that is said of a large program would take too long
            break
    return json.dumps({"mistakes": list(as_told(sorted(found)[:_MAX_MISTAKES]))}).encode()
