"""Lets an ASGI application answer an aiohttp request, and tells it when the client has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from aiohttp import web

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# How long an application may go on after it was told that its client is gone.
GRACE_SECONDS = 5.0
# Left out of refusals: they open no session, whatever the SDK had begun.
_SESSION = "mcp-session-id"
# aiohttp writes these itself, as the connection needs them.
_OF_THE_CONNECTION = frozenset({"connection", "transfer-encoding", "date", "server"})


class Exchange:
    """One request and its response.

    A client may hang up as soon as it has read what it waited for. aiohttp then cancels the handler, but the
    application is told as ASGI tells it, and ends in its own way: it may still have a session to keep.
    """

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request = request
        self._body = body
        self._body_is_read = False
        self.over = asyncio.Event()  # set when nothing that is sent can be received any more
        self.response: web.StreamResponse | None = None

    async def answer_with(self, application: Application, **extras: Any) -> web.StreamResponse:
        work = asyncio.ensure_future(application(self._scope() | extras, self._receive, self._send))
        try:
            await asyncio.shield(work)
        finally:
            self.over.set()
            await asyncio.wait((work,), timeout=GRACE_SECONDS)
            if not work.done():
                work.cancel()
                await asyncio.wait((work,))
        if self.response is None:
            raise web.HTTPInternalServerError
        return self.response

    def _scope(self) -> dict[str, Any]:
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": f"{request.version.major}.{request.version.minor}",
            "method": request.method,
            "scheme": request.scheme,
            "path": request.path,
            "raw_path": request.rel_url.raw_path.encode(),
            "query_string": request.rel_url.raw_query_string.encode(),
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
            "client": None,
            "server": None,
        }

    async def _receive(self) -> Message:
        if not self._body_is_read:
            self._body_is_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        try:
            if message["type"] == "http.response.start":
                self.response = _response(message)
                await self.response.prepare(self._request)
            elif self.response is not None and not self.over.is_set():
                if body := message.get("body", b""):
                    await self.response.write(body)
                if not message.get("more_body", False):
                    await self.response.write_eof()
        except ConnectionError:
            self.over.set()


def _response(start: Message) -> web.StreamResponse:
    response = web.StreamResponse(status=start["status"])
    refused = start["status"] >= 400
    for name, value in start.get("headers", ()):
        header = name.decode("latin-1")
        if header.lower() not in _OF_THE_CONNECTION and not (refused and header.lower() == _SESSION):
            response.headers[header] = value.decode("latin-1")
    return response
