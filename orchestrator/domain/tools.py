"""A tool of an upstream server, as its author described it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    server: str
    name: str
    description: str = ""
    input_schema: JsonSchema = field(default_factory=dict)
    output_schema: JsonSchema | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    title: str | None = None
    # Of its server: programs always get the list of contents, whether there are none, one or many.
    lists_contents: bool = False

    @property
    def path(self) -> str:
        return f"{self.server}/{self.name}"
