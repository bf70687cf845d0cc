"""The difference between two texts, line by line, within a bounded number of steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate

MOST_STEPS = 1_000_000  # up to a tenth of a second
_LINES_AROUND = 3


class TooDifferent(Exception):
    """To compare the texts would take too many steps."""


class _BoundedMatcher(SequenceMatcher[str]):
    """Count what `SequenceMatcher` is going to do: for crafted texts, it grows with the cube of their lines."""

    b2j: dict[str, list[int]]  # documented, but not in its types

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new)
        pairs = (1 + len(self.b2j.get(line, ())) for line in old)  # it looks at each line that is the same
        self._steps_before = [0, *accumulate(pairs)]
        self._steps = 0

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        end = len(self._steps_before) - 1 if ahi is None else ahi
        self._steps += self._steps_before[end] - self._steps_before[alo]
        if self._steps > MOST_STEPS:
            raise TooDifferent
        return super().find_longest_match(alo, ahi, blo, bhi)


def hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Return the lines of a unified diff without its first two; raise `TooDifferent` before any of them."""
    groups = list(_BoundedMatcher(old, new).get_grouped_opcodes(_LINES_AROUND))
    return (line for group in groups for line in _hunk(old, new, group))


def _hunk(old: Sequence[str], new: Sequence[str], group: list[tuple[str, int, int, int, int]]) -> Iterator[str]:
    (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
    yield f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"
    for what, old_start, old_end, new_start, new_end in group:
        if what == "equal":
            yield from (f" {line}" for line in old[old_start:old_end])
        else:
            yield from (f"-{line}" for line in old[old_start:old_end])
            yield from (f"+{line}" for line in new[new_start:new_end])


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + 1 if length else start},{length}" if length != 1 else f"{start + 1}"
