"""From the words of a query to the terms that are looked up: themselves, their synonyms, what they hint at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

from orchestrator.catalog.postings import Posting, Postings, Weights
from orchestrator.catalog.spelling import Spelling
from orchestrator.catalog.thesaurus import hinted_by, same_as

MAX_LOOKUPS = 48


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
        self._related = _related_terms(postings, weights)

    def of(self, wanted: Sequence[str]) -> list[Lookup]:
        weight_of: dict[str, float] = {}
        for term in wanted:
            if term in self._postings.by_term or term in self._related:
                self._weigh(term, 1.0, weight_of)
            else:
                for guess in self._spelling.guesses(term):
                    self._weigh(guess, self._guess, weight_of)
        known = self._postings.by_term
        found = [Lookup(term, weight, known[term]) for term, weight in weight_of.items() if term in known]
        return found if len(found) <= MAX_LOOKUPS else nlargest(MAX_LOOKUPS, found, key=self._worth)

    def _weigh(self, term: str, weight: float, weight_of: dict[str, float]) -> None:
        _raise_to(weight_of, term, weight)
        for other, share in self._related.get(term, ()):
            _raise_to(weight_of, other, weight * share)

    def _worth(self, lookup: Lookup) -> float:
        return lookup.weight * self._postings.rarity(lookup.term)


def _related_terms(postings: Postings, weights: Weights) -> dict[str, tuple[tuple[str, float], ...]]:
    share_of: dict[str, dict[str, float]] = {}
    for related, share in ((hinted_by(), weights.hint), (same_as(), weights.same)):
        for term, others in related.items():
            known = {other: share for other in others if other in postings.by_term}
            share_of.setdefault(term, {}).update(known)
    return {term: tuple(shares.items()) for term, shares in share_of.items()}


def _raise_to(weight_of: dict[str, float], term: str, weight: float) -> None:
    if weight_of.get(term, 0.0) < weight:
        weight_of[term] = weight
