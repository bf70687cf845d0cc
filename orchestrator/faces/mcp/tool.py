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
from orchestrator.service.complaints import complaints
from orchestrator.service.schemas import schema_of

A = TypeVar("A", bound=BaseModel)
Content = types.TextContent | types.ImageContent | types.ResourceLink
Report = Callable[[float, str], Awaitable[None]]

READS = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


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
    reply: BaseModel
    text: str | None = None
    more: Sequence[Content] = ()
    is_error: bool = False

    def as_result(self) -> types.CallToolResult:
        structured = self.reply.model_dump(mode="json", by_alias=True, exclude_unset=True)
        text = types.TextContent(text=self.text if self.text is not None else compact(structured))
        return types.CallToolResult(content=[text, *self.more], structured_content=structured, is_error=self.is_error)


@dataclass(frozen=True)
class Tool(Generic[A]):
    name: str
    title: str
    description: str
    takes: type[A]
    gives: type[BaseModel]
    annotations: types.ToolAnnotations
    run: Callable[[A, Call], Awaitable[Answer]]
    is_for: Callable[[Role], bool] = field(default=lambda role: True)
    describe_for: Callable[[Role], str] = field(default=lambda role: "")

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return schema_of(self.takes)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return schema_of(self.gives)

    def listed_for(self, role: Role) -> types.Tool:
        return types.Tool(
            name=self.name,
            title=self.title,
            description=f"{self.description}{self.describe_for(role)}",
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=self.annotations,
        )

    async def call(self, arguments: Mapping[str, Any], call: Call) -> Answer:
        try:
            given = self.takes.model_validate(arguments)
        except ValidationError as error:
            raise InvalidArguments(complaints(error, self.takes, "arguments")) from error
        return await self.run(given, call)
