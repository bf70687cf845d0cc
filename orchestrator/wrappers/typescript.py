"""One tool as a TypeScript module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.wrappers.contract import Contract, TypeNames
from orchestrator.wrappers.rules import input_rule
from orchestrator.wrappers.signatures import typescript_signature
from orchestrator.wrappers.text import (
    typescript_comment,
    typescript_key,
    typescript_literal,
    typescript_note,
)
from orchestrator.wrappers.types import (
    ROOT,
    Constant,
    Content,
    Document,
    Field,
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

HEADER = "// Generated from what the server says about its tools; imported with the ending .js.\n"

_PRIMITIVES = {
    Primitive.STRING: "string",
    Primitive.NUMBER: "number",
    Primitive.INTEGER: "number",
    Primitive.BOOLEAN: "boolean",
    Primitive.NULL: "null",
}


def typescript_module(contract: Contract) -> str:
    names = TypeNames(contract)
    types = [
        *_declarations(contract.input, contract.input_type, names),
        *_declarations(contract.output, contract.output_type, names, contract.output_source.value),
    ]
    return "\n".join([HEADER + _imports(types), *types, _function(contract), _definition(contract)])


def _imports(types: Sequence[str]) -> str:
    contents = [content for content in Content if any(f"${content}" in text for text in types)]
    imported = "".join(f"import type {{ {content} as ${content} }} from '../content.js';\n" for content in contents)
    return f"import {{ callTool as $call, type Tool as $Tool }} from '../_client.js';\n{imported}"


def _declarations(document: Document, root_name: str, names: TypeNames, comment: str = "") -> Iterator[str]:
    spelling = _Spelling(names.for_definitions(root_name, document))
    for pointer, name in spelling.names.items():
        about = typescript_comment(comment) if pointer == ROOT else ""
        yield f"{about}export type {name} = {spelling.of(document.definitions[pointer])};\n"


def _function(contract: Contract) -> str:
    default = " = {}" if contract.needs_nothing else ""
    output = contract.output_type
    return (
        typescript_comment(contract.doc)
        + f"export async function {contract.name}(args: {contract.input_type}{default}): Promise<{output}> {{\n"
        + f"  return $call<{output}>($tool, args);\n}}\n"
    )


def _definition(contract: Contract) -> str:
    return (
        "const $tool: $Tool = {\n"
        f"  server: {typescript_literal(contract.tool.server)},\n"
        f"  name: {typescript_literal(contract.tool.name)},\n"
        f"  signature: {typescript_literal(typescript_signature(contract))},\n"
        f"  rule: {typescript_literal(input_rule(contract.input))},\n"
        "};\n"
    )


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
                return typescript_literal(type_.value)
            case ListOf(item=item):
                return f"{self._grouped(item, indent)}[]"
            case TupleOf(items=items, rest=rest):
                return self._tuple(items, rest, indent)
            case Record():
                return self._record(type_, indent)
            case OneOf(options=options):
                return " | ".join(dict.fromkeys(self.of(option, indent) for option in options))
            case Reference(pointer=pointer):
                return self.names[pointer]
            case Unknown(note=note):
                return f"unknown{typescript_note(note)}"
            case Never():
                return "never"

    def _grouped(self, type_: Type, indent: str) -> str:
        spelled = self.of(type_, indent)
        return f"({spelled})" if isinstance(type_, OneOf) else spelled

    def _tuple(self, items: tuple[Type, ...], rest: Type, indent: str) -> str:
        parts = [self._grouped(item, indent) for item in items]
        if not isinstance(rest, Never):
            parts.append(f"...{self._grouped(rest, indent)}[]")
        return f"[{', '.join(parts)}]"

    def _record(self, record: Record, indent: str) -> str:
        if not record.fields:
            return "Record<string, never>" if isinstance(record.rest, Never) else self._map(record.rest, indent)
        inner = f"{indent}  "
        fields = "".join(self._field(field, inner) for field in record.fields)
        # An index signature has to cover the fields as well, so it cannot be narrower.
        rest = f"{inner}[key: string]: unknown;\n" if not isinstance(record.rest, Never | None) else ""
        return f"{{\n{fields}{rest}{indent}}}"

    def _map(self, rest: Type | None, indent: str) -> str:
        return f"{{ [key: string]: {self.of(rest or Unknown(), indent)} }}"

    def _field(self, field: Field, indent: str) -> str:
        mark = "" if field.required else "?"
        about = typescript_comment(field.doc, indent)
        return f"{about}{indent}{typescript_key(field.name)}{mark}: {self.of(field.type, indent)};\n"
