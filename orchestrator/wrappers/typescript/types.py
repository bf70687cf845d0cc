"""Spells types in TypeScript: in full for a module, in brief for a signature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.wrappers.contract import TypeNames
from orchestrator.wrappers.signatures import Notation
from orchestrator.wrappers.types import (
    ROOT,
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

_PRIMITIVES = {
    Primitive.STRING: "string",
    Primitive.NUMBER: "number",
    Primitive.INTEGER: "number",
    Primitive.BOOLEAN: "boolean",
    Primitive.NULL: "null",
}


def declarations(document: Document, root_name: str, names: TypeNames, about_root: str = "") -> Iterator[str]:
    """Yield one exported type for each definition of the document, the root first."""
    spelling = _Spelling(names.for_definitions(root_name, document))
    for pointer, name in spelling.names.items():
        about = comment(about_root) if pointer == ROOT else ""
        yield f"{about}export type {name} = {spelling.of(document.definitions[pointer])};\n"


class _Spelling:
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def of(self, type_: Type, indent: str = "") -> str:
        match type_:
            case Primitive():
                return _PRIMITIVES[type_]
            case Content():
                return f"${type_}"
            case Constant():
                return literal(type_.value)
            case ListOf(item=item):
                return f"{self._grouped(item, indent)}[]"
            case TupleOf(items=items, rest=rest):
                parts = [self._grouped(item, indent) for item in items]
                if not isinstance(rest, Never):
                    parts.append(f"...{self._grouped(rest, indent)}[]")
                return f"[{', '.join(parts)}]"
            case Record():
                return self._record(type_, indent)
            case OneOf(options=options):
                return " | ".join(dict.fromkeys(self.of(option, indent) for option in options))
            case Reference(pointer=pointer):
                return self.names[pointer]
            case Unknown():
                return f"unknown{note(type_.note)}"
            case Never():
                return "never"

    def _grouped(self, type_: Type, indent: str) -> str:
        spelled = self.of(type_, indent)
        return f"({spelled})" if isinstance(type_, OneOf) else spelled

    def _record(self, record: Record, indent: str) -> str:
        if not record.fields and isinstance(record.rest, Never):
            return "Record<string, never>"
        if not record.fields:
            return f"{{ [key: string]: {self.of(record.rest or Unknown(), indent)} }}"
        inner = f"{indent}  "
        lines = []
        for field in record.fields:
            mark = "" if field.required else "?"
            lines.append(f"{comment(field.doc, inner)}{inner}{key(field.name)}{mark}: {self.of(field.type, inner)};\n")
        if not isinstance(record.rest, Never | None):
            # An index signature has to cover the fields as well, so it cannot be narrower.
            lines.append(f"{inner}[key: string]: unknown;\n")
        return f"{{\n{''.join(lines)}{indent}}}"


BRIEF = Notation(
    primitives=_PRIMITIVES,
    unknown="unknown",
    any_record="object",
    record="{{ {} }}",
    separator="; ",
    literal=literal,
    key=key,
    list_of=lambda item: f"({item})[]" if " | " in item else f"{item}[]",
)
