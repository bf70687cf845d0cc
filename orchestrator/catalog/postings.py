"""Which term speaks for which tool, and how strongly: BM25 over weighted fields, computed once."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from operator import itemgetter

from orchestrator.catalog.thesaurus import thesaurus
from orchestrator.catalog.words import split_first_sentence, terms
from orchestrator.domain.tools import Tool

MAX_FIELD_CHARACTERS = 4000
MAX_SCHEMA_DEPTH = 3
MAX_PARAMETERS = 200
# A server that makes up words would fill the memory with their spellings. Real ones have up to a thousand.
MAX_TERMS_OF_A_SERVER = 5000

# What a term is worth to each tool that has it, by the tool's number; the worthiest first.
Posting = dict[int, float]


@dataclass(frozen=True, slots=True)
class FieldWeight:
    weight: float
    length_penalty: float


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each field and each kind of match counts; chosen on the annotated tasks that bench/search.py reads."""

    name: FieldWeight = FieldWeight(3.0, 0.3)
    server: FieldWeight = FieldWeight(1.2, 0.3)
    first_sentence: FieldWeight = FieldWeight(1.5, 0.6)
    description: FieldWeight = FieldWeight(0.7, 0.6)
    parameters: FieldWeight = FieldWeight(0.6, 0.6)
    parameter_descriptions: FieldWeight = FieldWeight(0.2, 0.6)
    server_description: FieldWeight = FieldWeight(0.5, 0.5)
    saturation: float = 1.2
    same: float = 0.6
    hint: float = 0.85
    guess: float = 0.6
    name_coverage: float = 0.6
    same_name_again: float = 0.6


@dataclass(frozen=True, slots=True)
class Passages:
    """The terms of one tool; what its author put first weighs most."""

    name: list[str]
    server: list[str]
    first_sentence: list[str]
    description: list[str]
    parameters: list[str]
    parameter_descriptions: list[str]
    server_description: list[str]


def read_passages(tools: Sequence[Tool], server_descriptions: Mapping[str, str]) -> list[Passages]:
    servers = {tool.server for tool in tools}
    server_names = {server: terms(server) for server in servers}
    about = {server: terms(server_descriptions.get(server, "")[:MAX_FIELD_CHARACTERS]) for server in servers}
    vocabularies = {server: _Vocabulary() for server in servers}
    names = [vocabularies[tool.server].read(tool.name) for tool in tools]  # these matter most, so they are known first
    passages = []
    for tool, name in zip(tools, names, strict=True):
        first, rest = split_first_sentence(tool.description[:MAX_FIELD_CHARACTERS])
        parameters = list(islice(_parameters(tool.input_schema), MAX_PARAMETERS))
        read = vocabularies[tool.server].read
        passage = Passages(
            name=name,
            server=server_names[tool.server],
            first_sentence=read(f"{(tool.title or '')[:MAX_FIELD_CHARACTERS]} {first}"),
            description=read(rest),
            parameters=read(" ".join(name for name, _ in parameters)[:MAX_FIELD_CHARACTERS]),
            parameter_descriptions=read(" ".join(text for _, text in parameters)[:MAX_FIELD_CHARACTERS]),
            server_description=about[tool.server],
        )
        passages.append(passage)
    return passages


class _Vocabulary:
    """The terms of one server, as many as there may be; those that come too late are passed over."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def read(self, text: str) -> list[str]:
        found = terms(text)
        if len(self._known) < MAX_TERMS_OF_A_SERVER:
            self._known.update(found)
            return found
        return [term for term in found if term in self._known]


def _parameters(schema: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the names of parameters, also of nested ones, with their descriptions."""
    if not isinstance(schema, Mapping) or depth > MAX_SCHEMA_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, part in properties.items():
            text = part.get("description") if isinstance(part, Mapping) else None
            yield str(name), text if isinstance(text, str) else ""
            yield from _parameters(part, depth + 1)
    yield from _parameters(schema.get("items"), depth + 1)


class Postings:
    def __init__(self, passages: Sequence[Passages], weights: Weights) -> None:
        strengths = _strengths(passages, weights)
        self.rarity = _rarities(passages, set().union(*strengths))
        impacts: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for tool, strength_of_term in enumerate(strengths):
            for term, strength in strength_of_term.items():
                impacts[term].append((tool, self.rarity[term] * strength / (strength + weights.saturation)))
        self.by_term: dict[str, Posting] = {
            term: dict(sorted(found, key=itemgetter(1), reverse=True)) for term, found in impacts.items()
        }


def _strengths(passages: Sequence[Passages], weights: Weights) -> list[dict[str, float]]:
    """Return for each tool how much each of its terms counts, over all fields and their lengths."""
    strengths: list[dict[str, float]] = [{} for _ in passages]
    for name in (each.name for each in fields(Passages)):
        texts: list[list[str]] = [getattr(passage, name) for passage in passages]
        field: FieldWeight = getattr(weights, name)
        average = max(sum(map(len, texts)) / max(len(texts), 1), 1e-9)
        for strength_of_term, text in zip(strengths, texts, strict=True):
            share = field.weight / (1 - field.length_penalty + field.length_penalty * len(text) / average)
            for term, count in Counter(text).items():
                strength_of_term[term] = strength_of_term.get(term, 0.0) + share * count
    return strengths


def _rarities(passages: Sequence[Passages], wanted: set[str]) -> dict[str, float]:
    tools_of_term: defaultdict[str, set[int]] = defaultdict(set)
    for tool, passage in enumerate(passages):
        told = (passage.name, passage.server, passage.first_sentence, passage.description, passage.parameters)
        for term in {term for text in told for term in text}:
            tools_of_term[term].add(tool)
    rarities = {}
    for term in wanted:
        # "find" is rare in names only because others wrote "search": a word is as rare as all that mean the same.
        alike = (term, *thesaurus().same.get(term, ()))
        count = len(set().union(*(tools_of_term[each] for each in alike if each in tools_of_term)))
        rarities[term] = math.log(1 + (len(passages) - count + 0.5) / (count + 0.5))
    return rarities
