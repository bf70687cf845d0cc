"""General English knowledge that a catalog's own words do not hold: what means the same, and what a wish needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from orchestrator.catalog.words import read_entries, stem


@dataclass(frozen=True, slots=True)
class Thesaurus:
    """Stems, with the stems that mean the same and with those that they make likely."""

    same: Mapping[str, tuple[str, ...]]
    hints: Mapping[str, tuple[str, ...]]


@cache
def thesaurus() -> Thesaurus:
    """Read the thesaurus, once."""
    same: defaultdict[str, set[str]] = defaultdict(set)
    hints: defaultdict[str, set[str]] = defaultdict(set)
    for line in read_entries("thesaurus.txt"):
        left, _, right = line.partition(":")
        words, hinted = ({stem(word) for word in side.split()} for side in (left, right))
        for word in words:
            if hinted:
                hints[word] |= hinted - {word}
            else:
                same[word] |= words - {word}
    # The order of a set of strings differs between processes, and with it the last digits of sums of scores.
    return Thesaurus(
        {word: tuple(sorted(others)) for word, others in same.items()},
        {word: tuple(sorted(others)) for word, others in hints.items()},
    )
