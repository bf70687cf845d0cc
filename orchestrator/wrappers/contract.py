"""What is known about one tool, in a form that every language is written from."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.domain.execution import Language
from orchestrator.domain.names import server_identifier, tool_identifier
from orchestrator.domain.tools import Tool
from orchestrator.wrappers.schema import read_schema
from orchestrator.wrappers.shapes import Shape, type_of
from orchestrator.wrappers.types import ROOT, Document, ListOf, Record, Unknown


class OutputSource(StrEnum):
    """The text is the comment on the type of the result."""

    DECLARED = ""
    OBSERVED = "Observed in earlier results; the server does not promise it."
    OBSERVED_IN_PROOF = "Observed in earlier results, those of its proof; the skill does not promise it."
    UNKNOWN = "The server does not say what it returns."


@dataclass(frozen=True, slots=True)
class Contract:
    tool: Tool
    server: str
    name: str
    type_prefix: str
    input: Document
    output: Document
    output_source: OutputSource

    @classmethod
    def of(cls, tool: Tool, observed: Shape | None) -> Contract:
        """Read the tool's schemas; what it was seen to return counts only where it declares nothing."""
        name = tool_identifier(tool.name)
        prefix = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
        prefix = prefix if prefix.isidentifier() else f"T{prefix}"
        takes = read_schema(tool.input_schema)
        if isinstance(takes.root, Unknown) and not takes.root.note:
            # Arguments are always an object, whatever the schema forgets to say.
            takes = Document({**takes.definitions, ROOT: Record()})
        if tool.output_schema:
            is_observed = tool.skill is not None and tool.skill.is_output_observed
            returns = read_schema(tool.output_schema)
            source = OutputSource.OBSERVED_IN_PROOF if is_observed else OutputSource.DECLARED
        elif observed:
            returns, source = Document({ROOT: type_of(observed)}), OutputSource.OBSERVED
        else:
            unknown = ListOf(Unknown()) if tool.lists_contents else Unknown()
            returns, source = Document({ROOT: unknown}), OutputSource.UNKNOWN
        return cls(tool, server_identifier(tool.server), name, prefix, takes, returns, source)

    @property
    def input_type(self) -> str:
        return f"{self.type_prefix}Input"

    @property
    def output_type(self) -> str:
        """Name the type of the result, so that a compiler's message tells what is promised from what was only seen."""
        return f"{self.type_prefix}{'Observed' if self.is_observed else 'Output'}"

    @property
    def is_observed(self) -> bool:
        return self.output_source in (OutputSource.OBSERVED, OutputSource.OBSERVED_IN_PROOF)

    def runs_in(self, language: Language) -> bool:
        """Tell whether it is a skill whose code a program in this language runs itself."""
        return self.tool.skill is not None and self.tool.skill.language == language

    @property
    def needs_nothing(self) -> bool:
        """Tell whether the tool can be called without arguments."""
        root = self.input.root
        return isinstance(root, Record) and not any(field.required for field in root.fields)

    @property
    def doc(self) -> str:
        # A server may send anything in place of a text.
        parts = [text for text in (self.tool.title, self.tool.description) if isinstance(text, str)]
        if self.tool.skill is not None:
            calls = ", ".join("/".join(path) for path in self.tool.skill.requires)
            parts.append(f"The skill {self.tool.name!r}, which calls {calls or 'no tool'}.")
        else:
            parts.append(f"Calls the tool {self.tool.name!r} of the server {self.tool.server!r}.")
        if self.tool.annotations.get("readOnlyHint") is True:
            parts.append("It only reads.")
        elif self.tool.annotations.get("destructiveHint") is True:
            parts.append("It may destroy or overwrite.")
        if self.output_source is OutputSource.OBSERVED:
            parts.append("The type of its result was observed in earlier results; the server does not promise it.")
        elif self.output_source is OutputSource.OBSERVED_IN_PROOF:
            parts.append("The type of its result was observed when it was proven; it may return something else.")
        return "\n\n".join(part.strip() for part in parts if part.strip())


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
