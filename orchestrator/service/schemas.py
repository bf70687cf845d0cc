"""JSON schemas of our own models, as people and models read them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's JSON schema without titles and references, which cost tokens and say nothing."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            beside = {name: value for name, value in node.items() if name != "$ref"}
            return plain(definitions[node["$ref"].removeprefix("#/$defs/")] | beside)
        # A property that is called title has a schema, not a text.
        kept = {name: value for name, value in node.items() if name != "title" or not isinstance(value, str)}
        return {name: plain(value) for name, value in kept.items()}

    readable: dict[str, Any] = plain(schema)
    readable.setdefault("properties", {})
    return readable
