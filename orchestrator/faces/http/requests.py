"""What requests carry, parsed: a query without unknown names, and a JSON body without duplicate ones."""

from __future__ import annotations

import json
from typing import Any, TypeVar, get_origin

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from orchestrator.domain.errors import InvalidRequest, MalformedJson, UnsupportedContentType
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.service.complaints import complaints

JSON = "application/json"
EXECUTION_ID = web.RequestKey("execution_id", str)

M = TypeVar("M", bound=BaseModel)


class Query(BaseModel):
    """The query parameters of a route; a name that is not among them is refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="forbid")


def parse_query(request: web.Request, model: type[M]) -> M:
    lists = {field.alias or name for name, field in model.model_fields.items() if get_origin(field.annotation) is list}
    given: dict[str, Any] = {}
    for name in request.query:
        values = request.query.getall(name)
        if name not in lists and len(values) > 1:
            raise InvalidRequest(f"`{name[:100]}` must be given once.")
        given[name] = values if name in lists else values[0]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise InvalidRequest(complaints(error, model, "query")) from error


async def parse_body(request: web.Request, model: type[M]) -> M:
    if request.content_type != JSON:
        raise UnsupportedContentType(f"The content type must be {JSON}, not {request.content_type}.")
    async with request.app[SERVICES].intake.body(request, request[CALLER].key_name) as body:
        try:
            document = json.loads(body, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise MalformedJson(f"The body must be JSON: {error}.") from error
        try:
            return model.model_validate(document)
        except ValidationError as error:
            raise InvalidRequest(complaints(error, model, "body")) from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name occurs twice")
    return names


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
