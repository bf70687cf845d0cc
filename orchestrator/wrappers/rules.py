"""What the client library checks before it sends arguments: a small, bounded subset of JSON Schema.

Only what is certain is checked; where a type is vague, so is its rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.wrappers.types import (
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

Rule = Mapping[str, Any]


def input_rule(document: Document) -> Rule:
    found = _rule(document.root, document, 0)
    return found if "properties" in found else {"properties": {}}


def _rule(type_: Type, document: Document, depth: int) -> dict[str, Any]:
    match type_:
        case Primitive():
            return {"type": type_.value}
        case Constant():
            return {"enum": [type_.value]}
        case ListOf(item=item) if depth < _MAX_DEPTH and (items := _rule(item, document, depth + 1)):
            return {"type": "array", "items": items}
        case ListOf() | TupleOf():
            return {"type": "array"}
        case Record() if depth >= _MAX_DEPTH:
            return {"type": "object"}
        case Record(fields=fields, rest=rest):
            properties = {field.name: _rule(field.type, document, depth + 1) for field in fields}
            rule: dict[str, Any] = {"type": "object", "properties": properties}
            if required := [field.name for field in fields if field.required]:
                rule["required"] = required
            if rest is not None:
                rule["additionalProperties"] = not isinstance(rest, Never)
            return rule
        case OneOf():
            return _union_rule(type_, document, depth)
        case Reference() if depth <= _MAX_DEPTH:
            return _rule(document.definitions[type_.pointer], document, depth + 1)
        case Reference() | Unknown() | Never() | Content():
            return {}


def _union_rule(union: OneOf, document: Document, depth: int) -> dict[str, Any]:
    constants, rules = [], []
    for option in union.options:
        if isinstance(option, Constant):
            constants.append(option.value)
            continue
        rule = _rule(option, document, depth + 1)
        # Of several objects, which one was meant is not certain enough to complain about its fields.
        rules.append({"type": rule["type"]} if rule.get("type") in {"object", "array"} else rule)
    if not all(rules):
        return {}
    if constants:
        rules.append({"enum": constants})
    return rules[0] if len(rules) == 1 else {"anyOf": rules}
