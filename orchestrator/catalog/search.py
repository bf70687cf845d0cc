"""Finds the tools that a wish in plain words needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice

from orchestrator.catalog.lookups import Lookup, Lookups
from orchestrator.catalog.postings import Postings, Weights, read_passages
from orchestrator.catalog.queries import MAX_QUERIES, read_query
from orchestrator.domain.tools import Tool

MIN_CANDIDATES = 60
MAX_FAST_LIMIT = 100
# Candidates come from the first entries of each term's posting, as many as this allows; then all that a term says
# about them counts. So a query's time hardly grows with the catalog.
MAX_POSTINGS = 4000
DEFAULT_WEIGHTS = Weights()

Visible = Callable[[Tool], bool]
Numbers = frozenset[int]
Scored = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Hit:
    tool: Tool
    score: float


def always(_: Tool) -> bool:
    return True


class SearchIndex:
    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        server_descriptions: Mapping[str, str] | None = None,
        weights: Weights = DEFAULT_WEIGHTS,
    ) -> None:
        self._tools = tuple(tools)
        self._weights = weights
        passages = read_passages(self._tools, server_descriptions or {})
        postings = Postings(passages, weights)
        self._lookups = Lookups(postings, weights)
        # Of each tool's name, how much every term is of it: a rare one more than a common one.
        self._name_shares: list[list[tuple[str, float]]] = []
        for rarities in ({term: postings.rarity[term] for term in passage.name} for passage in passages):
            total = sum(rarities.values()) or 1.0
            self._name_shares.append([(term, rarity / total) for term, rarity in rarities.items()])
        by_server: defaultdict[str, list[int]] = defaultdict(list)
        for number, tool in enumerate(self._tools):
            by_server[tool.server].append(number)
        self._by_server = {server: frozenset(numbers) for server, numbers in by_server.items()}
        self._all = frozenset(range(len(self._tools)))

    def search(
        self,
        queries: Sequence[str],
        *,
        server: str | None = None,
        limit: int = 10,
        visible: Visible = always,
    ) -> list[Hit]:
        if limit <= 0:
            return []
        within = None if server is None else self._by_server.get(server, frozenset())
        distinct = list(dict.fromkeys(queries))[:MAX_QUERIES]
        answers = [self._answer(query, within, limit, visible) for query in distinct]
        merged = answers[0] if len(answers) == 1 else _take_turns(answers)
        return [Hit(self._tools[number], score) for number, score in merged[:limit]]

    def _answer(self, text: str, within: Numbers | None, limit: int, visible: Visible) -> list[Scored]:
        query = read_query(text)
        ranking = self._rank(query.terms, within, limit, visible)
        for file_terms in query.file_terms[: limit // 2]:
            # What reads or writes the file takes the last place, whatever the rest of the query is about.
            for number, score in self._rank(file_terms, within, 1, visible):
                if all(number != ranked for ranked, _ in ranking):
                    kept = ranking[: limit - 1]
                    ranking = [*kept, (number, min(score, kept[-1][1]) if kept else score)]
        return ranking

    def _rank(self, wanted: Sequence[str], within: Numbers | None, limit: int, visible: Visible) -> list[Scored]:
        lookups = self._lookups.of(wanted)
        if within is None and limit <= MAX_FAST_LIMIT:
            candidates = _scores_of_candidates(lookups, max(MIN_CANDIDATES, 2 * limit))
            found = self._ordered(lookups, candidates, limit, visible)
            # With some tools hidden, visible ones may lie beyond the candidates.
            if len(found) == limit or len(candidates) < MIN_CANDIDATES or visible is always:
                return found
        numbers = self._all if within is None else within
        return self._ordered(lookups, _scores_within(lookups, numbers), limit, visible)

    def _ordered(
        self, lookups: list[Lookup], scores: Mapping[int, float], limit: int, visible: Visible
    ) -> list[Scored]:
        weight_of = {lookup.term: lookup.weight for lookup in lookups}
        scored: list[Scored] = []
        for number, score in scores.items():
            covered = 0.0
            for term, share in self._name_shares[number]:
                if term in weight_of:
                    covered += share * weight_of[term]
            scored.append((number, score * (1 + self._weights.name_coverage * covered)))
        scored.sort(key=_best_first)
        shown = (each for each in scored if visible is always or visible(self._tools[each[0]]))
        names: set[str] = set()
        chosen = []
        for number, score in islice(shown, 2 * limit):
            # Of tools with the same name, those after the first make room for others.
            name = self._tools[number].name
            chosen.append((number, score * self._weights.same_name_again if name in names else score))
            names.add(name)
        return sorted(chosen, key=_best_first)[:limit]


def _best_first(scored: Scored) -> tuple[float, int]:
    return -scored[1], scored[0]


def _scores_of_candidates(lookups: list[Lookup], count: int) -> dict[int, float]:
    depth = MAX_POSTINGS // max(len(lookups), 1)
    scores: dict[int, float] = {}
    score_of = scores.get
    for lookup in lookups:
        weight = lookup.weight
        for number, impact in islice(lookup.posting.items(), depth):
            scores[number] = score_of(number, 0.0) + weight * impact
    candidates = scores
    if len(scores) > count:
        # Plain floats compare faster than pairs; tools that tie with the last one are kept, too.
        threshold = nlargest(count, scores.values())[-1]
        candidates = {number: score for number, score in scores.items() if score >= threshold}
    if all(len(lookup.posting) <= depth for lookup in lookups):
        return candidates
    return _scores_within(lookups, frozenset(candidates))


def _scores_within(lookups: list[Lookup], numbers: Numbers) -> dict[int, float]:
    scores: dict[int, float] = {}
    for lookup in lookups:
        for number in lookup.posting.keys() & numbers:
            scores[number] = scores.get(number, 0.0) + lookup.weight * lookup.posting[number]
    return scores


def _take_turns(answers: list[list[Scored]]) -> list[Scored]:
    """Put every query's best first, so that none is drowned out by another."""
    place_of: dict[int, int] = {}
    closeness_of: dict[int, float] = {}
    for answer in answers:
        for place, (number, score) in enumerate(answer):
            place_of[number] = min(place, place_of.get(number, place))
            closeness_of[number] = max(score / answer[0][1], closeness_of.get(number, 0.0))
    order = sorted(place_of, key=lambda number: (place_of[number], -closeness_of[number], number))
    return [(number, 1 / (1 + place_of[number])) for number in order]
