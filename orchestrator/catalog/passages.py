"""What of a tool is searched, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.catalog.sentences import split_first_sentence
from orchestrator.catalog.words import terms
from orchestrator.domain.tools import Tool

MAX_FIELD_CHARACTERS = 4000
MAX_SCHEMA_DEPTH = 3
MAX_PARAMETERS = 200


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


def passages_of(tool: Tool, server_terms: list[str], server_description: list[str]) -> Passages:
    first, rest = split_first_sentence(tool.description[:MAX_FIELD_CHARACTERS])
    parameters = list(_parameters(tool.input_schema))[:MAX_PARAMETERS]
    return Passages(
        name=terms(tool.name),
        server=server_terms,
        first_sentence=terms(f"{tool.title or ''} {first}"),
        description=terms(rest),
        parameters=terms(" ".join(name for name, _ in parameters)),
        parameter_descriptions=terms(" ".join(text for _, text in parameters)[:MAX_FIELD_CHARACTERS]),
        server_description=server_description,
    )


def _parameters(schema: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, Mapping) or depth > MAX_SCHEMA_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, property_schema in properties.items():
            yield str(name), _description(property_schema)
            yield from _parameters(property_schema, depth + 1)
    yield from _parameters(schema.get("items"), depth + 1)


def _description(schema: Any) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return text if isinstance(text, str) else ""
