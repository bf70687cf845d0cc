"""The shape of what a tool returned: which fields of which kinds, never what was in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial, reduce
from hashlib import sha256
from itertools import islice
from typing import Any

from orchestrator.wrappers.types import (
    AnyJson,
    Content,
    Field,
    ListOf,
    Primitive,
    Record,
    Type,
    Unknown,
    one_of,
)

_MAX_DEPTH = 8
_MAX_FIELDS = 64
_MAX_ELEMENTS = 50
_MAX_TEXT_CHARACTERS = 256 * 1024
_MAX_PARTS = 1000
_FEWEST_KEYS_OF_A_MAP = 3

# A key that does not look like this may be data: an address, a date, an id, a person's name.
_FIELD_NAME = re.compile(r"(?!.*\d{4})[^\W\d][\w.$-]{0,39}")


class Kind(StrEnum):
    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    ARRAY = "array"
    OBJECT = "object"
    IMAGE = "image"
    AUDIO = "audio"
    RESOURCE = "resource"
    RESOURCE_LINK = "resource_link"
    ANYTHING = "anything"


class Format(StrEnum):
    """What can be told of strings and integers without telling what they are. The text is the comment on a field."""

    TEXT = ""
    NUMBER = "a number as a string"
    DATE = "an ISO 8601 date as a string"
    TIME = "an ISO 8601 date and time as a string"
    LARGE_INTEGER = "an integer that may exceed 2^53, beyond which TypeScript loses digits"


_FORMATS = {
    Format.NUMBER: re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?"),
    Format.DATE: re.compile(r"\d{4}-\d\d-\d\d"),
    Format.TIME: re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d(:?\d\d)?))?"),
}
_LONGEST_FORMATTED = 40
_LARGEST_EXACT_INTEGER = 2**53 - 1

_KIND_OF_SCALAR = {
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    str: Kind.STRING,
}
_OBJECT = frozenset({Kind.OBJECT})
_CONTENT = {
    Kind.IMAGE: Content.IMAGE,
    Kind.AUDIO: Content.AUDIO,
    Kind.RESOURCE: Content.RESOURCE,
    Kind.RESOURCE_LINK: Content.RESOURCE_LINK,
}


@dataclass(frozen=True, slots=True)
class Shape:
    kinds: frozenset[Kind]
    items: Shape | None = None
    fields: Mapping[str, Shape] = field(default_factory=dict)
    always: frozenset[str] = frozenset()
    # Of an object whose keys are data: what they lead to.
    values: Shape | None = None
    # Of an object whose fields depend on what was asked for: nothing more is known of them.
    varies: bool = False
    # Of an object: how often its fields were not those that were known.
    surprises: int = 0
    formats: frozenset[Format] = frozenset()

    def to_json(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"kinds": sorted(self.kinds)}
        if self.items:
            parts["items"] = self.items.to_json()
        if self.fields:
            parts["fields"] = {name: shape.to_json() for name, shape in self.fields.items()}
        if self.always:
            parts["always"] = sorted(self.always)
        if self.values:
            parts["values"] = self.values.to_json()
        if self.varies:
            parts["varies"] = True
        if self.surprises:
            parts["surprises"] = self.surprises
        if self.formats:
            parts["formats"] = sorted(each.name for each in self.formats)
        return parts

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> Shape:
        return cls(
            kinds=frozenset(map(Kind, parts["kinds"])),
            items=cls.from_json(parts["items"]) if "items" in parts else None,
            fields={name: cls.from_json(shape) for name, shape in parts.get("fields", {}).items()},
            always=frozenset(parts.get("always", ())),
            values=cls.from_json(parts["values"]) if "values" in parts else None,
            varies=parts.get("varies", False),
            surprises=parts.get("surprises", 0),
            formats=frozenset(Format[name] for name in parts.get("formats", ())),
        )

    def digest(self) -> bytes:
        """Return what two shapes share if and only if they are equal."""
        return sha256(json.dumps(self.to_json(), sort_keys=True).encode()).digest()


_VARIES = Shape(_OBJECT, varies=True)
_TEXT = Shape(frozenset({Kind.STRING}), formats=frozenset({Format.TEXT}))


def observe(result: Mapping[str, Any], *, lists_contents: bool = False) -> Shape | None:
    """Return the shape of what a program gets for this result; None when there is nothing to learn from it."""
    if result.get("isError"):
        return None
    observer = _Observer()
    if result.get("structuredContent") is not None and not lists_contents:
        return observer.value(result["structuredContent"])
    contents = result.get("content")
    if not isinstance(contents, list):
        return None
    if not contents and not lists_contents:
        return Shape(frozenset({Kind.NULL}))
    shapes = [observer.content(content) for content in contents[:_MAX_ELEMENTS]]
    if len(contents) == 1 and not lists_contents:
        return shapes[0]
    return Shape(frozenset({Kind.ARRAY}), items=_merged(shapes))


def learned(known: Shape, seen: Shape) -> Shape:
    """Add what was seen to what is known, unless that is more than a type should say."""
    both = _united(known, seen, between_results=True)
    return both if _parts(both) <= _MAX_PARTS else known


def _parts(shape: Shape) -> int:
    inner = [*shape.fields.values(), *(part for part in (shape.items, shape.values) if part)]
    return 1 + sum(map(_parts, inner))


def _united(first: Shape, second: Shape, *, between_results: bool = False) -> Shape:
    objects = [shape for shape in (first, second) if Kind.OBJECT in shape.kinds]
    united = _united_objects(*objects, between_results=between_results) if len(objects) == 2 else [*objects, first][0]
    return replace(
        united,
        kinds=first.kinds | second.kinds,
        items=_merged((shape.items for shape in (first, second)), between_results=between_results),
        formats=first.formats | second.formats,
    )


def _united_objects(first: Shape, second: Shape, *, between_results: bool) -> Shape:
    fields = {
        name: _united(shape, second.fields[name], between_results=between_results) if name in second.fields else shape
        for name, shape in first.fields.items()
    }
    fields |= {name: shape for name, shape in second.fields.items() if name not in first.fields}
    values = [shape.values for shape in (first, second)]
    nothing_in_common = bool(first.fields and second.fields) and not first.fields.keys() & second.fields.keys()
    if first.varies or second.varies:
        return _VARIES
    if any(values) or len(fields) > _MAX_FIELDS:
        return Shape(_OBJECT, values=_merged([*values, *fields.values()]))
    if nothing_in_common:
        is_map = not between_results or _are_alike(fields.values())
        return Shape(_OBJECT, values=_merged(fields.values())) if is_map else _VARIES
    surprises = max(first.surprises, second.surprises)
    if between_results and first.fields and second.fields:
        surprises += bool(first.always - second.fields.keys()) + bool(second.always - first.fields.keys())
    if surprises > 1:
        return _VARIES
    return Shape(_OBJECT, fields=fields, always=first.always & second.always, surprises=surprises)


def _merged(shapes: Iterable[Shape | None], *, between_results: bool = False) -> Shape | None:
    found = [shape for shape in shapes if shape]
    return reduce(partial(_united, between_results=between_results), found) if found else None


def _are_alike(shapes: Iterable[Shape]) -> bool:
    """Tell whether these are objects with the same fields, as those are that a key leads to."""
    names = {frozenset(shape.fields) for shape in shapes}
    return len(names) == 1 and names != {frozenset()}


class _Observer:
    """Looks at one result while the daemon's event loop waits: at a limited number of parts and amount of text."""

    def __init__(self) -> None:
        self._parts = 0
        self._characters = 0

    def content(self, content: Any) -> Shape | None:
        kind = content.get("type") if isinstance(content, Mapping) else None
        if isinstance(kind, str) and kind in _CONTENT:
            return Shape(frozenset({Kind(kind)}))
        text = content.get("text") if kind == "text" else None
        if not isinstance(text, str):
            return self.value(content)
        if text.lstrip()[:1] not in {"{", "["}:
            return _TEXT
        self._characters += len(text)
        if self._characters > _MAX_TEXT_CHARACTERS:
            return None
        try:
            return self.value(json.loads(text))
        except (ValueError, RecursionError):
            return _TEXT

    def value(self, value: Any, depth: int = 0) -> Shape:
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            return Shape(frozenset({Kind.ANYTHING}))
        if isinstance(value, list):
            items = _merged(self.value(item, depth + 1) for item in value[:_MAX_ELEMENTS])
            return Shape(frozenset({Kind.ARRAY}), items=items)
        if not isinstance(value, Mapping):
            # By the exact type: True is an int as well.
            return Shape(frozenset({_KIND_OF_SCALAR.get(type(value), Kind.ANYTHING)}), formats=_formats(value))
        if len(value) > _MAX_FIELDS or not all(_FIELD_NAME.fullmatch(name) for name in value):
            some = islice(value.values(), _MAX_ELEMENTS)
            return Shape(_OBJECT, values=_merged(self.value(item, depth + 1) for item in some))
        fields = {name: self.value(item, depth + 1) for name, item in value.items()}
        if len(fields) >= _FEWEST_KEYS_OF_A_MAP and _are_alike(fields.values()):
            return Shape(_OBJECT, values=_merged(fields.values()))
        return Shape(_OBJECT, fields=fields, always=frozenset(fields))


def _formats(value: Any) -> frozenset[Format]:
    match value:
        case str():
            short = value if len(value) <= _LONGEST_FORMATTED else ""
            return frozenset({next((kind for kind, form in _FORMATS.items() if form.fullmatch(short)), Format.TEXT)})
        case int() if abs(value) > _LARGEST_EXACT_INTEGER:
            return frozenset({Format.LARGE_INTEGER})
        case _:
            return frozenset()


def _about(shape: Shape) -> str:
    """Say what a number or a date is written as, where all that were seen are of one kind."""
    notes = shape.formats & {Format.LARGE_INTEGER}
    of_strings = shape.formats - notes
    return ", ".join(sorted(filter(None, of_strings if len(of_strings) == 1 else ())) + sorted(notes))


def type_of(shape: Shape) -> Type:
    options: list[Type] = []
    for kind in sorted(shape.kinds - {Kind.INTEGER} if Kind.NUMBER in shape.kinds else shape.kinds):
        match kind:
            case Kind.ANYTHING:
                options.append(Unknown())
            case Kind.ARRAY:
                options.append(ListOf(type_of(shape.items) if shape.items else Unknown()))
            case Kind.OBJECT if shape.varies:
                options.append(Record(rest=AnyJson()))
            case Kind.OBJECT if shape.values:
                options.append(Record(rest=type_of(shape.values)))
            case Kind.OBJECT:
                fields = sorted(shape.fields.items())
                options.append(
                    Record(
                        tuple(Field(name, type_of(part), name in shape.always, _about(part)) for name, part in fields)
                    )
                )
            case _:
                options.append(_CONTENT.get(kind) or Primitive(kind))
    return one_of(options) if options else Unknown()
