"""Finds the tools that a wish in plain words needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice

from orchestrator.catalog.lookups import Lookup, Lookups
from orchestrator.catalog.passages import MAX_FIELD_CHARACTERS, Passages, passages_of
from orchestrator.catalog.postings import Postings, Weights
from orchestrator.catalog.queries import Query, read_query
from orchestrator.catalog.words import terms
from orchestrator.domain.tools import Tool

MAX_QUERIES = 32
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
        passages = _passages(self._tools, server_descriptions or {})
        self._postings = Postings(passages, weights)
        self._lookups = Lookups(self._postings, weights)
        self._name_shares = [self._shares(passage.name) for passage in passages]
        self._all = frozenset(range(len(self._tools)))
        self._by_server = _numbers_by_server(self._tools)

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
        answers = [self._answer(read_query(query), within, limit, visible) for query in distinct]
        merged = answers[0] if len(answers) == 1 else _take_turns(answers)
        return [Hit(self._tools[number], score) for number, score in merged[:limit]]

    def _answer(self, query: Query, within: Numbers | None, limit: int, visible: Visible) -> list[Scored]:
        ranking = self._rank(query.terms, within, limit, visible)
        for file_terms in query.file_terms[: limit // 2]:
            ranking = _with_best_of(ranking, self._rank(file_terms, within, 1, visible), limit)
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
        scored = [(number, self._with_name(number, score, weight_of)) for number, score in scores.items()]
        scored.sort(key=_best_first)
        return self._namesakes_lowered(self._visible(scored, visible, 2 * limit))[:limit]

    def _with_name(self, number: int, score: float, weight_of: Mapping[str, float]) -> float:
        covered = 0.0
        for term, share in self._name_shares[number]:
            if term in weight_of:
                covered += share * weight_of[term]
        return score * (1 + self._weights.name_coverage * covered)

    def _visible(self, ordered: list[Scored], visible: Visible, limit: int) -> list[Scored]:
        if visible is always:
            return ordered[:limit]
        chosen: list[Scored] = []
        for number, score in ordered:
            if len(chosen) == limit:
                break
            if visible(self._tools[number]):
                chosen.append((number, score))
        return chosen

    def _namesakes_lowered(self, ordered: list[Scored]) -> list[Scored]:
        seen: set[str] = set()
        lowered = []
        for number, score in ordered:
            name = self._tools[number].name
            lowered.append((number, score * self._weights.same_name_again if name in seen else score))
            seen.add(name)
        return sorted(lowered, key=_best_first)

    def _shares(self, name: Iterable[str]) -> tuple[tuple[str, float], ...]:
        rarities = {term: self._postings.rarity(term) for term in name}
        total = sum(rarities.values()) or 1.0
        return tuple((term, rarity / total) for term, rarity in rarities.items())


def _best_first(scored: Scored) -> tuple[float, int]:
    return -scored[1], scored[0]


def _passages(tools: Sequence[Tool], server_descriptions: Mapping[str, str]) -> list[Passages]:
    servers = {tool.server for tool in tools}
    names = {server: terms(server) for server in servers}
    texts = {server: server_descriptions.get(server, "")[:MAX_FIELD_CHARACTERS] for server in servers}
    descriptions = {server: terms(text) for server, text in texts.items()}
    return [passages_of(tool, names[tool.server], descriptions[tool.server]) for tool in tools]


def _numbers_by_server(tools: Sequence[Tool]) -> dict[str, Numbers]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, tool in enumerate(tools):
        numbers[tool.server].append(number)
    return {server: frozenset(of_server) for server, of_server in numbers.items()}


def _scores_of_candidates(lookups: list[Lookup], count: int) -> dict[int, float]:
    depth = MAX_POSTINGS // max(len(lookups), 1)
    scores: dict[int, float] = {}
    for lookup in lookups:
        _add_scores(scores, lookup, depth)
    candidates = _strongest(scores, count)
    if all(len(lookup.posting) <= depth for lookup in lookups):
        return candidates
    return _scores_within(lookups, frozenset(candidates))


def _add_scores(scores: dict[int, float], lookup: Lookup, depth: int) -> None:
    weight, score_of = lookup.weight, scores.get
    for number, impact in islice(lookup.posting.items(), depth):
        scores[number] = score_of(number, 0.0) + weight * impact


def _strongest(scores: dict[int, float], count: int) -> dict[int, float]:
    if len(scores) <= count:
        return scores
    # Plain floats compare faster than pairs; tools with the score of the last one come along.
    threshold = nlargest(count, scores.values())[-1]
    return {number: score for number, score in scores.items() if score >= threshold}


def _scores_within(lookups: list[Lookup], numbers: Numbers) -> dict[int, float]:
    scores: dict[int, float] = {}
    for lookup in lookups:
        for number in lookup.posting.keys() & numbers:
            scores[number] = scores.get(number, 0.0) + lookup.weight * lookup.posting[number]
    return scores


def _with_best_of(ranking: list[Scored], best: list[Scored], limit: int) -> list[Scored]:
    if not best or any(number == best[0][0] for number, _ in ranking):
        return ranking
    kept = ranking[: limit - 1]
    lowest = min((score for _, score in kept), default=best[0][1])
    return [*kept, (best[0][0], min(best[0][1], lowest))]


def _take_turns(answers: list[list[Scored]]) -> list[Scored]:
    """Every query's best come first, so that none is drowned out by another."""
    place_of: dict[int, int] = {}
    closeness_of: dict[int, float] = {}
    for answer in answers:
        for place, (number, score) in enumerate(answer):
            place_of[number] = min(place, place_of.get(number, place))
            closeness_of[number] = max(score / answer[0][1], closeness_of.get(number, 0.0))
    order = sorted(place_of, key=lambda number: (place_of[number], -closeness_of[number], number))
    return [(number, 1 / (1 + place_of[number])) for number in order]
