"""JSON Schemas: whether a value fits one, which one fits what was seen, and how one changed into another.

Schemas and values may be hostile, so all work is bounded: what lies deeper than MAX_DEPTH, or comes after MAX_STEPS
steps, is accepted, and a `Budget` tells whether that happened. A step is what takes about as long as looking at one
value. `pattern` and `format` are not checked, because no regular expression of a schema is ever run, and neither are
`multipleOf`, `uniqueItems`, `contains`, `not`, `if` and the other keywords that are not named below. Only references
into the same schema are followed, of at most MAX_SEGMENTS segments. A keyword that is unknown or malformed is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any
from urllib.parse import unquote

MAX_STEPS = 20_000
MAX_DEPTH = 64
MAX_SEGMENTS = 20  # of a reference, such as #/$defs/row with 2
MAX_INFERRED_DEPTH = 8
MAX_INFERRED_PROPERTIES = 100
_MAX_SHOWN_CHARACTERS = 60
_MAX_SHOWN_CHOICES = 12
_MAX_SHOWN_NAMES = 20
_MAX_REFERENCE_CHARACTERS = 1000
_MAX_PATH_CHARACTERS = 500
_MAX_SENTENCE_CHARACTERS = 1000  # of one that is repeated in another
_CHARACTERS_OF_A_STEP = 4096  # two texts are compared that much at a time
_STEPS_OF_A_COMPARISON = 4  # of two schemas, in which a dozen words are looked for
_MAX_STEPS_OVER_PROSE = 5 * MAX_STEPS  # which are shorter, and enough for any schema of 64 KiB
_MAX_FOUND = 1000
_MAX_BRANCHES = 50  # of a union, whose branches are compared each with each

_WORDS = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "null": "null",
}
_SIMPLE_NAME = re.compile(r"[\w$-]{1,60}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PROSE = _words("title description examples default $comment deprecated readOnly writeOnly markdownDescription")
_MAPS_OF_SCHEMAS = _words("properties patternProperties $defs definitions dependentSchemas dependencies")
_SCHEMAS = _words(
    """
    items additionalItems unevaluatedItems additionalProperties unevaluatedProperties not if then else contains
    propertyNames contentSchema
    """
)
_LISTS_OF_SCHEMAS = _words("anyOf oneOf allOf prefixItems items")
_UNIONS = _words("anyOf oneOf")
_DEFINITIONS = _words("$defs definitions")
_LIMITS = _words(
    """
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format minItems maxItems
    uniqueItems minProperties maxProperties
    """
)
# What a comparison has words for, or need not look at.
_COMPARED = frozenset(
    _words("$ref $schema $id type nullable enum const required properties additionalProperties items allOf")
    + _UNIONS
    + _DEFINITIONS
    + _LIMITS
)


class Budget:
    """The steps that may still be taken. Given to several checks, it bounds them all together.

    What comes after the last step is accepted: no mismatch that is told is wrong, but some may be missing. Where it
    matters that a value fits, rather than that nothing was found, ask for `is_spent` too.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> bool:
        """Take so many steps, and return whether there were so many left."""
        self.left -= steps
        return self.left >= 0

    @property
    def is_spent(self) -> bool:
        """Tell whether there were too few, so that not everything was looked at."""
        return self.left < 0


def mismatches(
    schema: Mapping[str, Any], value: Any, name: str = "input", most: int = 5, budget: Budget | None = None
) -> list[str]:
    """Say in one sentence each what about the value does not fit the schema.

    Give one budget to all checks that are made in one go. With none, this check has MAX_STEPS of its own.
    """
    return _Check(schema, budget or Budget()).mismatches(schema, value, name, 0, most)


def schema_of(values: Sequence[Any]) -> dict[str, Any]:
    """Infer a schema that all of these values fit."""
    return _inferred(values, 0)


def without_prose(schema: Any) -> Any:
    """Return the schema without what is only for readers."""
    return _without_prose(schema, 0, Budget(_MAX_STEPS_OVER_PROSE))


def differences(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str, most: int = 8
) -> list[str]:
    """Say in one sentence each how a tool's schema changed; what only readers see, and the order, do not count."""
    if before is None or after is None:
        if before is after:
            return []
        return [f"`{name}` has a schema now." if before is None else f"`{name}` has no schema any more."]
    return _Comparison(without_prose(before), without_prose(after), name, Budget()).sentences(most)


def under(path: str, name: str) -> str:
    """Return the path of a property."""
    if _SIMPLE_NAME.fullmatch(name):
        return f"{path}.{name}" if path else name
    return f"{path}[{_quoted(name)}]"


def _deeper(path: str, inner: str) -> str:
    """Stop naming what is too deep: each place on the way is written anew, which takes longer the deeper it is."""
    if path.endswith("…"):
        return path
    return inner if len(inner) <= _MAX_PATH_CHARACTERS else f"{path}…"


class _References:
    """What the references within one schema lead to."""

    def __init__(self, root: Mapping[str, Any], budget: Budget) -> None:
        self._root = root
        self._budget = budget
        self._targets: dict[str, Any] = {}

    def target(self, reference: Any) -> Any:
        """Return what a local reference leads to, or None."""
        if not isinstance(reference, str) or len(reference) > _MAX_REFERENCE_CHARACTERS or not self._budget.spend():
            return None
        if reference not in self._targets:
            self._targets[reference] = self._found(reference)
        return self._targets[reference]

    def _found(self, reference: str) -> Any:
        start, *segments = reference.split("/")
        if start != "#" or len(segments) > MAX_SEGMENTS or not self._budget.spend(len(segments)):
            return None
        target: Any = self._root
        for segment in segments:
            name = unquote(segment).replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdecimal() and len(name) < 6 and int(name) < len(target):
                target = target[int(name)]
            elif isinstance(target, Mapping) and name in target:
                target = target[name]
            else:
                return None
        return target


class _Check:
    """Checks one value against one schema."""

    def __init__(self, root: Mapping[str, Any], budget: Budget) -> None:
        self._budget = budget
        self._references = _References(root, budget)

    def mismatches(self, schema: Any, value: Any, path: str, depth: int, most: int) -> list[str]:
        if most <= 0 or not self._budget.spend() or depth > MAX_DEPTH:
            return []
        if schema is False:
            return [f"`{path}` must not be given."]
        if not isinstance(schema, Mapping) or (value is None and schema.get("nullable") is True):
            return []
        kind = _kind(value)
        types = _types(schema.get("type"))
        if types and kind not in types and not (kind == "integer" and "number" in types):
            return [f"`{path}` must be {_either(types)}, not {_what(value)}."]
        if wrong_choice := self._wrong_choice(schema, value, path):
            return [wrong_choice]
        found = _wrong_size(schema, value, path)
        if kind == "object":
            found += self._of_properties(schema, value, path, depth, most - len(found))
        elif kind == "array":
            found += self._of_items(schema, value, path, depth, most - len(found))
        if "$ref" in schema and (target := self._references.target(schema["$ref"])) is not None:
            found += self.mismatches(target, value, path, depth + 1, most - len(found))
        for part in _list(schema.get("allOf")):
            if len(found) >= most or self._budget.is_spent:
                break
            found += self.mismatches(part, value, path, depth + 1, most - len(found))
        for word in _UNIONS:
            if word in schema:
                found += self._of_union(_list(schema[word]), value, path, depth, most - len(found))
        return list(dict.fromkeys(found))[:most]

    def _wrong_choice(self, schema: Mapping[str, Any], value: Any, path: str) -> str | None:
        constant = [schema["const"]] if "const" in schema else ()
        for choices in (constant, _list(schema.get("enum"))):
            if not choices or any(_same(choice, value, self._budget) for choice in choices):
                continue
            self._budget.spend(min(len(choices), _MAX_SHOWN_CHOICES))
            return f"`{path}` must be {'one of ' if len(choices) > 1 else ''}{_listed(choices)}."
        return None

    def _of_properties(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], path: str, depth: int, most: int
    ) -> list[str]:
        properties = _mapping(schema.get("properties"))
        found: list[str] = []
        for required in _list(schema.get("required")):
            if len(found) >= most or not self._budget.spend():
                return found
            if isinstance(required, str) and required not in value:
                found.append(f"`{_deeper(path, under(path, required))}` is required.")
        # Without running its regular expressions, nobody knows which names patternProperties allows.
        other = True if schema.get("patternProperties") else schema.get("additionalProperties", True)
        for name, item in value.items():
            if len(found) >= most or not self._budget.spend():
                break
            place = _deeper(path, under(path, str(name)))
            if name in properties:
                found += self.mismatches(properties[name], item, place, depth + 1, most - len(found))
            elif other is False:
                self._budget.spend(min(len(properties), _MAX_SHOWN_NAMES))
                known = f"there are: {_names(properties)}" if properties else "there is nothing to give"
                found.append(f"`{place}` is not known; {known}.")
            else:
                found += self.mismatches(other, item, place, depth + 1, most - len(found))
        return found

    def _of_items(self, schema: Mapping[str, Any], value: Sequence[Any], path: str, depth: int, most: int) -> list[str]:
        items = schema.get("items", True)
        first = _list(schema.get("prefixItems"))
        if isinstance(items, list):  # as prefixItems was written before it had a name
            first, items = items, schema.get("additionalItems", True)
        found: list[str] = []
        for index, item in enumerate(value):
            if len(found) >= most or self._budget.is_spent:
                break
            expected = first[index] if index < len(first) else items
            found += self.mismatches(expected, item, _deeper(path, f"{path}[{index}]"), depth + 1, most - len(found))
        return found

    def _of_union(self, branches: Sequence[Any], value: Any, path: str, depth: int, most: int) -> list[str]:
        if not branches or most <= 0:
            return []
        tried: list[list[str]] = []
        for branch in branches:
            tried.append(self.mismatches(branch, value, path, depth + 1, most))
            if not tried[-1]:
                return []
        kind = _kind(value)
        kinds_of_branches = [_kinds(self._followed(branch), self._budget) for branch in branches]
        of_its_kind = [
            found
            for kinds, found in zip(kinds_of_branches, tried, strict=True)
            if kinds is None or kind in kinds or (kind == "integer" and "number" in kinds)
        ]
        if len(of_its_kind) == 1:
            return of_its_kind[0]
        if of_its_kind:
            nearest = min(of_its_kind, key=len)[0]
            why = f"; of one of them, {nearest}" if len(nearest) <= _MAX_SENTENCE_CHARACTERS else "."
            return [f"`{path}` fits none of the {len(branches)} forms that it may have{why}"]
        all_kinds = [kind for kinds in kinds_of_branches for kind in kinds or ()]
        return [f"`{path}` must be {_either(all_kinds)}, not {_what(value)}."]

    def _followed(self, branch: Any) -> Any:
        for _ in range(MAX_DEPTH):
            if not isinstance(branch, Mapping) or "$ref" not in branch or "type" in branch or self._budget.is_spent:
                break
            branch = self._references.target(branch["$ref"])
        return branch


def _wrong_size(schema: Mapping[str, Any], value: Any, path: str) -> list[str]:
    def limit(word: str) -> Any:
        return schema[word] if word in schema and _is_number(schema[word]) else None

    def beyond(least: Any, most: Any, size: int, noun: str) -> list[str]:
        if least is not None and size < least:
            return [f"`{path}` must have at least {_shown(least)} {noun}{'' if least == 1 else 's'}."]
        if most is not None and size > most:
            return [f"`{path}` must have at most {_shown(most)} {noun}{'' if most == 1 else 's'}."]
        return []

    if isinstance(value, str):
        return beyond(limit("minLength"), limit("maxLength"), len(value), "character")
    if isinstance(value, list | tuple):
        return beyond(limit("minItems"), limit("maxItems"), len(value), "item")
    if not _is_number(value):
        return []
    found = []
    if (least := limit("minimum")) is not None and value < least:
        found.append(f"`{path}` must be at least {_shown(least)}.")
    if (most := limit("maximum")) is not None and value > most:
        found.append(f"`{path}` must be at most {_shown(most)}.")
    if (above := limit("exclusiveMinimum")) is not None and value <= above:
        found.append(f"`{path}` must be greater than {_shown(above)}.")
    if (below := limit("exclusiveMaximum")) is not None and value >= below:
        found.append(f"`{path}` must be less than {_shown(below)}.")
    return found


def _inferred(values: Iterable[Any], depth: int) -> dict[str, Any]:
    by_kind: dict[str, list[Any]] = {}
    for value in values:
        # 1.0 was written by somebody who may write 1.5 the next time.
        by_kind.setdefault("number" if isinstance(value, float) else _kind(value), []).append(value)
    if not by_kind or not by_kind.keys() <= _WORDS.keys():
        return {}
    if "number" in by_kind:
        by_kind.pop("integer", None)
    branches = []
    if "object" in by_kind:
        branches.append(_inferred_object(by_kind.pop("object"), depth))
    if "array" in by_kind:
        items = _inferred((item for array in by_kind.pop("array") for item in array), depth + 1)
        branches.append({"type": "array", **({"items": items} if items and depth < MAX_INFERRED_DEPTH else {})})
    if scalars := [kind for kind in _WORDS if kind in by_kind]:
        branches.append({"type": scalars[0] if len(scalars) == 1 else scalars})
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _inferred_object(objects: Sequence[Mapping[str, Any]], depth: int) -> dict[str, Any]:
    if depth >= MAX_INFERRED_DEPTH:
        return {"type": "object"}
    seen: dict[str, list[Any]] = {}
    for item in objects:
        for name, value in item.items():
            seen.setdefault(str(name), []).append(value)
    named = list(seen)[:MAX_INFERRED_PROPERTIES]
    schema: dict[str, Any] = {"type": "object"}
    if named:
        schema["properties"] = {name: _inferred(seen[name], depth + 1) for name in named}
    if required := [name for name in named if len(seen[name]) == len(objects)]:
        schema["required"] = required
    if others := [value for name in list(seen)[len(named) :] for value in seen[name]]:
        schema["additionalProperties"] = _inferred(others, depth + 1)
    return schema


def _without_prose(schema: Any, depth: int, budget: Budget) -> Any:
    """Return it as it is where there is too much of it, so that no change in it can be overlooked."""
    if not isinstance(schema, Mapping) or not budget.spend(1 + len(schema)) or depth > MAX_DEPTH:
        return schema
    kept: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _PROSE:
            continue
        if word in _MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            kept[word] = {name: _without_prose(part, depth + 1, budget) for name, part in value.items()}
        elif word in _LISTS_OF_SCHEMAS and isinstance(value, list | tuple):
            kept[word] = [_without_prose(part, depth + 1, budget) for part in value]
        elif word in _SCHEMAS:
            kept[word] = _without_prose(value, depth + 1, budget)
        else:
            kept[word] = value
    return kept


_Followed = tuple[tuple[str, str], ...]  # the references that were followed on the way, on both sides


class _Comparison:
    """Finds the words for what differs between two schemas without prose."""

    def __init__(self, before: Mapping[str, Any], after: Mapping[str, Any], name: str, budget: Budget) -> None:
        self._before, self._after, self._name = before, after, name
        self._budget = budget
        self._references_before, self._references_after = _References(before, budget), _References(after, budget)
        self._is_cut = False
        self._found: list[str] = []

    def sentences(self, most: int) -> list[str]:
        if _is_spelled_alike(self._before, self._after):
            return []
        self._compare(self._before, self._after, "", 0, ())
        # Definitions may also be used where no words are found for a change.
        definitions_differ = not all(self._same(self._before.get(word), self._after.get(word)) for word in _DEFINITIONS)
        if not self._found and (definitions_differ or self._is_cut or self._budget.is_spent):
            self._say("", "has changed")
        return list(dict.fromkeys(self._found))[:most]

    def _say(self, path: str, what: str) -> None:
        self._found.append(f"`{path or self._name}` {what}.")

    def _same(self, one: Any, other: Any) -> bool:
        return _same(one, other, self._budget)

    def _compare(self, before: Any, after: Any, path: str, depth: int, followed: _Followed) -> None:
        if not self._budget.spend(_STEPS_OF_A_COMPARISON) or depth > MAX_DEPTH or len(self._found) > _MAX_FOUND:
            self._is_cut = True
            return
        references = _reference(before), _reference(after)
        if any(references):
            if all(references) and references in followed:
                return
            followed = (*followed, references)
            before = self._dereferenced(before, self._references_before)
            after = self._dereferenced(after, self._references_after)
        before, after = ({} if schema is True else schema for schema in (before, after))
        if not isinstance(before, Mapping) or not isinstance(after, Mapping):
            if not self._same(before, after):
                self._say(path, "must not be given now" if after is False else "has changed")
            return
        if not self._budget.spend(len(before) + len(after)):
            return
        if self._of_kind(before, after, path) or self._of_choices(before, after, path):
            return
        said = len(self._found)
        self._of_limits(before, after, path)
        self._of_properties(before, after, path, depth, followed)
        self._of_parts(before, after, path, depth, followed)
        rest_before, rest_after = (
            {word: value for word, value in schema.items() if word not in _COMPARED} for schema in (before, after)
        )
        unresolved = {reference for schema in (before, after) if (reference := _reference(schema))}
        if len(self._found) == said and (len(unresolved) > 1 or not self._same(rest_before, rest_after)):
            self._say(path, "has changed")

    def _dereferenced(self, schema: Any, references: _References) -> Any:
        """Return a schema with what it refers to in place; a reference that leads nowhere stays."""
        for _ in range(MAX_DEPTH):
            target = references.target(reference) if (reference := _reference(schema)) else None
            if target is None:
                break
            beside = {word: value for word, value in schema.items() if word != "$ref"}
            if isinstance(target, Mapping) and self._budget.spend(len(beside) + len(target)):
                schema = {**target, **beside}
            else:
                schema = target
        return schema

    def _of_kind(self, before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> bool:
        was, is_ = (_kinds(schema, self._budget) for schema in (before, after))
        if was == is_ or self._budget.is_spent:
            return False
        now = "may be anything now" if is_ is None else f"must be {_either(is_)} now"
        self._say(path, f"{now}; it {'could be anything' if was is None else f'was {_either(was)}'}")
        return True

    def _of_choices(self, before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> bool:
        was, is_ = _choices(before), _choices(after)
        if was is None or is_ is None:
            if was is is_:
                return False
            self._budget.spend(min(len(was or is_ or ()), _MAX_SHOWN_CHOICES))
            now, then = ("any value" if choices is None else _listed(choices) for choices in (is_, was))
            self._say(path, f"takes {now} now; it took {then}")
            return True
        if not self._budget.spend(len(was) + len(is_)):
            return False
        old, new = _by_key(was), _by_key(is_)
        if old is None or new is None:  # not only of scalars
            if changed := not self._same(was, is_):
                self._say(path, "has changed")
            return changed
        if old.keys() == new.keys():
            return False
        if max(len(old), len(new)) <= _MAX_SHOWN_CHOICES:
            self._say(path, f"takes {_listed(is_)} now; it took {_listed(was)}")
            return True
        if gone := [value for key, value in old.items() if key not in new]:
            self._say(path, f"no longer takes {_listed(gone)}")
        if added := [value for key, value in new.items() if key not in old]:
            self._say(path, f"also takes {_listed(added)} now")
        return True

    def _of_limits(self, before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> None:
        for word in _LIMITS:
            if (word not in before and word not in after) or self._same(before.get(word), after.get(word)):
                continue
            if word not in after:
                self._say(path, f"has no `{word}` now; it was {_shown(before[word])}")
            elif word not in before:
                self._say(path, f"has the `{word}` {_shown(after[word])} now; it had none")
            else:
                self._say(path, f"has the `{word}` {_shown(after[word])} now; it was {_shown(before[word])}")

    def _of_properties(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        path: str,
        depth: int,
        followed: _Followed,
    ) -> None:
        was, is_ = (_mapping(schema.get("properties")) for schema in (before, after))
        lists_of_required = [_list(schema.get("required")) for schema in (before, after)]
        if not self._budget.spend(sum(map(len, (was, is_, *lists_of_required)))):
            return
        was_required, is_required = (set(_required(schema)) for schema in (before, after))
        known, now_known = ({*was, *was_required}, {*is_, *is_required})
        names = list(dict.fromkeys([*was, *_required(before), *is_, *_required(after)]))
        # What breaks a call comes first.
        for name in names:
            place = under(path, name)
            if name not in now_known:
                self._say(place, "is gone")
            elif name in is_required - was_required:
                self._say(place, "is required now" if name in known else "is new and required")
        for name in names:
            if name in known and name in now_known:
                self._compare(was.get(name, {}), is_.get(name, {}), under(path, name), depth + 1, followed)
        for name in names:
            if name not in known and name not in is_required:
                self._say(under(path, name), "is new and optional")
            elif name in now_known and name in was_required - is_required:
                self._say(under(path, name), "is optional now")

    def _of_parts(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        path: str,
        depth: int,
        followed: _Followed,
    ) -> None:
        was, is_ = (schema.get("additionalProperties", True) for schema in (before, after))
        if (was is False) != (is_ is False):
            self._say(path, "takes no other properties now" if is_ is False else "takes other properties now")
        elif was is not is_:
            self._compare(was, is_, f"{path}.*" if path else "*", depth + 1, followed)
        was, is_ = (schema.get("items", True) for schema in (before, after))
        if not isinstance(was, list) and not isinstance(is_, list):
            if was is not is_:
                self._compare(was, is_, f"{path}[]", depth + 1, followed)
        elif not self._same(was, is_):
            self._say(path, "has changed")
        for words in (_UNIONS, ("allOf",)):
            lists = [[_list(schema.get(word)) for word in words] for schema in (before, after)]
            if self._budget.spend(sum(len(branches) for of_schema in lists for branches in of_schema)):
                old, new = ([*chain.from_iterable(of_schema)] for of_schema in lists)
                self._of_branches(old, new, path, depth, followed)

    def _of_branches(self, old: list[Any], new: list[Any], path: str, depth: int, followed: _Followed) -> None:
        if max(len(old), len(new)) > _MAX_BRANCHES:
            if not self._same(old, new):
                self._say(path, "has changed")
            return
        # A reference that is spelled alike may stand for something else now, so both are compared all the same.
        pairs, left = [], list(new)
        for branch in old:
            index = next((index for index, other in enumerate(left) if self._same(branch, other)), None)
            pairs.append((branch, None if index is None else left.pop(index)))
        unpaired = [branch for branch, other in pairs if other is None]
        for branch, other in pairs:
            if other is not None:
                self._compare(branch, other, path, depth + 1, followed)
        if len(unpaired) == len(left) == 1:
            self._compare(unpaired[0], left[0], path, depth + 1, followed)
        elif unpaired or left:
            self._say(path, "has changed")


def _kinds(schema: Any, budget: Budget) -> tuple[str, ...] | None:
    """Return which types of values fit, in one order, or None for any."""
    found = _found_kinds(schema, 0, budget)
    return None if found is None else tuple(kind for kind in _WORDS if kind in found)


def _found_kinds(schema: Any, depth: int, budget: Budget) -> set[str] | None:
    if not isinstance(schema, Mapping) or depth > 4 or not budget.spend():
        return None
    found: set[str] | None = set(_types(schema.get("type"))) or None
    if found is None and (choices := _choices(schema)) is not None and budget.spend(len(choices)):
        found = {_kind(choice) for choice in choices}
    if found is None and isinstance(schema.get("properties"), Mapping):
        found = {"object"}
    if found is None:
        for word in _UNIONS:
            branches = [_found_kinds(branch, depth + 1, budget) for branch in _list(schema.get(word))[:_MAX_BRANCHES]]
            if branches and None not in branches:
                found = {kind for branch in branches for kind in branch or ()}
    if found is not None and schema.get("nullable") is True:
        found.add("null")
    return found


def _types(given: Any) -> list[str]:
    """Return the types that a schema names; none if it names one that is unknown."""
    types = [given] if isinstance(given, str) else list(_list(given)[: 2 * len(_WORDS)])
    return types if all(isinstance(kind, str) and kind in _WORDS for kind in types) else []


def _choices(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return _list(schema.get("enum")) or None


def _by_key(choices: Sequence[Any]) -> dict[Any, Any] | None:
    if any(isinstance(choice, Mapping | list | tuple) for choice in choices):
        return None
    return {("boolean" if isinstance(choice, bool) else "", choice): choice for choice in choices}


def _required(schema: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for name in _list(schema.get("required")) if isinstance(name, str)))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _reference(schema: Any) -> str:
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    return reference if isinstance(reference, str) else ""


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case Mapping():
            return "object"
    return "something else"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any, budget: Budget) -> bool:
    """Compare as JSON does, where 1 is 1.0 but not true; once there are no steps left, everything is the same."""
    pairs = [(one, other)]
    while pairs and budget.spend():
        left, right = pairs.pop()
        if left is right:
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            if len(left) != len(right) or (budget.spend(len(left)) and left.keys() != right.keys()):
                return False
            if not budget.is_spent:
                pairs += ((left[name], right[name]) for name in left)
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) != len(right):
                return False
            if budget.spend(len(left)):
                pairs += zip(left, right, strict=True)
        elif isinstance(left, str) and isinstance(right, str):
            if len(left) != len(right) or (budget.spend(len(left) // _CHARACTERS_OF_A_STEP) and left != right):
                return False
        elif _kind(left) != _kind(right) or left != right:
            return False
    return True


def _is_spelled_alike(one: Any, other: Any) -> bool:
    """Tell whether two values are the same without a step for each part; if that cannot be told, they are not."""
    try:
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return False


def _what(value: Any) -> str:
    """Name a value's kind; a fraction is shown, because an integer is a number too."""
    return _shown(value) if isinstance(value, float) else _WORDS.get(_kind(value), "something that is not JSON")


def _either(kinds: Sequence[str]) -> str:
    words = [_WORDS[kind] for kind in dict.fromkeys(kinds) if kind in _WORDS]
    if len(words) < 2:
        return "".join(words) or "something else"
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _names(names: Iterable[str]) -> str:
    shown = [under("", str(name)) for name in islice(names, _MAX_SHOWN_NAMES + 1)]
    return ", ".join(shown[:_MAX_SHOWN_NAMES]) + (", …" if len(shown) > _MAX_SHOWN_NAMES else "")


def _listed(choices: Sequence[Any]) -> str:
    shown = ", ".join(_shown(choice) for choice in choices[:_MAX_SHOWN_CHOICES])
    return shown + (", …" if len(choices) > _MAX_SHOWN_CHOICES else "")


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to write very long ones
        return "a very large integer"
    return repr(value) if _is_number(value) else _WORDS.get(_kind(value), "something that is not JSON")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")
