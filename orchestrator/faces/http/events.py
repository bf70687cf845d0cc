"""Server-sent events."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


class EventStream:
    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response

    @classmethod
    async def open(cls, request: web.Request) -> EventStream:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        return cls(response)

    async def send(self, name: str, fields: dict[str, Any]) -> None:
        await self.send_text(name, json.dumps(fields))

    async def send_text(self, name: str, one_line: str) -> None:
        await self._response.write(f"event: {name}\ndata: {one_line}\n\n".encode())

    async def close(self) -> web.StreamResponse:
        await self._response.write_eof()
        return self._response
