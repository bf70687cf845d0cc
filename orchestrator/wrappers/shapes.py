"""The shape of what a tool returned: which fields of which kinds, never what was in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from itertools import islice
from typing import Any

from orchestrator.wrappers.types import (
    ROOT,
    Content,
    Document,
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
        return parts

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> Shape:
        return cls(
            kinds=frozenset(map(Kind, parts["kinds"])),
            items=cls.from_json(parts["items"]) if "items" in parts else None,
            fields={name: cls.from_json(shape) for name, shape in parts.get("fields", {}).items()},
            always=frozenset(parts.get("always", ())),
            values=cls.from_json(parts["values"]) if "values" in parts else None,
        )


def observe(result: Mapping[str, Any]) -> Shape | None:
    """The shape of what a program gets for this result of a call; None when there is nothing to learn from it."""
    return None if result.get("isError") else _Observer().result(result)


def learned(known: Shape, seen: Shape) -> Shape:
    """What is known with what was seen added, unless that is more than a type should say."""
    both = merge(known, seen)
    return both if _parts(both) <= _MAX_PARTS else known


def _parts(shape: Shape) -> int:
    inner = [*shape.fields.values(), *(part for part in (shape.items, shape.values) if part)]
    return 1 + sum(map(_parts, inner))


def merge(first: Shape, second: Shape) -> Shape:
    values = _merged(shape for shape in (first.values, second.values) if shape)
    found = Shape(
        kinds=first.kinds | second.kinds,
        items=_merged(shape for shape in (first.items, second.items) if shape),
        fields=_merged_fields(first.fields, second.fields),
        always=_always(first, second),
        values=values,
    )
    return _as_map(found) if values or _keys_are_data(first, second, found) else found


def _keys_are_data(first: Shape, second: Shape, both: Shape) -> bool:
    nothing_in_common = bool(first.fields and second.fields) and not first.fields.keys() & second.fields.keys()
    return nothing_in_common or len(both.fields) > _MAX_FIELDS


def _as_map(shape: Shape) -> Shape:
    known = [shape.values] if shape.values else []
    return Shape(shape.kinds, shape.items, values=_merged([*known, *shape.fields.values()]))


def _merged(shapes: Iterable[Shape]) -> Shape | None:
    found = list(shapes)
    return reduce(merge, found) if found else None


def _merged_fields(first: Mapping[str, Shape], second: Mapping[str, Shape]) -> dict[str, Shape]:
    merged = {name: merge(shape, second[name]) if name in second else shape for name, shape in first.items()}
    return merged | {name: shape for name, shape in second.items() if name not in first}


def _always(first: Shape, second: Shape) -> frozenset[str]:
    objects = [shape.always for shape in (first, second) if Kind.OBJECT in shape.kinds]
    return frozenset.intersection(*objects) if objects else frozenset()


class _Observer:
    """Looks at one result, while the daemon's event loop waits: at so many parts and so much text, and no more."""

    def __init__(self) -> None:
        self._parts = 0
        self._characters = 0

    def result(self, result: Mapping[str, Any]) -> Shape | None:
        if result.get("structuredContent") is not None:
            return self._shape(result["structuredContent"], 0)
        contents = result.get("content")
        if not isinstance(contents, list) or not contents:
            return Shape(frozenset({Kind.NULL})) if contents == [] else None
        shapes = [self._content(content) for content in contents[:_MAX_ELEMENTS]]
        if len(contents) == 1:
            return shapes[0]
        return Shape(frozenset({Kind.ARRAY}), items=_merged(shape for shape in shapes if shape))

    def _content(self, content: Any) -> Shape | None:
        kind = content.get("type") if isinstance(content, Mapping) else None
        if kind == "text" and isinstance(content.get("text"), str):
            return self._text(content["text"])
        known = {Kind.IMAGE, Kind.AUDIO, Kind.RESOURCE, Kind.RESOURCE_LINK}
        return Shape(frozenset({Kind(kind)})) if kind in known else self._shape(content, 0)

    def _text(self, text: str) -> Shape | None:
        if text.lstrip()[:1] not in {"{", "["}:
            return Shape(frozenset({Kind.STRING}))
        self._characters += len(text)
        if self._characters > _MAX_TEXT_CHARACTERS:
            return None
        try:
            return self._shape(json.loads(text), 0)
        except (ValueError, RecursionError):
            return Shape(frozenset({Kind.STRING}))

    def _shape(self, value: Any, depth: int) -> Shape:
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            return Shape(frozenset({Kind.ANYTHING}))
        if isinstance(value, list):
            items = _merged(self._shape(item, depth + 1) for item in value[:_MAX_ELEMENTS])
            return Shape(frozenset({Kind.ARRAY}), items=items)
        return self._object(value, depth) if isinstance(value, Mapping) else Shape(frozenset({_kind(value)}))

    def _object(self, value: Mapping[str, Any], depth: int) -> Shape:
        if len(value) > _MAX_FIELDS or not all(_FIELD_NAME.fullmatch(name) for name in value):
            some = list(islice(value.values(), _MAX_ELEMENTS))
            return Shape(frozenset({Kind.OBJECT}), values=_merged(self._shape(item, depth + 1) for item in some))
        fields = {name: self._shape(item, depth + 1) for name, item in value.items()}
        return Shape(frozenset({Kind.OBJECT}), fields=fields, always=frozenset(fields))


def _kind(value: Any) -> Kind:
    match value:
        case None:
            return Kind.NULL
        case bool():
            return Kind.BOOLEAN
        case int():
            return Kind.INTEGER
        case float():
            return Kind.NUMBER
        case str():
            return Kind.STRING
        case _:
            return Kind.ANYTHING


def read_shape(shape: Shape) -> Document:
    return Document({ROOT: _type(shape)})


def _type(shape: Shape) -> Type:
    kinds = shape.kinds - {Kind.INTEGER} if Kind.NUMBER in shape.kinds else shape.kinds
    return one_of(_type_of_kind(kind, shape) for kind in sorted(kinds)) if kinds else Unknown()


def _type_of_kind(kind: Kind, shape: Shape) -> Type:
    if kind is Kind.ANYTHING:
        return Unknown()
    if kind is Kind.ARRAY:
        return ListOf(_type(shape.items) if shape.items else Unknown())
    if kind is Kind.OBJECT:
        return _record(shape)
    return _CONTENT.get(kind) or Primitive(kind)


def _record(shape: Shape) -> Record:
    if shape.values:
        return Record(rest=_type(shape.values))
    fields = [Field(name, _type(part), name in shape.always) for name, part in sorted(shape.fields.items())]
    return Record(tuple(fields))
