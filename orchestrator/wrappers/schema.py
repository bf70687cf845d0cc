"""Reads a JSON Schema as a type; whatever the schema says, there is a result, and what is odd becomes Unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
)

_MAX_DEPTH = 16
# Schemas combined of schemas combined of schemas grow without limit otherwise, and so does the text that they repeat.
_MAX_PARTS = 4000
_CHARACTERS_OF_A_PART = 32
_MAX_CONSTANTS = 500
_MAX_FIELDS = 2000
_MAX_DEFINITIONS = 500
_MAX_STEPS = 100_000
_MAX_EXAMPLE_CHARACTERS = 200
_MAX_CANDIDATES = 20

_OBJECT_WORDS = ("properties", "additionalProperties", "patternProperties", "required", "propertyNames")
_ARRAY_WORDS = ("items", "prefixItems")
_COMBINING_WORDS = ("allOf", "anyOf", "oneOf")
_STRUCTURE_WORDS = ("type", "$ref", "const", "enum", *_OBJECT_WORDS[:3], *_ARRAY_WORDS, *_COMBINING_WORDS)
_NOTED_WORDS = ("default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format", "pattern")

_EXAMPLES_BY_FORMAT = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}

_TOO_LARGE = "the schema is too large"
_NO_VALUE = "no value is allowed here"

_INDEX = re.compile("[0-9]{1,6}")
_MISSING = object()


def read_schema(schema: Any) -> Document:
    definitions = _Reader(schema).read_definitions()
    # A definition that is itself, or one of its own options, says nothing by that and would not compile.
    for pointer, found in definitions.items():
        definitions[pointer] = or_unknown(replaced(found, Reference(pointer), Never()), "refers to itself")
    steps = 0
    for pointer in definitions:
        reached, taken = _reached(definitions, pointer)
        steps += taken
        if steps > _MAX_STEPS:
            return Document({ROOT: Unknown(_TOO_LARGE)})
        if pointer in reached:
            definitions[pointer] = Unknown("refers to itself")
    return Document(definitions)


def _reached(definitions: Mapping[str, Type], start: str) -> tuple[set[str], int]:
    """Return the definitions that one leads to by references and options alone, and how many steps that took."""
    reached: set[str] = set()
    waiting = [definitions[start]]
    steps = 0
    while waiting:
        steps += 1
        match waiting.pop():
            case OneOf(options=options):
                waiting += options
            case Reference(pointer=pointer) if pointer not in reached:
                reached.add(pointer)
                waiting.append(definitions.get(pointer, Unknown()))
    return reached, steps


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._expanding: list[str] = []
        self._referenced: list[str] = []
        self._parts = 0

    def read_definitions(self) -> dict[str, Type]:
        definitions = {ROOT: or_unknown(self._expanded(self._root, 0), _NO_VALUE)}
        while self._referenced:
            pointer = self._referenced.pop()
            if pointer in definitions:
                continue
            if len(definitions) >= _MAX_DEFINITIONS:
                definitions[pointer] = Unknown(_TOO_LARGE)
            else:
                definitions[pointer] = or_unknown(self._read(self._find(pointer), 0), _NO_VALUE)
        return definitions

    def _read(self, schema: Any, depth: int) -> Type:
        if schema is True or schema == {}:
            return Unknown()
        if schema is False:
            return Never()
        if not isinstance(schema, Mapping):
            return Unknown("the schema is not valid")
        if not self._affords() or depth > _MAX_DEPTH:
            return Unknown(_TOO_LARGE)
        found = self._read_structure(schema, depth)
        nullable = schema.get("nullable") is True and not isinstance(found, Unknown)
        return one_of((found, Primitive.NULL)) if nullable else found

    def _affords(self, parts: int = 1, *texts: str) -> bool:
        """Count what the type will have, wherever it is from; tell whether that is still within the limit."""
        self._parts += parts + sum(map(len, texts)) // _CHARACTERS_OF_A_PART
        return self._parts <= _MAX_PARTS

    def _read_structure(self, schema: Mapping[str, Any], depth: int) -> Type:
        if "$ref" in schema:
            pointer = schema["$ref"]
            if not _is_local(pointer) or self._find(pointer[1:]) is _MISSING:
                return Unknown(f"refers to {_quoted(pointer)}, which is not there")
            self._referenced.append(pointer[1:])
            return Reference(pointer[1:])
        if "const" in schema:
            return self._constants([schema["const"]])
        if "enum" in schema:
            values = _listed(schema["enum"])
            if not values or len(values) > _MAX_CONSTANTS:
                return self._typed(schema, depth)
            return self._constants(values)
        if any(word in schema for word in _COMBINING_WORDS):
            return self._combination(schema, depth)
        if schema.get("not") in ({}, True):
            return Never()
        return self._typed(schema, depth)

    def _constants(self, values: list[Any]) -> Type:
        if not self._affords(len(values), *(value for value in values if isinstance(value, str))):
            return Unknown(_TOO_LARGE)
        return one_of(map(constant, values))

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

    def _combination(self, schema: Mapping[str, Any], depth: int) -> Type:
        base = {word: value for word, value in schema.items() if word not in _COMBINING_WORDS}
        found = self._read(base, depth + 1) if _has_structure(base) else Unknown()
        for part in _listed(schema.get("allOf")):
            found = self._both(found, self._expanded(part, depth + 1))
        for word in ("anyOf", "oneOf"):
            options = [option for option in _listed(schema.get(word)) if _has_structure(option)]
            if options:
                read = self._read if isinstance(found, Unknown) else self._expanded
                found = one_of(self._both(found, read(option, depth + 1)) for option in options)
        return found

    def _both(self, first: Type, second: Type) -> Type:
        """Return the type of a value that fits both."""
        match first, second:
            case (Unknown(note=""), other) | (other, Unknown(note="")):
                return other
            case (one, other) if one == other:
                return one
            case (Never(), _) | (_, Never()):
                return Never()
            case Record(), Record() if not self._affords(len(first.fields) + len(second.fields)):
                return Unknown(_TOO_LARGE)
            case Record(), Record():
                fields = {field.name: field for field in first.fields}
                for new in second.fields:
                    old = fields.get(new.name, new)
                    found = or_unknown(self._both(old.type, new.type), "the schema contradicts itself")
                    doc, examples = new.doc or old.doc, new.examples or old.examples
                    fields[new.name] = Field(new.name, found, old.required or new.required, doc, examples)
                return Record(tuple(fields.values()), first.rest if second.rest is None else second.rest)
            case (Primitive.NUMBER, Primitive.INTEGER) | (Primitive.INTEGER, Primitive.NUMBER):
                return Primitive.INTEGER
            case OneOf(options=options), other:
                return one_of(self._both(option, other) for option in options)
            case _:
                return Unknown("several schemas that cannot be combined")

    def _expanded(self, schema: Any, depth: int) -> Type:
        """Read a schema with the definition in place of a reference to it: only that can be combined."""
        pointer = _mapping(schema).get("$ref")
        if not _is_local(pointer) or pointer in self._expanding or self._find(pointer[1:]) is _MISSING:
            return self._read(schema, depth)
        if depth > _MAX_DEPTH:
            return Unknown(_TOO_LARGE)
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
        properties = _mapping(schema.get("properties"))
        required = dict.fromkeys(name for name in _listed(schema.get("required")) if isinstance(name, str))
        count = len(properties) + len(required)
        if count > _MAX_FIELDS or not self._affords(count, *required):
            return Unknown(_TOO_LARGE)
        fields = [self._field(name, part, name in required, depth) for name, part in properties.items()]
        fields += [Field(name, Unknown(), required=True) for name in required if name not in properties]
        rest = [self._read(part, depth + 1) for part in _mapping(schema.get("patternProperties")).values()]
        if "additionalProperties" in schema:
            rest.append(self._read(schema["additionalProperties"], depth + 1))
        return Record(tuple(fields), one_of(rest) if rest else None)

    def _field(self, name: str, schema: Any, required: bool, depth: int) -> Field:
        found, words = or_unknown(self._read(schema, depth + 1), _NO_VALUE), _mapping(schema)
        description = words.get("description")
        text = description.strip() if isinstance(description, str) else ""
        notes = [f"{word}: {shown}" for word in _NOTED_WORDS if word in words and (shown := _shown(words[word]))]
        doc = "\n".join(part for part in (text, ", ".join(notes)) if part)
        if not self._affords(0, name, doc):
            return Field(name, Unknown(_TOO_LARGE), required)
        candidates = [*_listed(words.get("examples")), *([words["default"]] if "default" in words else [])]
        if found is Primitive.STRING and isinstance(words.get("format"), str):
            candidates.append(_EXAMPLES_BY_FORMAT.get(words["format"]))
        elif found in (Primitive.INTEGER, Primitive.NUMBER):
            candidates.append(_smallest_allowed(words))
        example = next(([candidate] for candidate in candidates[:_MAX_CANDIDATES] if _shown(candidate)), [])
        return Field(name, found, required, doc, tuple(example))

    def _list(self, schema: Mapping[str, Any], depth: int) -> Type:
        # Before 2020, `items` was a list where it is `prefixItems` now, and `additionalItems` was the rest.
        items = schema.get("items", True)
        prefix = _listed(schema.get("prefixItems")) or _listed(items)
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        found = self._read(rest, depth + 1)
        if not prefix:
            return ListOf(or_unknown(found, "the list is empty"))
        first = tuple(or_unknown(self._read(part, depth + 1), _NO_VALUE) for part in prefix)
        closed = schema.get("maxItems") == len(prefix)
        return TupleOf(first, Never() if closed else found)


def _smallest_allowed(words: Mapping[str, Any]) -> int | float | None:
    """Return the least that a schema allows, where the usual example would be too little or too much."""
    least, most = words.get("minimum"), words.get("maximum")
    if isinstance(above := words.get("exclusiveMinimum"), int):
        least = above + 1
    if isinstance(least, int | float) and least > 1:
        return least
    return most if isinstance(most, int | float) and most < 1 else None


def _is_local(pointer: Any) -> TypeGuard[str]:
    return isinstance(pointer, str) and (pointer == "#" or pointer.startswith("#/"))


def _quoted(name: Any) -> str:
    return f"'{name[:80]}'" if isinstance(name, str) else "something that is no name"


def _has_structure(schema: Any) -> bool:
    """Tell whether a part says what a value is; {"required": ["a"]} only restricts what stands beside it."""
    return not isinstance(schema, Mapping) or any(word in schema for word in (*_STRUCTURE_WORDS, "not"))


def _shown(value: Any) -> str | None:
    """Return the value as JSON if it is short enough to be shown."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        return None
    return None if value is None or len(text) > _MAX_EXAMPLE_CHARACTERS else text
