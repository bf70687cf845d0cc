"""From the words of a query to the terms that are looked up: themselves, their synonyms, what they hint at."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

from orchestrator.catalog.postings import Posting, Postings, Weights
from orchestrator.catalog.thesaurus import thesaurus

MAX_LOOKUPS = 48
MIN_LETTERS, MAX_LETTERS = 5, 20
MIN_PREFIX_LETTERS = 4
MAX_GUESSES = 3


@dataclass(frozen=True, slots=True)
class Lookup:
    term: str
    weight: float
    posting: Posting


class Lookups:
    def __init__(self, postings: Postings, weights: Weights) -> None:
        self._postings = postings
        self._guess = weights.guess
        self._spelling = Spelling(postings.by_term)
        self._related: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for related, share in ((thesaurus().hints, weights.hint), (thesaurus().same, weights.same)):
            for term, others in related.items():
                self._related[term].update({other: share for other in others if other in postings.by_term})

    def of(self, wanted: Sequence[str]) -> list[Lookup]:
        """Return each term with the highest weight that a wanted word gives it."""
        known = self._postings.by_term
        weight_of: dict[str, float] = {}
        for term in wanted:
            is_known = term in known or term in self._related
            weight = 1.0 if is_known else self._guess
            for meant in (term,) if is_known else self._spelling.guesses(term):
                weight_of[meant] = max(weight, weight_of.get(meant, 0.0))
                for other, share in self._related.get(meant, {}).items():
                    weight_of[other] = max(weight * share, weight_of.get(other, 0.0))
        found = [Lookup(term, weight, known[term]) for term, weight in weight_of.items() if term in known]
        if len(found) <= MAX_LOOKUPS:
            return found
        return nlargest(MAX_LOOKUPS, found, key=lambda lookup: lookup.weight * self._postings.rarity[lookup.term])


class Spelling:
    """Finds known terms for an unknown one: a slip of one letter, or a word that was not typed to its end."""

    def __init__(self, known: Iterable[str]) -> None:
        self._sorted = sorted(known)
        self._by_slip: defaultdict[str, list[str]] = defaultdict(list)
        for term in self._sorted:
            for slip in _slips(term):
                self._by_slip[slip].append(term)

    def guesses(self, term: str) -> list[str]:
        near = (known for slip in _slips(term) for known in self._by_slip.get(slip, ()))
        found = [known for known in dict.fromkeys(near) if known[0] == term[0]]
        if not found and len(term) >= MIN_PREFIX_LETTERS:
            start = bisect_left(self._sorted, term)
            found = [known for known in self._sorted[start : start + MAX_GUESSES] if known.startswith(term)]
        return found[:MAX_GUESSES]


def _slips(term: str) -> Iterator[str]:
    # Two words that differ by one letter added, lost, changed or swapped share a form with one letter left out.
    if MIN_LETTERS <= len(term) <= MAX_LETTERS and term.isascii() and term.isalpha():
        yield term
        yield from dict.fromkeys(term[:position] + term[position + 1 :] for position in range(len(term)))
