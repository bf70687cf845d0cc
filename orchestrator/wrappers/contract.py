"""What is known about one tool, in a form that both languages are written from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from orchestrator.domain.names import server_identifier, tool_identifier
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.schema import read_schema
from orchestrator.wrappers.shapes import Shape, read_shape
from orchestrator.wrappers.types import ROOT, Document, Record, Unknown


class OutputSource(StrEnum):
    """The text is the comment on the type of the result."""

    DECLARED = ""
    OBSERVED = "Observed in earlier results; the server does not promise it."
    UNKNOWN = "The server does not say what it returns."


@dataclass(frozen=True, slots=True)
class Contract:
    tool: Tool
    server: str
    name: str
    input: Document
    output: Document
    output_source: OutputSource

    @classmethod
    def of(cls, tool: Tool, observed: Shape | None) -> Contract:
        output, source = _output(tool.output_schema, observed)
        server, name = server_identifier(tool.server), tool_identifier(tool.name)
        return cls(tool, server, name, _input(tool.input_schema), output, source)

    @property
    def type_prefix(self) -> str:
        words = [word[:1].upper() + word[1:] for word in self.name.split("_") if word]
        prefix = "".join(words)
        return prefix if prefix.isidentifier() else f"T{prefix}"

    @property
    def input_type(self) -> str:
        return f"{self.type_prefix}Input"

    @property
    def output_type(self) -> str:
        return f"{self.type_prefix}Output"

    @property
    def needs_nothing(self) -> bool:
        root = self.input.root
        return isinstance(root, Record) and root.needs_nothing

    @property
    def doc(self) -> str:
        original = f"Calls the tool {self.tool.name!r} of the server {self.tool.server!r}."
        parts = [_text(self.tool.title), _text(self.tool.description), original, *_hints(self.tool.annotations)]
        return "\n\n".join(part.strip() for part in parts if part.strip())


def _input(schema: Any) -> Document:
    """Arguments are always an object, whatever the schema forgets to say."""
    document = read_schema(schema)
    if isinstance(document.root, Unknown) and not document.root.note:
        return Document({**document.definitions, ROOT: Record()})
    return document


def _output(schema: Any, observed: Shape | None) -> tuple[Document, OutputSource]:
    if schema:
        return read_schema(schema), OutputSource.DECLARED
    if observed:
        return read_shape(observed), OutputSource.OBSERVED
    return Document({ROOT: Unknown()}), OutputSource.UNKNOWN


def _text(description: Any) -> str:
    return description if isinstance(description, str) else ""


def _hints(annotations: Mapping[str, Any]) -> list[str]:
    if annotations.get("readOnlyHint") is True:
        return ["It only reads."]
    return ["It may destroy or overwrite."] if annotations.get("destructiveHint") is True else []


class TypeNames:
    """Gives each type of a module a name of its own."""

    def __init__(self, contract: Contract) -> None:
        self._prefix = contract.type_prefix
        self._taken = {contract.name, "TypedDict", "NotRequired", "TypeAlias"}
        self._numbers: defaultdict[str, int] = defaultdict(lambda: 1)

    def take(self, wanted: str) -> str:
        spelled = name = wanted if wanted.isidentifier() else self._prefix
        while name in self._taken:
            self._numbers[spelled] += 1
            name = f"{spelled}{self._numbers[spelled]}"
        self._taken.add(name)
        return name

    def for_definitions(self, root_name: str, document: Document) -> dict[str, str]:
        names = {ROOT: self.take(root_name)}
        for pointer in sorted(document.definitions):
            if pointer != ROOT:
                names[pointer] = self.take(f"{root_name}{pascal(pointer.rsplit('/', 1)[-1])}")
        return names


def pascal(text: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", text)
    return "".join(word[:1].upper() + word[1:] for word in words)[:40]
