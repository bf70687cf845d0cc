"""A tool of this server: how it is described, what it takes and gives, and what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import mcp_types as types
from pydantic import BaseModel, ValidationError

from orchestrator.catalog.disclosure import compact
from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import InvalidArguments
from orchestrator.faces.mcp.plain_schema import plain_schema_of
from orchestrator.service.complaints import complaints
from orchestrator.service.schemas import schema_of

A = TypeVar("A", bound=BaseModel)
Content = types.TextContent | types.ImageContent
Report = Callable[[float, str], Awaitable[None]]

READS = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
# Claude Code shows a model only the names of tools, and loads a tool when it is looked for, unless the tool says this.
ALWAYS_LOAD = {"anthropic/alwaysLoad": True}


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, how to report progress, and an event that is set when nobody waits for the answer any more."""

    caller: Caller
    report: Report
    gone: asyncio.Event

    @property
    def role(self) -> Role:
        return self.caller.role


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers: the text is for models; the reply says the same for programs and is sent if asked for."""

    reply: BaseModel
    text: str | None = None
    more: Sequence[Content] = ()
    is_error: bool = False

    def as_result(self, *, structured: bool) -> types.CallToolResult:
        reply = self.reply.model_dump(mode="json", by_alias=True, exclude_unset=True)
        text = self.text if self.text is not None else compact(reply)
        # A server may describe its tools with lone surrogates, which have no bytes.
        content = types.TextContent(text=text.encode(errors="replace").decode())
        return types.CallToolResult(
            content=[content, *self.more], structured_content=reply if structured else None, is_error=self.is_error
        )


@dataclass(frozen=True)
class Tool(Generic[A]):
    name: str
    title: str
    description: str
    takes: type[A]
    gives: type[BaseModel]
    annotations: types.ToolAnnotations
    run: Callable[[A, Call], Awaitable[Answer]]
    meta: dict[str, Any] | None = None
    is_for: Callable[[Role], bool] = field(default=lambda role: True)
    is_of_use: Callable[[], bool] = field(default=lambda: True)
    describe_for: Callable[[Role], str] = field(default=lambda role: "")
    # What the schema says of some arguments to this role, instead of what holds for all.
    arguments_for: Callable[[Role], Mapping[str, Mapping[str, Any]]] = field(default=lambda role: {})

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return plain_schema_of(self.takes)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return schema_of(self.gives)

    def listed_for(self, role: Role, *, structured: bool) -> types.Tool:
        for_all, for_role = self.input_schema, self.arguments_for(role)
        properties = {name: {**schema, **for_role.get(name, {})} for name, schema in for_all["properties"].items()}
        return types.Tool(
            name=self.name,
            title=self.title,
            description=f"{self.description}{self.describe_for(role)}",
            input_schema={**for_all, "properties": properties},
            output_schema=self.output_schema if structured else None,
            annotations=self.annotations,
            _meta=self.meta,
        )

    async def call(self, arguments: Mapping[str, Any], call: Call) -> Answer:
        # Some clients send null for what a model left out.
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            order = self.takes.model_validate(given)
        except ValidationError as error:
            raise InvalidArguments(complaints(error, self.takes, "arguments")) from error
        return await self.run(order, call)
