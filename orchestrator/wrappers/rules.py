"""What the client library checks before it sends arguments: a small, bounded subset of JSON Schema.

Only what is certain is checked; where a type is vague, so is its rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.wrappers.types import (
    AnyJson,
    Constant,
    Content,
    Document,
    ListOf,
    Never,
    OneOf,
    Primitive,
    Record,
    Reference,
    TupleOf,
    Type,
    Unknown,
)

_MAX_DEPTH = 4
_MAX_PARTS = 4000
_CHARACTERS_OF_A_PART = 32

Rule = Mapping[str, Any]


def input_rule(document: Document) -> Rule:
    found = _Writer(document).rule(document.root, 0)
    return found if "properties" in found else {"properties": {}}


class _Writer:
    """A definition is repeated wherever something refers to it, so that there is an end to what is written."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._parts = 0

    def rule(self, type_: Type, depth: int) -> dict[str, Any]:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            return {}
        match type_:
            case Primitive():
                return {"type": type_.value}
            case Constant():
                self._parts += len(type_.text) // _CHARACTERS_OF_A_PART
                return {"enum": [type_.value]}
            case ListOf(item=item) if depth < _MAX_DEPTH and (items := self.rule(item, depth + 1)):
                return {"type": "array", "items": items}
            case ListOf() | TupleOf():
                return {"type": "array"}
            case Record() if depth >= _MAX_DEPTH:
                return {"type": "object"}
            case Record(fields=fields, rest=rest):
                self._parts += sum(len(field.name) for field in fields) // _CHARACTERS_OF_A_PART
                properties = {field.name: self.rule(field.type, depth + 1) for field in fields}
                rule: dict[str, Any] = {"type": "object", "properties": properties}
                if required := [field.name for field in fields if field.required]:
                    rule["required"] = required
                if rest is not None:
                    rule["additionalProperties"] = not isinstance(rest, Never)
                return rule
            case OneOf():
                return self._union(type_, depth)
            case Reference() if depth <= _MAX_DEPTH:
                return self.rule(self._document.definitions[type_.pointer], depth + 1)
            case Reference() | Unknown() | AnyJson() | Never() | Content():
                return {}

    def _union(self, union: OneOf, depth: int) -> dict[str, Any]:
        constants, rules = [], []
        for option in union.options:
            if isinstance(option, Constant):
                self._parts += 1 + len(option.text) // _CHARACTERS_OF_A_PART
                constants.append(option.value)
                continue
            rule = self.rule(option, depth + 1)
            # Of several objects, which one was meant is not certain enough to complain about its fields.
            rules.append({"type": rule["type"]} if rule.get("type") in {"object", "array"} else rule)
        if not all(rules):
            return {}
        if constants:
            rules.append({"enum": constants})
        return rules[0] if len(rules) == 1 else {"anyOf": rules}
