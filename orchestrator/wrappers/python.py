"""One tool as a Python module."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

from orchestrator.domain.names import tool_identifier
from orchestrator.wrappers.contract import Contract, TypeNames, pascal
from orchestrator.wrappers.rules import input_rule
from orchestrator.wrappers.signatures import python_signature
from orchestrator.wrappers.text import python_comment, python_docstring, python_literal
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
    one_of,
)

# Two lines, because a comment in the first two could otherwise choose the encoding of the file.
HEADER = (
    "# Generated from what the server says about its tools.\n"
    "# Each function takes keyword arguments or one dict; in async code, await each call.\n"
)

_PRIMITIVES = {
    Primitive.STRING: "str",
    Primitive.NUMBER: "float",
    Primitive.INTEGER: "int",
    Primitive.BOOLEAN: "bool",
    Primitive.NULL: "None",
}
_BUILTINS = ("bool", "builtins", "dict", "float", "int", "list", "str")
_TYPING = ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict", "Unpack", "overload")


def python_module(contract: Contract) -> str:
    declarations = _Declarations(contract)
    input_is_typed_dict = declarations.add(contract.input, contract.input_type)
    declarations.add(contract.output, contract.output_type, contract.output_source.value)
    body = "\n\n".join(["\n".join(declarations.texts), _function(contract, input_is_typed_dict)])
    return f"{HEADER}{_imports(contract, body)}\n\n{body}\n\n{_definition(contract)}"


def _imports(contract: Contract, body: str) -> str:
    code = "".join(line for line in body.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    typing = [name for name in _TYPING if re.search(rf"\b{name}\b", code)]
    contents = [content.value for content in Content if f"_{content}" in code]
    lines = ["from __future__ import annotations", ""]
    lines += ["import builtins"] if "builtins." in code else []
    lines += [f"from typing import {', '.join(typing)}", "", "from .._client import Tool as _Tool"]
    lines += [f"from ..content import {content} as _{content}" for content in contents]
    return "\n".join(lines)


def _function(contract: Contract, input_is_typed_dict: bool) -> str:
    name, takes, returns = contract.name, contract.input_type, contract.output_type
    named = f"Unpack[{takes}]" if input_is_typed_dict else "Any"
    optional = " = ..." if contract.needs_nothing and not input_is_typed_dict else ""
    return (
        f"@overload\ndef {name}(arguments: {takes}{optional}, /) -> {returns}: ...\n"
        f"@overload\ndef {name}(**named: {named}) -> {returns}: ...\n"
        f"def {name}(arguments: Any = None, /, **named: Any) -> Any:\n"
        f"{python_docstring(contract.doc, '    ')}"
        f"    return _tool.call(arguments, named)\n"
    )


def _definition(contract: Contract) -> str:
    return (
        "_tool = _Tool(\n"
        f"    server={python_literal(contract.tool.server)},\n"
        f"    name={python_literal(contract.tool.name)},\n"
        f"    signature={python_literal(python_signature(contract))},\n"
        f"    rule={python_literal(input_rule(contract.input))},\n"
        f"    aliases={python_literal(argument_aliases(contract.input.root))},\n"
        ")\n"
    )


def argument_aliases(root: Type) -> dict[str, str]:
    """Arguments that cannot be keywords, such as `from` and `user-id`, are also known by their identifiers."""
    names = [field.name for field in root.fields] if isinstance(root, Record) else []
    spelled = [(tool_identifier(name), name) for name in names if not _is_plain(name)]
    counts = Counter([*(identifier for identifier, _ in spelled), *names])
    return {identifier: name for identifier, name in spelled if counts[identifier] == 1}


def _is_plain(name: str) -> bool:
    normal = unicodedata.normalize("NFKC", name)
    return name.isidentifier() and not keyword.iskeyword(name) and name == normal


class _Declarations:
    """The types of one module; every object with fields becomes a TypedDict with a name."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._taken = TypeNames(contract)
        self._names: Mapping[str, str] = {}
        self.texts: list[str] = []

    def add(self, document: Document, root_name: str, comment: str = "") -> bool:
        """True if the root is a TypedDict, so that its fields can be keyword arguments."""
        self._names = self._taken.for_definitions(root_name, document)
        for pointer, name in reversed(self._names.items()):
            self._declare(name, document.definitions[pointer], comment if pointer == ROOT else "")
        return isinstance(document.root, Record) and bool(document.root.fields)

    def _declare(self, name: str, type_: Type, comment: str) -> None:
        if isinstance(type_, Record) and type_.fields:
            self._declare_record(name, type_, comment)
        else:
            note = type_.note if isinstance(type_, Unknown) else ""
            about = python_comment("\n".join(filter(None, (comment, note))))
            self.texts.append(f"{about}{name}: TypeAlias = {python_literal(self._spell(type_, name))}\n")

    def _declare_record(self, name: str, record: Record, comment: str) -> None:
        types = [self._spell_field(field, name) for field in record.fields]
        if not isinstance(record.rest, Never | None):
            comment = "\n".join(filter(None, (comment, "Further keys are allowed.")))
        write = _as_class if all(self._fits_class(field.name) for field in record.fields) else _as_call
        self.texts.append(python_comment(comment) + write(name, record.fields, types))

    def _fits_class(self, name: str) -> bool:
        """In the body of a class, a key would hide the type of the same name, and `__key` would be renamed."""
        hides = name in _BUILTINS or name in _TYPING or name.startswith(("_", self._contract.type_prefix))
        return _is_plain(name) and not hides

    def _spell_field(self, field: Field, owner: str) -> str:
        spelled = self._spell(field.type, f"{owner}{pascal(field.name)}")
        return spelled if field.required else f"NotRequired[{spelled}]"

    def _spell(self, type_: Type, hint: str) -> str:
        match type_:
            case Primitive():
                return self._builtin(_PRIMITIVES[type_])
            case Content():
                return f"_{type_}"
            case Constant():
                return self._union((type_,), hint)
            case ListOf(item=item):
                return f"{self._builtin('list')}[{self._spell(item, f'{hint}Item')}]"
            case TupleOf(items=items, rest=rest):
                return self._spell(ListOf(one_of((*items, rest))), hint)
            case Record():
                return self._spell_record(type_, hint)
            case OneOf(options=options):
                return self._union(options, hint)
            case Reference(pointer=pointer):
                return self._names[pointer]
            case Unknown() | Never():
                return "Any"

    def _spell_record(self, record: Record, hint: str) -> str:
        if record.fields:
            name = self._taken.take(hint)
            self._declare(name, record, "")
            return name
        values = "Any" if isinstance(record.rest, Never | None) else self._spell(record.rest, f"{hint}Value")
        return f"{self._builtin('dict')}[{self._builtin('str')}, {values}]"

    def _union(self, options: tuple[Type, ...], hint: str) -> str:
        constants = [option.value for option in options if isinstance(option, Constant)]
        literal = [python_literal(value) for value in constants if not isinstance(value, float)]
        spelled = [f"Literal[{', '.join(literal)}]"] if literal else []
        spelled += [self._builtin("float") for value in constants if isinstance(value, float)]
        spelled += [self._spell(option, hint) for option in options if not isinstance(option, Constant)]
        return " | ".join(dict.fromkeys(spelled))

    def _builtin(self, name: str) -> str:
        """A tool may be called `list`; in its module that name is taken."""
        return f"builtins.{name}" if name == self._contract.name else name


def _as_class(name: str, fields: tuple[Field, ...], types: list[str]) -> str:
    lines = [
        f"{python_comment(_about(field), '    ')}    {field.name}: {spelled}\n"
        for field, spelled in zip(fields, types, strict=True)
    ]
    return f"class {name}(TypedDict):\n{''.join(lines)}"


def _as_call(name: str, fields: tuple[Field, ...], types: list[str]) -> str:
    lines = [
        f"{python_comment(_about(field), '    ')}    {python_literal(field.name)}: {python_literal(spelled)},\n"
        for field, spelled in zip(fields, types, strict=True)
    ]
    return f'{name} = TypedDict("{name}", {{\n{"".join(lines)}}})\n'


def _about(field: Field) -> str:
    note = field.type.note if isinstance(field.type, Unknown) else ""
    return "\n".join(filter(None, (field.doc, note)))
