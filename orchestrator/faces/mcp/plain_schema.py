"""What a tool takes, as a JSON schema that every client understands.

Clients hand schemas on to models whose interfaces know little of JSON Schema: smolagents needs one `type` for each
argument, and Gemini's function declarations have neither `type` lists nor `exclusiveMinimum`. So each argument has one
plain type. Whoever omits an optional argument, or sends null for it, gets its default.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from orchestrator.service.complaints import MUST_BE
from orchestrator.service.schemas import schema_of

NULL = {"type": "null"}
# What breaks these is refused anyway, in words that say what must be. They help no model to write a call, every client
# carries them, and Gemini does not know the first.
_LEFT_OUT = ("additionalProperties", "minLength", "maxLength", MUST_BE)


def plain_schema_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = {name: value for name, value in schema_of(model).items() if name not in _LEFT_OUT}
    required = schema.get("required", ())
    # smolagents tells its model that an argument is required unless it may be null.
    properties = {
        name: _plain(value) if name in required else {**_plain(value), "nullable": True}
        for name, value in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _plain(argument: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument without the null that stands for its absence."""
    beside = {name: value for name, value in argument.items() if name != "anyOf" and (name, value) != ("default", None)}
    choices = [choice for choice in argument.get("anyOf", ()) if choice != NULL]
    if len(choices) > 1:
        raise TypeError(f"An argument must have one plain type, not {choices}.")
    plain = {**(choices[0] if choices else {}), **beside}
    return {name: value for name, value in plain.items() if name not in _LEFT_OUT}
