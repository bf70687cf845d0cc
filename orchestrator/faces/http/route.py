"""A route with its documentation: what it takes, what it gives, and which errors it may answer with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from orchestrator.domain.errors import (
    ForeignOrigin,
    InvalidRequest,
    MisdirectedRequest,
    OrchestratorError,
    TooManyConnections,
    Unauthenticated,
)
from orchestrator.faces.http.requests import JSON, Query, parse_query

Handler = Callable[[web.Request, Any], Awaitable[web.StreamResponse]]
Errors = tuple[type[OrchestratorError], ...]

# What any route may answer, and what any that needs a key may.
ALWAYS: Errors = (ForeignOrigin, MisdirectedRequest, InvalidRequest)
ALWAYS_WITH_A_KEY: Errors = (Unauthenticated, *ALWAYS, TooManyConnections)


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer: a model, or bytes of another media type."""

    description: str
    model: type[BaseModel] | None = None
    media_type: str = JSON
    status: int = 200
    events: Mapping[str, type[BaseModel]] = field(default_factory=dict)  # of a stream, where the client asks for one


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something in the path or in a header."""

    name: str
    place: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    has_slashes: bool = False  # of one in the path: it goes on to the path's end

    @property
    def required(self) -> bool:
        return self.place == "path"


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    operation_id: str
    summary: str
    replies: tuple[Reply, ...]
    query: type[Query] = Query
    body: type[BaseModel] | None = None
    parameters: tuple[Parameter, ...] = ()
    errors: Errors = ()
    public: bool = False
    takes: str | None = None  # the media type of a body that is no JSON

    @property
    def pattern(self) -> str:
        """Return the path as the router takes it."""
        tails = (parameter.name for parameter in self.parameters if parameter.has_slashes)
        return reduce(lambda path, name: path.replace(f"{{{name}}}", f"{{{name}:.+}}"), tails, self.path)

    @property
    def all_errors(self) -> Errors:
        """Return its own errors and those that every route may answer with, each once."""
        shared = ALWAYS if self.public else ALWAYS_WITH_A_KEY
        return tuple(dict.fromkeys((*shared, *self.errors)))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request, parse_query(request, self.query))


def json_reply(body: BaseModel, status: int = 200) -> web.Response:
    return web.Response(text=body.model_dump_json(by_alias=True), content_type=JSON, status=status)
