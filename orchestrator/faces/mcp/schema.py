"""JSON schemas as a model reads them: without titles and references, which cost tokens and say nothing."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Json = dict[str, Any]


def schema_of(model: type[BaseModel]) -> Json:
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    plain: Json = _plain(schema, definitions)
    plain.setdefault("properties", {})
    return plain


def _plain(node: Any, definitions: Json) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        beside = {name: value for name, value in node.items() if name != "$ref"}
        return _plain(definitions[node["$ref"].removeprefix("#/$defs/")] | beside, definitions)
    return {name: _plain(value, definitions) for name, value in node.items() if not _is_title(name, value)}


def _is_title(name: str, value: Any) -> bool:
    return name == "title" and isinstance(value, str)  # a property called title has a schema instead
