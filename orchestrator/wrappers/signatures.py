"""What signatures and examples have in common in every language: how much of a type is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orchestrator.wrappers.contract import Contract
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

_MAX_CHARACTERS = 400
_MAX_OPTIONS = 12
_MAX_PIECES = 10_000
_MAX_EXAMPLE_DEPTH = 4
_MAX_EXAMPLE_VALUES = 1000

_OF_A_FILE = re.compile("file|read|write|edit", re.IGNORECASE)
_OF_A_DIRECTORY = re.compile("director|folder|list|search|tree|info", re.IGNORECASE)
_EXAMPLES: Mapping[Primitive, Any] = {
    Primitive.NUMBER: 1.5,
    Primitive.INTEGER: 1,
    Primitive.BOOLEAN: True,
    Primitive.NULL: None,
}


class TooLong(Exception):
    """Definitions that refer to each other would be written again and again."""


class Pieces:
    """Counts what one text is made of; there is an end to it."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        self._count += 1
        if self._count > _MAX_PIECES:
            raise TooLong


def short_enough(write: Callable[[int, Pieces], str]) -> str:
    """Return what `write` makes of the greatest depth that gives a short text."""
    text = ""
    for depth in (3, 2, 1):
        with suppress(TooLong):
            text = write(depth, Pieces())
            if len(text) <= _MAX_CHARACTERS:
                return text
    return f"{text[: 3 * _MAX_CHARACTERS]}…" if len(text) > 3 * _MAX_CHARACTERS else text


@dataclass(frozen=True, slots=True)
class Notation:
    """How a language spells types on one line."""

    primitives: Mapping[Primitive, str]
    unknown: str
    any_json: str
    any_record: str
    record: str
    map_of: Callable[[str], str]
    separator: str
    literal: Callable[[Any], str]
    key: Callable[[str], str]
    list_of: Callable[[str], str]

    def of(self, type_: Type, document: Document, depth: int, pieces: Pieces) -> str:
        """Spell a type; how much of it is shown depends on the depth that is left."""
        pieces.add()
        match type_:
            case Primitive():
                return self.primitives[type_]
            case Content():
                return type_.value
            case Constant():
                return self.literal(type_.value)
            case ListOf(item=item):
                return self.list_of(self.of(item, document, depth, pieces))
            case TupleOf(items=items):
                return f"[{', '.join(self.of(item, document, depth, pieces) for item in items)}]"
            case Record(fields=fields) if fields and depth > 0:
                members = []
                for field in fields:
                    spelled = self.of(field.type, document, depth - 1, pieces)
                    members.append(f"{self.key(field.name)}{'' if field.required else '?'}: {spelled}")
                return self.record.format(self.separator.join(members))
            case Record(rest=rest) if not isinstance(rest, Unknown | Never | None) and depth > 0:
                return self.map_of(self.of(rest, document, depth - 1, pieces))
            case Record():
                return self.any_record
            case OneOf(options=options):
                each = list(dict.fromkeys(self.of(option, document, depth, pieces) for option in options))
                return " | ".join(each if len(each) <= _MAX_OPTIONS else [*each[:_MAX_OPTIONS], "…"])
            case Reference(pointer=pointer):
                found = document.definitions[pointer]
                return self.of(found, document, depth - 1, pieces) if depth > 0 else self.unknown
            case AnyJson():
                return self.any_json
            case Unknown() | Never():
                return self.unknown


def example_arguments(contract: Contract) -> dict[str, Any]:
    """Return a value for each argument that is required: one that the schema gives, or one that usually works."""
    found = _Example(contract).value(contract.input.root, "", 0)
    return found if isinstance(found, dict) else {}


class _Example:
    def __init__(self, contract: Contract) -> None:
        self._tool = contract.tool
        self._document = contract.input
        self._values = 0

    def value(self, type_: Type, name: str, depth: int) -> Any:
        self._values += 1
        if self._values > _MAX_EXAMPLE_VALUES or depth > _MAX_EXAMPLE_DEPTH:
            return None
        match type_:
            case Primitive.STRING:
                return self._text(name)
            case Primitive():
                return _EXAMPLES[type_]
            case Constant(value=value):
                return value
            case ListOf(item=item):
                return [self.value(item, name.removesuffix("s"), depth + 1)]
            case TupleOf(items=items):
                return [self.value(item, name, depth + 1) for item in items]
            case Record(fields=fields):
                return {
                    field.name: field.examples[0] if field.examples else self.value(field.type, field.name, depth + 1)
                    for field in fields
                    if field.required
                }
            case OneOf(options=options):
                return self.value(options[0], name, depth)
            case Reference(pointer=pointer):
                return self.value(self._document.definitions[pointer], name, depth + 1)
            case Unknown() | AnyJson() | Never() | Content():
                return "..."

    def _text(self, argument: str) -> str:
        """Return what works for most tools with an argument of this name, or else a placeholder that looks like one."""
        about = f"{self._tool.name} {self._tool.description if isinstance(self._tool.description, str) else ''}".lower()
        match argument.lower():
            case "sql":
                return "select 1"
            case "query" if "sql" in about:
                return "select 1"
            case "query" | "q":
                return "example"
            case "path" | "directory" | "dir" | "folder":
                is_file = _OF_A_FILE.search(self._tool.name) and not _OF_A_DIRECTORY.search(self._tool.name)
                return "/workspace/example.txt" if is_file else "/workspace"
            case "url" | "uri":
                return "https://example.com/"
            case _:
                return "..."
