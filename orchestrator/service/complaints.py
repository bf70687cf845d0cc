"""What is wrong with what somebody sent: what must be, in a sentence for each field; short, however much was sent."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.service.schemas import schema_of

MOST = 5
NAME_CHARACTERS = 100
# A field that says in words what it must be does so under this name in its schema.
MUST_BE = "x-must-be"
_NUMBERS = {"integer": "a whole number", "number": "a number"}
_PLAIN = {"boolean": "true or false", "object": "an object", "array": "a list", "string": "a string"}


def complaints(error: ValidationError, model: type[BaseModel], about: str) -> str:
    """Say what each wrong field must be; `about` is named where no field is."""
    items = error.errors(include_url=False, include_input=False)
    schema = schema_of(model)
    told = [_complaint(item, schema, about) for item in items[:MOST]]
    return " ".join([*told, f"And {len(items) - MOST} more."] if len(items) > MOST else told)


def _complaint(item: Any, whole: dict[str, Any], about: str) -> str:
    place = ".".join(map(str, item["loc"]))
    name = f"`{place[:NAME_CHARACTERS]}{'…' if len(place) > NAME_CHARACTERS else ''}`" if place else f"The {about}"
    match item["type"]:
        case "missing":
            return f"{name} is missing."
        case "extra_forbidden":
            around = _object(_schema_at(item["loc"][:-1], whole))
            known = ", ".join(f"`{known}`" for known in around.get("properties", ()))
            return f"{name} is unknown; {f'known are {known}' if known else 'leave it out'}."
    required = requirement(_schema_at(item["loc"], whole))
    return f"{name} must be {required}." if required else f"{name}: {item['msg']}."


def _schema_at(place: tuple[Any, ...], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of what is at a place; an empty one if that cannot be told."""
    for step in place:
        around = _object(schema)
        found = around.get("properties", {}).get(step) or around.get("additionalProperties") or around.get("items")
        schema = found if isinstance(found, dict) else {}
    return schema


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without its null; an empty one if there is still a choice."""
    choices: list[dict[str, Any]] = [each for each in schema.get("anyOf", [schema]) if each != {"type": "null"}]
    return choices[0] if len(choices) == 1 else {}


def requirement(schema: dict[str, Any]) -> str | None:
    """Say in words what a JSON schema asks for: "a whole number from 1 to 500"; None where that is not simple."""
    if MUST_BE in schema:
        return str(schema[MUST_BE])
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if choices:
        found = [requirement(choice) for choice in choices]
        return " or ".join(text for text in found if text) if all(found) else None
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    kind = str(schema.get("type"))
    if kind in _NUMBERS:
        return f"{_NUMBERS[kind]}{_bounds(schema)}"
    if kind == "string" and schema.get("format") == "date-time":
        return "a time in ISO 8601 with its offset, such as 2026-11-16T09:00:00Z (in a URL, + is %2B)"
    if kind == "string" and "pattern" in schema:
        return None
    if kind == "string" and schema.get("minLength") == 1 and "maxLength" not in schema:
        return "a string that is not empty"
    if kind == "string" and (least := schema.get("minLength", 0)) | (most := schema.get("maxLength", 0)):
        return f"a string of {least} to {most} characters" if most else f"a string of at least {least} characters"
    if kind == "array" and (most := schema.get("maxItems")):
        return f"a list of {least} to {most}" if (least := schema.get("minItems", 0)) else f"a list of at most {most}"
    return _PLAIN.get(kind)


def _bounds(schema: dict[str, Any]) -> str:
    least, most, above = (schema.get(name) for name in ("minimum", "maximum", "exclusiveMinimum"))
    match least, most, above:
        case None, None, None:
            return ""
        case int() | float(), int() | float(), _:
            return f" from {least:g} to {most:g}" if max(abs(least), abs(most)) < 1e6 else f" from {least} to {most}"
        case _, None, None:
            return f" of at least {least:g}"
        case _, None, _:
            return f" greater than {above:g}"
        case None, _, None:
            return f" of at most {most:g}"
        case _:
            return f" greater than {above:g} and at most {most:g}"
