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


_KIND_OF_SCALAR = {
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    str: Kind.STRING,
}
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
    return Shape(frozenset({Kind.ARRAY}), items=_merged(shape for shape in shapes if shape))


def learned(known: Shape, seen: Shape) -> Shape:
    """Add what was seen to what is known, unless that is more than a type should say."""
    both = merge(known, seen)
    return both if _parts(both) <= _MAX_PARTS else known


def _parts(shape: Shape) -> int:
    inner = [*shape.fields.values(), *(part for part in (shape.items, shape.values) if part)]
    return 1 + sum(map(_parts, inner))


def merge(first: Shape, second: Shape) -> Shape:
    fields = {
        name: merge(shape, second.fields[name]) if name in second.fields else shape
        for name, shape in first.fields.items()
    }
    fields |= {name: shape for name, shape in second.fields.items() if name not in first.fields}
    kinds = first.kinds | second.kinds
    items = _merged(shape for shape in (first.items, second.items) if shape)
    values = _merged(shape for shape in (first.values, second.values) if shape)
    nothing_in_common = bool(first.fields and second.fields) and not first.fields.keys() & second.fields.keys()
    if values or nothing_in_common or len(fields) > _MAX_FIELDS:
        # The keys are data.
        return Shape(kinds, items, values=_merged([*([values] if values else []), *fields.values()]))
    objects = [shape.always for shape in (first, second) if Kind.OBJECT in shape.kinds]
    return Shape(kinds, items, fields, frozenset.intersection(*objects) if objects else frozenset())


def _merged(shapes: Iterable[Shape]) -> Shape | None:
    found = list(shapes)
    return reduce(merge, found) if found else None


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
            return Shape(frozenset({Kind.STRING}))
        self._characters += len(text)
        if self._characters > _MAX_TEXT_CHARACTERS:
            return None
        try:
            return self.value(json.loads(text))
        except (ValueError, RecursionError):
            return Shape(frozenset({Kind.STRING}))

    def value(self, value: Any, depth: int = 0) -> Shape:
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            return Shape(frozenset({Kind.ANYTHING}))
        if isinstance(value, list):
            items = _merged(self.value(item, depth + 1) for item in value[:_MAX_ELEMENTS])
            return Shape(frozenset({Kind.ARRAY}), items=items)
        if not isinstance(value, Mapping):
            # By the exact type: True is an int as well.
            return Shape(frozenset({_KIND_OF_SCALAR.get(type(value), Kind.ANYTHING)}))
        if len(value) > _MAX_FIELDS or not all(_FIELD_NAME.fullmatch(name) for name in value):
            some = islice(value.values(), _MAX_ELEMENTS)
            return Shape(frozenset({Kind.OBJECT}), values=_merged(self.value(item, depth + 1) for item in some))
        fields = {name: self.value(item, depth + 1) for name, item in value.items()}
        return Shape(frozenset({Kind.OBJECT}), fields=fields, always=frozenset(fields))


def type_of(shape: Shape) -> Type:
    options: list[Type] = []
    for kind in sorted(shape.kinds - {Kind.INTEGER} if Kind.NUMBER in shape.kinds else shape.kinds):
        match kind:
            case Kind.ANYTHING:
                options.append(Unknown())
            case Kind.ARRAY:
                options.append(ListOf(type_of(shape.items) if shape.items else Unknown()))
            case Kind.OBJECT if shape.values:
                options.append(Record(rest=type_of(shape.values)))
            case Kind.OBJECT:
                fields = sorted(shape.fields.items())
                options.append(Record(tuple(Field(name, type_of(part), name in shape.always) for name, part in fields)))
            case _:
                options.append(_CONTENT.get(kind) or Primitive(kind))
    return one_of(options) if options else Unknown()
