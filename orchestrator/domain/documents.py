"""Values as JSON documents, and back. Readers are tolerant: what they do not know they ignore, what is missing stays
at its default, so that a record that another version wrote can still be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_document(value: Any) -> Any:
    """Turn a dataclass, with everything in it, into what `json.dumps` takes."""
    if is_dataclass(value):
        return {field.name: to_document(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_document(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def from_document(kind: type[T], document: Mapping[str, Any]) -> T:
    """Read a dataclass. A nested one that lacks what it cannot do without is None, where None is allowed."""
    given = {}
    for name, (hint, required) in _plan(cast(Any, kind)).items():
        if name in document:
            given[name] = _read(hint, document[name])
        elif required:
            raise KeyError(name)
    return kind(**given)


@cache
def _plan(kind: Any) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(kind)
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }


def _read(hint: Any, value: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (choice for choice in get_args(hint) if choice is not type(None))
        try:
            return None if value is None else _read(inner, value)
        except KeyError:
            return None
    if get_origin(hint) is tuple:
        return tuple(_read(get_args(hint)[0], item) for item in value)
    if is_dataclass(hint):
        return from_document(cast(Any, hint), value)
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value
