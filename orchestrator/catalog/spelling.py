"""Known terms for an unknown one: a slip of one letter, or a word that was not typed to its end."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

MIN_LETTERS, MAX_LETTERS = 5, 20
MIN_PREFIX_LETTERS = 4
MAX_GUESSES = 3


class Spelling:
    def __init__(self, known: Iterable[str]) -> None:
        self._sorted = sorted(known)
        self._by_slip: defaultdict[str, list[str]] = defaultdict(list)
        for term in filter(_is_spellable, self._sorted):
            for slip in _slips(term):
                self._by_slip[slip].append(term)

    def guesses(self, term: str) -> list[str]:
        return (self._one_slip_away(term) or self._continuations(term))[:MAX_GUESSES]

    def _one_slip_away(self, term: str) -> list[str]:
        if not _is_spellable(term):
            return []
        near = (known for slip in _slips(term) for known in self._by_slip.get(slip, ()))
        return [known for known in dict.fromkeys(near) if known[0] == term[0]]

    def _continuations(self, term: str) -> list[str]:
        if len(term) < MIN_PREFIX_LETTERS:
            return []
        start = bisect_left(self._sorted, term)
        return [known for known in self._sorted[start : start + MAX_GUESSES] if known.startswith(term)]


def _is_spellable(term: str) -> bool:
    return MIN_LETTERS <= len(term) <= MAX_LETTERS and term.isascii() and term.isalpha()


def _slips(term: str) -> Iterator[str]:
    # Two words that differ by one letter added, lost, changed or swapped share a form with one letter left out.
    yield term
    yield from {term[:position] + term[position + 1 :] for position in range(len(term))}
