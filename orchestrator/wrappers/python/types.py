"""Spells types in Python: in full for a module, in brief for a signature."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Mapping, Sequence

from orchestrator.wrappers.contract import Contract, TypeNames, pascal
from orchestrator.wrappers.python.text import comment, literal
from orchestrator.wrappers.signatures import Notation
from orchestrator.wrappers.types import (
    ROOT,
    AnyJson,
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

_PRIMITIVES = {
    Primitive.STRING: "str",
    Primitive.NUMBER: "float",
    Primitive.INTEGER: "int",
    Primitive.BOOLEAN: "bool",
    Primitive.NULL: "None",
}
_BUILTINS = ("bool", "builtins", "dict", "float", "int", "list", "str")
TYPING_NAMES = ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict", "Unpack", "overload")


def is_attribute_name(name: str) -> bool:
    """Tell whether Python takes the name for an attribute as it is, without normalising it."""
    normal = unicodedata.normalize("NFKC", name)
    return name.isidentifier() and not keyword.iskeyword(name) and name == normal


class Declarations:
    """The types of one module; every object with fields becomes a TypedDict with a name."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._taken = TypeNames(contract)
        self._names: Mapping[str, str] = {}
        self.texts: list[str] = []

    def add(self, document: Document, root_name: str, about_root: str = "") -> bool:
        """Return whether the root is a TypedDict, so that its fields can be keyword arguments."""
        self._names = self._taken.for_definitions(root_name, document)
        for pointer, name in reversed(self._names.items()):
            self._declare(name, document.definitions[pointer], about_root if pointer == ROOT else "")
        return isinstance(document.root, Record) and bool(document.root.fields)

    def _declare(self, name: str, type_: Type, about: str) -> None:
        if not isinstance(type_, Record) or not type_.fields:
            note = type_.note if isinstance(type_, Unknown) else ""
            spelled = literal(self._spell(type_, name))
            self.texts.append(f"{comment(_joined(about, note))}{name}: TypeAlias = {spelled}\n")
            return
        further_keys = "" if isinstance(type_.rest, Never | None) else "Further keys are allowed."
        as_class = all(map(self._fits_class, type_.fields))
        lines = []
        for field in type_.fields:
            spelled = self._spell(field.type, f"{name}{pascal(field.name)}")
            spelled = spelled if field.required else f"NotRequired[{spelled}]"
            note = field.type.note if isinstance(field.type, Unknown) else ""
            member = f"{field.name}: {spelled}\n" if as_class else f"{literal(field.name)}: {literal(spelled)},\n"
            lines.append(f"{comment(_joined(field.doc, note), '    ')}    {member}")
        opening, closing = (
            (f"class {name}(TypedDict):", "") if as_class else (f'{name} = TypedDict("{name}", {{', "})\n")
        )
        self.texts.append(f"{comment(_joined(about, further_keys))}{opening}\n{''.join(lines)}{closing}")

    def _fits_class(self, field: Field) -> bool:
        # In the body of a class, a key would hide the type of the same name, and `__key` would be renamed.
        name = field.name
        hides = name in _BUILTINS or name in TYPING_NAMES or name.startswith(("_", self._contract.type_prefix))
        return is_attribute_name(name) and not hides

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
            case Record(fields=()):
                values = "Any" if isinstance(type_.rest, Never | None) else self._spell(type_.rest, f"{hint}Value")
                return f"{self._builtin('dict')}[{self._builtin('str')}, {values}]"
            case Record():
                name = self._taken.take(hint)
                self._declare(name, type_, "")
                return name
            case OneOf(options=options):
                return self._union(options, hint)
            case Reference(pointer=pointer):
                return self._names[pointer]
            case Unknown() | AnyJson() | Never():
                return "Any"

    def _union(self, options: Sequence[Type], hint: str) -> str:
        constants = [option.value for option in options if isinstance(option, Constant)]
        literals = [literal(value) for value in constants if not isinstance(value, float)]
        spelled = [f"Literal[{', '.join(literals)}]"] if literals else []
        spelled += [self._builtin("float") for value in constants if isinstance(value, float)]
        spelled += [self._spell(option, hint) for option in options if not isinstance(option, Constant)]
        return " | ".join(dict.fromkeys(spelled))

    def _builtin(self, name: str) -> str:
        # A tool may be called `list`; in its module that name is taken.
        return f"builtins.{name}" if name == self._contract.name else name


def _joined(*texts: str) -> str:
    return "\n".join(filter(None, texts))


BRIEF = Notation(
    primitives=_PRIMITIVES,
    unknown="Any",
    any_json="Any",
    any_record="dict",
    record="{{{}}}",
    map_of=lambda values: f"dict[str, {values}]",
    separator=", ",
    literal=literal,
    key=literal,
    list_of=lambda item: f"list[{item}]",
)
