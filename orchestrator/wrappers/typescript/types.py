"""Spells types in TypeScript: in full for a module, in brief for a signature."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.wrappers.contract import TypeNames, pascal
from orchestrator.wrappers.signatures import Notation
from orchestrator.wrappers.types import (
    ROOT,
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
from orchestrator.wrappers.typescript.text import comment, key, literal, note

JSON_VALUE = "JsonValue"  # the client library defines it

_PRIMITIVES = {
    Primitive.STRING: "string",
    Primitive.NUMBER: "number",
    Primitive.INTEGER: "number",
    Primitive.BOOLEAN: "boolean",
    Primitive.NULL: "null",
}


def declarations(document: Document, root_name: str, names: TypeNames, about_root: str = "") -> list[str]:
    """Return one exported type for each definition of the document and each object inside, the root first."""
    spelling = _Spelling(names, names.for_definitions(root_name, document))
    for pointer, name in spelling.named.items():
        spelling.declare(name, document.definitions[pointer], about_root if pointer == ROOT else "")
    return spelling.texts


class _Spelling:
    def __init__(self, names: TypeNames, named: Mapping[str, str]) -> None:
        self._names = names
        self.named = named
        self.texts: list[str] = []

    def declare(self, name: str, type_: Type, about: str = "") -> None:
        place = len(self.texts)
        self.texts.append("")  # before those of what is inside
        spelled = self._record(type_, name) if isinstance(type_, Record) else self.of(type_, name)
        self.texts[place] = f"{comment(about)}export type {name} = {spelled};\n"

    def of(self, type_: Type, hint: str) -> str:
        """Spell a type; an object with fields gets a name, so that a compiler's message can tell it."""
        match type_:
            case Primitive():
                return _PRIMITIVES[type_]
            case Content():
                return f"${type_}"
            case AnyJson():
                return f"${JSON_VALUE}"
            case Constant():
                return literal(type_.value)
            case ListOf(item=item):
                return f"{self._grouped(item, f'{hint}Item')}[]"
            case TupleOf(items=items, rest=rest):
                parts = [self._grouped(item, f"{hint}Item") for item in items]
                if not isinstance(rest, Never):
                    parts.append(f"...{self._grouped(rest, f'{hint}Item')}[]")
                return f"[{', '.join(parts)}]"
            case Record(fields=()):
                return self._record(type_, hint)
            case Record():
                name = self._names.take(hint)
                self.declare(name, type_)
                return name
            case OneOf(options=options):
                return " | ".join(dict.fromkeys(self.of(option, hint) for option in options))
            case Reference(pointer=pointer):
                return self.named[pointer]
            case Unknown():
                return f"unknown{note(type_.note)}"
            case Never():
                return "never"

    def _grouped(self, type_: Type, hint: str) -> str:
        spelled = self.of(type_, hint)
        return f"({spelled})" if isinstance(type_, OneOf) else spelled

    def _record(self, record: Record, name: str) -> str:
        if not record.fields and isinstance(record.rest, Never):
            return "Record<string, never>"
        if not record.fields:
            return f"{{ [key: string]: {self.of(record.rest or Unknown(), f'{name}Value')} }}"
        lines = []
        for field in record.fields:
            mark = "" if field.required else "?"
            spelled = self.of(field.type, f"{name}{pascal(field.name)}")
            lines.append(f"{comment(field.doc, '  ')}  {key(field.name)}{mark}: {spelled};\n")
        if not isinstance(record.rest, Never | None):
            # An index signature has to cover the fields as well, so it cannot be narrower.
            lines.append("  [key: string]: unknown;\n")
        return f"{{\n{''.join(lines)}}}"


BRIEF = Notation(
    primitives=_PRIMITIVES,
    unknown="unknown",
    any_json=JSON_VALUE,
    any_record="object",
    record="{{ {} }}",
    map_of=lambda values: f"Record<string, {values}>",
    separator="; ",
    literal=literal,
    key=key,
    list_of=lambda item: f"({item})[]" if " | " in item else f"{item}[]",
)
