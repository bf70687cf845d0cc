"""Adds the key to whatever passes, for clients of others that cannot be told to send one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from tests.support.upstream_server import serving

OF_THE_CONNECTION = {"connection", "transfer-encoding", "content-length", "content-encoding", "date", "server"}


@asynccontextmanager
async def keyed_proxy(url: str, key: str) -> AsyncIterator[str]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.StreamResponse:
            passed = {name: value for name, value in request.headers.items() if name.lower() not in OF_THE_CONNECTION}
            headers = {**passed, "Authorization": f"Bearer {key}"}
            body = await request.read()
            async with session.request(request.method, url + request.path_qs, headers=headers, data=body) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in OF_THE_CONNECTION}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        async with serving(app) as address:
            yield address
