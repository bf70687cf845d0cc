"""Which term speaks for which tool, and how strongly: BM25 over weighted fields, computed once."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter

from orchestrator.catalog.passages import Passages
from orchestrator.catalog.thesaurus import same_as

# What a term is worth to each tool that has it, by the tool's number; the worthiest first.
Posting = dict[int, float]


@dataclass(frozen=True, slots=True)
class FieldWeight:
    weight: float
    length_penalty: float


@dataclass(frozen=True, slots=True)
class Weights:
    name: FieldWeight = FieldWeight(3.0, 0.3)
    server: FieldWeight = FieldWeight(1.2, 0.3)
    first_sentence: FieldWeight = FieldWeight(1.5, 0.6)
    description: FieldWeight = FieldWeight(0.7, 0.6)
    parameters: FieldWeight = FieldWeight(0.6, 0.6)
    parameter_descriptions: FieldWeight = FieldWeight(0.2, 0.6)
    server_description: FieldWeight = FieldWeight(0.5, 0.5)
    saturation: float = 1.2
    same: float = 0.6
    hint: float = 0.55
    guess: float = 0.6
    name_coverage: float = 1.0
    same_name_again: float = 0.6


class Postings:
    def __init__(self, passages: Sequence[Passages], weights: Weights) -> None:
        self._count = len(passages)
        self._tools_of_term = _tools_of_term(passages)
        strengths = _strengths(passages, weights)
        self._rarity = {term: self._rarity_of(term) for term in set().union(*strengths)}
        impacts: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for tool, strength_of_term in enumerate(strengths):
            for term, strength in strength_of_term.items():
                impacts[term].append((tool, self._rarity[term] * strength / (strength + weights.saturation)))
        self.by_term: dict[str, Posting] = {
            term: dict(sorted(found, key=itemgetter(1), reverse=True)) for term, found in impacts.items()
        }

    def rarity(self, term: str) -> float:
        return self._rarity.get(term, 0.0)

    def _rarity_of(self, term: str) -> float:
        # "find" is rare in names only because others wrote "search": a word is as rare as all that mean the same.
        tools = self._tools_of_term.get(term, set()).union(
            *(self._tools_of_term[other] for other in same_as().get(term, ()) if other in self._tools_of_term)
        )
        return math.log(1 + (self._count - len(tools) + 0.5) / (len(tools) + 0.5))


def _tools_of_term(passages: Sequence[Passages]) -> Mapping[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for tool, passage in enumerate(passages):
        for term in {
            *passage.name,
            *passage.server,
            *passage.first_sentence,
            *passage.description,
            *passage.parameters,
        }:
            found[term].add(tool)
    return dict(found)


def _strengths(passages: Sequence[Passages], weights: Weights) -> list[dict[str, float]]:
    strengths: list[dict[str, float]] = [{} for _ in passages]
    for name in (each.name for each in fields(Passages)):
        texts: list[list[str]] = [getattr(passage, name) for passage in passages]
        _add_field(strengths, texts, getattr(weights, name))
    return strengths


def _add_field(strengths: Iterable[dict[str, float]], texts: list[list[str]], weight: FieldWeight) -> None:
    average = max(sum(map(len, texts)) / max(len(texts), 1), 1e-9)
    for strength_of_term, text in zip(strengths, texts, strict=True):
        share = weight.weight / (1 - weight.length_penalty + weight.length_penalty * len(text) / average)
        for term, count in Counter(text).items():
            strength_of_term[term] = strength_of_term.get(term, 0.0) + share * count
