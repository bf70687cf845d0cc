"""Types of JSON values, independent of the language they are written in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Primitive(StrEnum):
    STRING = "string"
    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    NULL = "null"


class Content(StrEnum):
    """What a tool returns besides JSON; the client library defines these types."""

    IMAGE = "Image"
    AUDIO = "Audio"
    RESOURCE = "Resource"
    RESOURCE_LINK = "ResourceLink"


@dataclass(frozen=True, slots=True)
class Unknown:
    note: str = ""


@dataclass(frozen=True, slots=True)
class AnyJson:
    """Known to be JSON, and nothing else."""


@dataclass(frozen=True, slots=True)
class Never:
    pass


@dataclass(frozen=True, slots=True)
class Constant:
    # The text decides whether two are equal, because for Python 1, 1.0 and True are.
    text: str
    value: str | int | float | bool | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Type


@dataclass(frozen=True, slots=True)
class TupleOf:
    items: tuple[Type, ...]
    rest: Type


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type
    required: bool
    doc: str = ""
    examples: tuple[Any, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    fields: tuple[Field, ...] = ()
    # What further keys hold: Never if there are none, None if the schema does not say.
    rest: Type | None = None


@dataclass(frozen=True, slots=True)
class OneOf:
    options: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """To a definition of the same document, by its JSON pointer."""

    pointer: str


Type = Unknown | AnyJson | Never | Primitive | Content | Constant | ListOf | TupleOf | Record | OneOf | Reference


ROOT = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A type with the definitions that it refers to, by their JSON pointers."""

    definitions: Mapping[str, Type]

    @property
    def root(self) -> Type:
        return self.definitions[ROOT]


def one_of(options: Iterable[Type]) -> Type:
    """Leave out what adds nothing; one unknown option makes the whole unknown."""
    flat = (each for option in options for each in (option.options if isinstance(option, OneOf) else (option,)))
    distinct = [option for option in dict.fromkeys(flat) if not isinstance(option, Never)]
    unknown = next((option for option in distinct if isinstance(option, Unknown)), None)
    if unknown or len(distinct) == 1:
        return unknown or distinct[0]
    return OneOf(tuple(distinct)) if distinct else Never()


def constant(value: Any) -> Type:
    match value:
        case float() if not math.isfinite(value):
            return Primitive.NUMBER
        case str() | bool() | int() | float() | None:
            return Constant(json.dumps(value), value)
        case list() | tuple():
            return Unknown("one particular list")
        case _:
            return Unknown("one particular object")


def replaced(type_: Type, old: Type, new: Type) -> Type:
    """Replace a type, or an option of a union, but nothing inside the options."""
    if type_ == old:
        return new
    return one_of(replaced(option, old, new) for option in type_.options) if isinstance(type_, OneOf) else type_


def or_unknown(type_: Type, note: str) -> Type:
    return Unknown(note) if isinstance(type_, Never) else type_
