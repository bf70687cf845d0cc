"""What signatures and examples have in common in every language: how much of a type is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.wrappers.contract import Contract
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

_MAX_CHARACTERS = 400
_MAX_OPTIONS = 12
_MAX_EXAMPLE_DEPTH = 4

_EXAMPLES: Mapping[Primitive, Any] = {
    Primitive.STRING: "...",
    Primitive.NUMBER: 1.5,
    Primitive.INTEGER: 1,
    Primitive.BOOLEAN: True,
    Primitive.NULL: None,
}


def short_enough(write: Callable[[int], str]) -> str:
    """Return what `write` makes of the greatest depth that gives a short text."""
    for depth in (3, 2, 1):
        text = write(depth)
        if len(text) <= _MAX_CHARACTERS:
            return text
    return f"{text[: 3 * _MAX_CHARACTERS]}…" if len(text) > 3 * _MAX_CHARACTERS else text


@dataclass(frozen=True, slots=True)
class Notation:
    """How a language spells types on one line."""

    primitives: Mapping[Primitive, str]
    unknown: str
    any_record: str
    record: str
    separator: str
    literal: Callable[[Any], str]
    key: Callable[[str], str]
    list_of: Callable[[str], str]

    def of(self, type_: Type, document: Document, depth: int) -> str:
        """Spell a type; how much of it is shown depends on the depth that is left."""
        match type_:
            case Primitive():
                return self.primitives[type_]
            case Content():
                return type_.value
            case Constant():
                return self.literal(type_.value)
            case ListOf(item=item):
                return self.list_of(self.of(item, document, depth))
            case TupleOf(items=items):
                return f"[{', '.join(self.of(item, document, depth) for item in items)}]"
            case Record(fields=fields) if fields and depth > 0:
                members = [
                    f"{self.key(field.name)}{'' if field.required else '?'}: {self.of(field.type, document, depth - 1)}"
                    for field in fields
                ]
                return self.record.format(self.separator.join(members))
            case Record():
                return self.any_record
            case OneOf(options=options):
                spelled = list(dict.fromkeys(self.of(option, document, depth) for option in options))
                return " | ".join(spelled if len(spelled) <= _MAX_OPTIONS else [*spelled[:_MAX_OPTIONS], "…"])
            case Reference(pointer=pointer):
                return self.of(document.definitions[pointer], document, depth - 1) if depth > 0 else self.unknown
            case Unknown() | Never():
                return self.unknown


def example_arguments(contract: Contract) -> dict[str, Any]:
    """Return a value for each argument that is required: one that the schema gives, or a placeholder."""
    found = _example(contract.input.root, contract.input, 0)
    return found if isinstance(found, dict) else {}


def _example(type_: Type, document: Document, depth: int) -> Any:
    if depth > _MAX_EXAMPLE_DEPTH:
        return None
    match type_:
        case Primitive():
            return _EXAMPLES[type_]
        case Constant(value=value):
            return value
        case ListOf(item=item):
            return [_example(item, document, depth + 1)]
        case TupleOf(items=items):
            return [_example(item, document, depth + 1) for item in items]
        case Record(fields=fields):
            return {
                field.name: field.examples[0] if field.examples else _example(field.type, document, depth + 1)
                for field in fields
                if field.required
            }
        case OneOf(options=options):
            return _example(options[0], document, depth)
        case Reference(pointer=pointer):
            return _example(document.definitions[pointer], document, depth + 1)
        case Unknown() | Never() | Content():
            return "..."
