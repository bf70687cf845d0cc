"""Reads a JSON Schema as a type. Whatever a schema says, there is a result: what is odd becomes Unknown with a note."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard
from urllib.parse import unquote

from orchestrator.wrappers.types import (
    ROOT,
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
    constant,
    one_of,
    or_unknown,
    replaced,
    with_null,
)

_MAX_DEPTH = 16
# Schemas combined of schemas combined of schemas grow without limit otherwise.
_MAX_PARTS = 10_000
_MAX_CONSTANTS = 500
_MAX_FIELDS = 2000
_MAX_DEFINITIONS = 500
_MAX_EXAMPLE_CHARACTERS = 200

_OBJECT_WORDS = ("properties", "additionalProperties", "patternProperties", "required", "propertyNames")
_ARRAY_WORDS = ("items", "prefixItems")
_COMBINING_WORDS = ("allOf", "anyOf", "oneOf")
_STRUCTURE_WORDS = ("type", "$ref", "const", "enum", *_OBJECT_WORDS[:3], *_ARRAY_WORDS, *_COMBINING_WORDS)
_NOTED_WORDS = ("default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format", "pattern")

_INDEX = re.compile("[0-9]{1,6}")
_MISSING = object()


def read_schema(schema: Any) -> Document:
    reader = _Reader(schema)
    definitions = reader.read_definitions()
    _open_circles(definitions)
    return Document(definitions)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._expanding: list[str] = []
        self._referenced: list[str] = []
        self._read_count = 0

    def read_definitions(self) -> dict[str, Type]:
        definitions = {ROOT: or_unknown(self._expanded(self._root, 0), "no value is allowed here")}
        while self._referenced:
            pointer = self._referenced.pop()
            if pointer not in definitions:
                definitions[pointer] = self._definition(pointer, len(definitions))
        return definitions

    def _definition(self, pointer: str, known: int) -> Type:
        if known >= _MAX_DEFINITIONS:
            return Unknown("the schema is too large")
        return or_unknown(self.read(self._find(pointer), 0), "no value is allowed here")

    def read(self, schema: Any, depth: int) -> Type:
        if schema is True or schema == {}:
            return Unknown()
        if schema is False:
            return Never()
        if not isinstance(schema, Mapping):
            return Unknown("the schema is not valid")
        self._read_count += 1
        if depth > _MAX_DEPTH or self._read_count > _MAX_PARTS:
            return Unknown("the schema is too large")
        found = self._read_structure(schema, depth)
        return with_null(found) if schema.get("nullable") is True else found

    def _read_structure(self, schema: Mapping[str, Any], depth: int) -> Type:
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "const" in schema:
            return constant(schema["const"])
        if "enum" in schema:
            return self._enumeration(schema, depth)
        if any(word in schema for word in _COMBINING_WORDS):
            return self._combination(schema, depth)
        if schema.get("not") in ({}, True):
            return Never()
        return self._typed(schema, depth)

    def _reference(self, pointer: Any) -> Type:
        if not _is_local(pointer) or self._find(pointer[1:]) is _MISSING:
            return Unknown(f"refers to {_quoted(pointer)}, which is not there")
        self._referenced.append(pointer[1:])
        return Reference(pointer[1:])

    def _find(self, pointer: str) -> Any:
        found = self._root
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and _INDEX.fullmatch(key) and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, Mapping) and key in found:
                found = found[key]
            else:
                return _MISSING
        return found

    def _enumeration(self, schema: Mapping[str, Any], depth: int) -> Type:
        values = _listed(schema["enum"])
        if not values or len(values) > _MAX_CONSTANTS:
            return self._typed(schema, depth)
        return one_of(constant(value) for value in values)

    def _combination(self, schema: Mapping[str, Any], depth: int) -> Type:
        base = {word: value for word, value in schema.items() if word not in _COMBINING_WORDS}
        found = self.read(base, depth + 1) if _has_structure(base) else Unknown()
        for part in _listed(schema.get("allOf")):
            found = _both(found, self._expanded(part, depth + 1))
        for word in ("anyOf", "oneOf"):
            options = [option for option in _listed(schema.get(word)) if _has_structure(option)]
            if options:
                found = one_of(_both(found, self._option(option, found, depth + 1)) for option in options)
        return found

    def _option(self, option: Any, base: Type, depth: int) -> Type:
        return self.read(option, depth) if isinstance(base, Unknown) else self._expanded(option, depth)

    def _expanded(self, schema: Any, depth: int) -> Type:
        """Like read, but with the definition in place of a reference to it: only that can be combined."""
        pointer = mapping(schema).get("$ref")
        if not _is_local(pointer) or pointer in self._expanding or self._find(pointer[1:]) is _MISSING:
            return self.read(schema, depth)
        if depth > _MAX_DEPTH:
            return Unknown("the schema is too large")
        self._expanding.append(pointer)
        try:
            return self._expanded(self._find(pointer[1:]), depth + 1)
        finally:
            self._expanding.pop()

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Type:
        name = schema.get("type", _MISSING)
        if isinstance(name, list):
            names = [each for each in name if isinstance(each, str)]
            return one_of(self._typed({**schema, "type": each}, depth) for each in names) if names else Unknown()
        if name == "object" or (name is _MISSING and any(word in schema for word in _OBJECT_WORDS)):
            return self._record(schema, depth)
        if name == "array" or (name is _MISSING and any(word in schema for word in _ARRAY_WORDS)):
            return self._list(schema, depth)
        if name in tuple(Primitive):
            return Primitive(name)
        return Unknown() if name is _MISSING else Unknown(f"the type {_quoted(name)} is not known")

    def _record(self, schema: Mapping[str, Any], depth: int) -> Type:
        properties = mapping(schema.get("properties"))
        required = dict.fromkeys(name for name in _listed(schema.get("required")) if isinstance(name, str))
        if len(properties) + len(required) > _MAX_FIELDS:
            return Unknown("the schema is too large")
        fields = [self._field(name, part, name in required, depth) for name, part in properties.items()]
        fields += [Field(name, Unknown(), required=True) for name in required if name not in properties]
        return Record(tuple(fields), self._rest(schema, depth))

    def _field(self, name: str, schema: Any, required: bool, depth: int) -> Field:
        found = or_unknown(self.read(schema, depth + 1), "no value is allowed here")
        return Field(name, found, required, _doc(mapping(schema)), _examples(mapping(schema)))

    def _rest(self, schema: Mapping[str, Any], depth: int) -> Type | None:
        patterns = [self.read(part, depth + 1) for part in mapping(schema.get("patternProperties")).values()]
        if "additionalProperties" not in schema:
            return one_of(patterns) if patterns else None
        return one_of([*patterns, self.read(schema["additionalProperties"], depth + 1)])

    def _list(self, schema: Mapping[str, Any], depth: int) -> Type:
        # Before 2020, `items` was a list where it is `prefixItems` now, and `additionalItems` was the rest.
        items = schema.get("items", True)
        prefix = _listed(schema.get("prefixItems")) or _listed(items)
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        found = self.read(rest, depth + 1)
        if not prefix:
            return ListOf(or_unknown(found, "the list is empty"))
        first = tuple(or_unknown(self.read(part, depth + 1), "no value is allowed here") for part in prefix)
        closed = schema.get("maxItems") == len(prefix)
        return TupleOf(first, Never() if closed else found)


def _is_local(pointer: Any) -> TypeGuard[str]:
    return isinstance(pointer, str) and (pointer == "#" or pointer.startswith("#/"))


def _quoted(name: Any) -> str:
    return f"'{name[:80]}'" if isinstance(name, str) else "something that is no name"


def _has_structure(schema: Any) -> bool:
    """Parts such as {"required": ["a"]} only restrict what stands beside them."""
    return not isinstance(schema, Mapping) or any(word in schema for word in (*_STRUCTURE_WORDS, "not"))


def _both(first: Type, second: Type) -> Type:
    match first, second:
        case (Unknown(note=""), other) | (other, Unknown(note="")):
            return other
        case (one, other) if one == other:
            return one
        case (Never(), _) | (_, Never()):
            return Never()
        case Record(), Record():
            return _merged(first, second)
        case (Primitive.NUMBER, Primitive.INTEGER) | (Primitive.INTEGER, Primitive.NUMBER):
            return Primitive.INTEGER
        case OneOf(options=options), other:
            return one_of(_both(option, other) for option in options)
        case _:
            return Unknown("several schemas that cannot be combined")


def _merged(first: Record, second: Record) -> Record:
    fields = {field.name: field for field in first.fields}
    for field in second.fields:
        fields[field.name] = _merged_field(fields[field.name], field) if field.name in fields else field
    return Record(tuple(fields.values()), first.rest if second.rest is None else second.rest)


def _merged_field(first: Field, second: Field) -> Field:
    found = or_unknown(_both(first.type, second.type), "the schema contradicts itself")
    required = first.required or second.required
    return Field(first.name, found, required, second.doc or first.doc, second.examples or first.examples)


def _doc(schema: Mapping[str, Any]) -> str:
    description = schema.get("description")
    text = description.strip() if isinstance(description, str) else ""
    notes = [f"{word}: {shown}" for word in _NOTED_WORDS if word in schema and (shown := _shown(schema[word]))]
    return "\n".join(part for part in (text, ", ".join(notes)) if part)


def _shown(value: Any) -> str | None:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        return None
    return None if value is None or len(text) > _MAX_EXAMPLE_CHARACTERS else text


def _examples(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    candidates = [*_listed(schema.get("examples")), *([schema["default"]] if "default" in schema else [])]
    return tuple(candidate for candidate in candidates if _shown(candidate))


def _open_circles(definitions: dict[str, Type]) -> None:
    """A definition that is itself, or one of its own options, says nothing by that and would not compile."""
    for pointer in definitions:
        definitions[pointer] = _without_direct(definitions[pointer], pointer)
    for pointer in definitions:
        if pointer in _reached(definitions, pointer):
            definitions[pointer] = Unknown("refers to itself")


def _without_direct(type_: Type, pointer: str) -> Type:
    return or_unknown(replaced(type_, Reference(pointer), Never()), "refers to itself")


def _reached(definitions: Mapping[str, Type], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(_direct(definitions[start]))
    while waiting:
        pointer = waiting.pop()
        if pointer not in reached:
            reached.add(pointer)
            waiting += _direct(definitions.get(pointer, Unknown()))
    return reached


def _direct(type_: Type) -> Iterable[str]:
    if isinstance(type_, Reference):
        return [type_.pointer]
    return [pointer for option in type_.options for pointer in _direct(option)] if isinstance(type_, OneOf) else []
