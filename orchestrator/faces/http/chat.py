"""POST /chat/send, GET /chat/read, GET /chat/who: the rooms that the caller's role may use."""

from __future__ import annotations

from aiohttp import web
from pydantic import BaseModel, ValidationError

from orchestrator.domain.chat import DEFAULT_MESSAGES, MAX_MESSAGES
from orchestrator.domain.errors import InvalidRequest, MalformedJson, UnsupportedContentType
from orchestrator.faces.http.context import API, CALLER
from orchestrator.faces.http.executions import number
from orchestrator.service.chat_bodies import MembersBody, MessagesBody, SendArguments, SentBody
from orchestrator.service.complaints import complaints

JSON = "application/json"


async def send(request: web.Request) -> web.Response:
    wish = await _wish(request)
    sent = await request.app[API].chat.send(request[CALLER].role, wish.room, wish.text, wish.transaction_id)
    return _json(SentBody.of(sent))


async def read(request: web.Request) -> web.Response:
    page = await request.app[API].chat.read(
        request[CALLER].role,
        request.query.get("room"),
        number(request, "limit", DEFAULT_MESSAGES, 1, MAX_MESSAGES),
        request.query.get("since"),
        request.query.get("before"),
    )
    return _json(MessagesBody.of(page))


async def who(request: web.Request) -> web.Response:
    found = await request.app[API].chat.who(request[CALLER].role, request.query.get("room"))
    return _json(MembersBody.of(found))


async def _wish(request: web.Request) -> SendArguments:
    if request.content_type != JSON:
        raise UnsupportedContentType(f"The content type is {request.content_type}.")
    try:
        return SendArguments.model_validate_json(await request.read())
    except ValidationError as error:
        raise _explained(error) from error


def _explained(error: ValidationError) -> MalformedJson | InvalidRequest:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return MalformedJson(f"The body is not JSON: {first['msg']}.")
    return InvalidRequest(complaints(error, "body"))


def _json(body: BaseModel) -> web.Response:
    return web.Response(text=body.model_dump_json(by_alias=True), content_type=JSON)
