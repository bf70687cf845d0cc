"""Short text forms of a tool: its signature and an example of a call."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.contract import Contract
from orchestrator.wrappers.shapes import Shape
from orchestrator.wrappers.text import python_literal, typescript_key, typescript_literal
from orchestrator.wrappers.types import (
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

_MAX_CHARACTERS = 400
_MAX_OPTIONS = 12
_MAX_EXAMPLE_DEPTH = 4


def signature(tool: Tool, language: Language, observed: Shape | None = None) -> str:
    contract = Contract.of(tool, observed)
    return typescript_signature(contract) if language is Language.TYPESCRIPT else python_signature(contract)


def typescript_signature(contract: Contract) -> str:
    def write(depth: int) -> str:
        takes = _TypescriptBrief(contract.input).of(contract.input.root, depth)
        returns = _TypescriptBrief(contract.output).of(contract.output.root, depth)
        mark = "?" if contract.needs_nothing else ""
        return f"{contract.name}(args{mark}: {takes}): Promise<{returns}>"

    return _short_enough(write)


def python_signature(contract: Contract) -> str:
    def write(depth: int) -> str:
        takes = _PythonBrief(contract.input).parameters(depth)
        returns = _PythonBrief(contract.output).of(contract.output.root, depth)
        return f"{contract.name}({takes}) -> {returns}"

    return _short_enough(write)


def _short_enough(write: Callable[[int], str]) -> str:
    for depth in (3, 2, 1):
        text = write(depth)
        if len(text) <= _MAX_CHARACTERS:
            return text
    return f"{text[: 3 * _MAX_CHARACTERS]}…" if len(text) > 3 * _MAX_CHARACTERS else text


class _Brief:
    """How much is shown of a type depends on the depth that is left."""

    primitives: ClassVar[Mapping[Primitive, str]]
    unknown: str
    record: str

    def __init__(self, document: Document) -> None:
        self._document = document

    def of(self, type_: Type, depth: int) -> str:
        match type_:
            case Primitive():
                return self.primitives[type_]
            case Content():
                return type_.value
            case Constant():
                return self._constant(type_)
            case ListOf(item=item):
                return self._list(self.of(item, depth))
            case TupleOf(items=items):
                return f"[{', '.join(self.of(item, depth) for item in items)}]"
            case Record(fields=fields):
                return self._record(fields, depth - 1) if fields and depth > 0 else self.record
            case OneOf(options=options):
                return self._union(options, depth)
            case Reference(pointer=pointer):
                return self.of(self._document.definitions[pointer], depth - 1) if depth > 0 else self.unknown
            case Unknown() | Never():
                return self.unknown

    def _union(self, options: tuple[Type, ...], depth: int) -> str:
        spelled = list(dict.fromkeys(self.of(option, depth) for option in options))
        shown = spelled if len(spelled) <= _MAX_OPTIONS else [*spelled[:_MAX_OPTIONS], "…"]
        return " | ".join(shown)

    def _constant(self, constant: Constant) -> str:
        raise NotImplementedError

    def _list(self, item: str) -> str:
        raise NotImplementedError

    def _record(self, fields: tuple[Field, ...], depth: int) -> str:
        raise NotImplementedError


class _TypescriptBrief(_Brief):
    primitives: ClassVar = {kind: "number" if kind is Primitive.INTEGER else kind.value for kind in Primitive}
    unknown = "unknown"
    record = "object"

    def _constant(self, constant: Constant) -> str:
        return typescript_literal(constant.value)

    def _list(self, item: str) -> str:
        return f"({item})[]" if " | " in item else f"{item}[]"

    def _record(self, fields: tuple[Field, ...], depth: int) -> str:
        return f"{{ {'; '.join(self._field(field, depth) for field in fields)} }}"

    def _field(self, field: Field, depth: int) -> str:
        return f"{typescript_key(field.name)}{'' if field.required else '?'}: {self.of(field.type, depth)}"


class _PythonBrief(_Brief):
    primitives: ClassVar = {
        Primitive.STRING: "str",
        Primitive.NUMBER: "float",
        Primitive.INTEGER: "int",
        Primitive.BOOLEAN: "bool",
        Primitive.NULL: "None",
    }
    unknown = "Any"
    record = "dict"

    def parameters(self, depth: int) -> str:
        root = self._document.root
        if not isinstance(root, Record) or not root.fields:
            return "" if isinstance(root, Record) and isinstance(root.rest, Never) else "**arguments"
        ordered = sorted(root.fields, key=lambda field: not field.required)
        return ", ".join(["*", *(self._parameter(field, depth) for field in ordered)])

    def _parameter(self, field: Field, depth: int) -> str:
        name = field.name if is_keyword_argument(field.name) else python_literal(field.name)
        return f"{name}: {self.of(field.type, depth - 1)}{'' if field.required else ' = ...'}"

    def _constant(self, constant: Constant) -> str:
        return python_literal(constant.value)

    def _list(self, item: str) -> str:
        return f"list[{item}]"

    def _record(self, fields: tuple[Field, ...], depth: int) -> str:
        return f"{{{', '.join(self._entry(field, depth) for field in fields)}}}"

    def _entry(self, field: Field, depth: int) -> str:
        return f"{python_literal(field.name)}{'' if field.required else '?'}: {self.of(field.type, depth)}"


def is_keyword_argument(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


def example_call(tool: Tool, language: Language) -> str:
    contract = Contract.of(tool, None)
    found = _example(contract.input.root, contract.input, 0)
    arguments = found if isinstance(found, dict) else {}
    return (_typescript_call if language is Language.TYPESCRIPT else _python_call)(contract, arguments)


def _typescript_call(contract: Contract, arguments: dict[str, Any]) -> str:
    name = contract.name
    passed = typescript_literal(arguments) if arguments else ""
    return f"""import {{ {name} }} from "/workspace/servers/{contract.server}/{name}.js";
const result = await {name}({passed});"""


def _python_call(contract: Contract, arguments: dict[str, Any]) -> str:
    named = ", ".join(f"{name}={python_literal(value)}" for name, value in arguments.items())
    passed = named if all(map(is_keyword_argument, arguments)) else python_literal(arguments)
    return f"from servers.{contract.server} import {contract.name}\nresult = {contract.name}({passed})"


_EXAMPLES: dict[Primitive, Any] = {
    Primitive.STRING: "...",
    Primitive.NUMBER: 1.5,
    Primitive.INTEGER: 1,
    Primitive.BOOLEAN: True,
    Primitive.NULL: None,
}


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
            return {field.name: _field_example(field, document, depth + 1) for field in fields if field.required}
        case OneOf(options=options):
            return _example(options[0], document, depth)
        case Reference(pointer=pointer):
            return _example(document.definitions[pointer], document, depth + 1)
        case Unknown() | Never() | Content():
            return "..."


def _field_example(field: Field, document: Document, depth: int) -> Any:
    return field.examples[0] if field.examples else _example(field.type, document, depth)
