"""What the model is to answer, and what it was sent."""

from __future__ import annotations

import itertools
import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

TOKENS_IN, TOKENS_OUT = 100, 10
PLAUSIBLE_NUMBER = 5000
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Say:
    """Text as the answer, which ends the client's work."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of one of our tools, by our name of it."""

    arguments: dict[str, Any]
    tool: str = "execute_code"


@dataclass(frozen=True)
class ListedTool:
    """A tool as a client offers it to its model, which often has another name there."""

    name: str
    parameters: dict[str, Any]
    namespace: str | None = None

    def is_ours(self, name: str) -> bool:
        return self.name == name or self.name.endswith(f"_{name}")

    def completed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Add what the client says is required, as an obedient model does."""
        schemas = self.parameters.get("properties", {})
        missing = [name for name in self.parameters.get("required", ()) if name not in arguments]
        return arguments | {name: _plausible(schemas[name]) for name in missing}


def _plausible(schema: dict[str, Any]) -> Any:
    number = min(max(PLAUSIBLE_NUMBER, schema.get("minimum", 0)), schema.get("maximum", PLAUSIBLE_NUMBER))
    plain = {"string": schema.get("enum", [""])[0], "number": number, "integer": number, "boolean": False}
    return schema.get("default", plain.get(schema.get("type", "string")))


@dataclass(frozen=True)
class CallOf:
    """A call, by the client's name of the tool."""

    tool: ListedTool
    arguments: dict[str, Any]

    @property
    def encoded(self) -> str:
        return json.dumps(self.arguments)


Answer = Say | CallOf


@dataclass(frozen=True)
class Picture:
    mime_type: str
    data: bytes

    @classmethod
    def of_data_url(cls, url: str) -> Picture:
        head, _, encoded = url.removeprefix("data:").partition(",")
        return cls(head.partition(";")[0], b64decode(encoded))


@dataclass
class Sent:
    """What a client made of our reply: all that its model was sent since the call."""

    texts: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    marked_as_error: bool = False
    others: list[str] = field(default_factory=list)  # kinds of content that are neither text nor picture

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


@dataclass(frozen=True)
class Asked:
    """One request to the model."""

    tools: tuple[ListedTool, ...]
    calls: int  # how many calls the conversation holds so far
    sent: Sent
    wants_stream: bool
    body: dict[str, Any]

    def offers(self, name: str) -> ListedTool | None:
        return next((tool for tool in self.tools if tool.is_ours(name)), None)

    @property
    def wire(self) -> str:
        """The whole request as text, as a search for leftovers needs it."""
        return json.dumps(self.body, ensure_ascii=False)


class Dialect(Protocol):
    """How one of the APIs asks and is answered."""

    def read(self, body: dict[str, Any]) -> Asked: ...

    def whole(self, answer: Answer) -> dict[str, Any]: ...

    def events(self, answer: Answer) -> Iterator[str]: ...


def parts(content: Any, kind_of_text: str = "text") -> list[dict[str, Any]]:
    """The parts of a message; plain text is short for one part."""
    return [{"type": kind_of_text, "text": content}] if isinstance(content, str) else content or []


def new_id(prefix: str) -> str:
    """Some clients take two messages with one id for one message."""
    return f"{prefix}_{next(_NUMBERS)}"


def event(data: dict[str, Any] | str, name: str | None = None) -> str:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"
