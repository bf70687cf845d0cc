from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web

from orchestrator.domain.names import server_identifier
from orchestrator.faces.mcp.asgi import Exchange
from tests.support.upstream_server import serving

START = {"type": "http.response.start", "status": 200, "headers": [(b"x-mine", b"1"), (b"connection", b"close")]}


def served_by(application):
    async def handle(request: web.Request) -> web.StreamResponse:
        return await Exchange(request, await request.read()).answer_with(application, extra="given")

    app = web.Application()
    app.router.add_route("*", "/", handle)
    return serving(app)


async def test_request_and_response_pass_through():
    async def application(scope, receive, send):
        message = await receive()
        said = f"{scope['method']} {scope['query_string'].decode()} {scope['extra']} {message['body'].decode()}"
        await send({**START, "status": 201})
        await send({"type": "http.response.body", "body": said.encode()})

    async with served_by(application) as url, aiohttp.ClientSession() as http:
        response = await http.post(f"{url}/?a=b", data=b"body")
        assert (response.status, response.headers["x-mine"]) == (201, "1")
        assert await response.text() == "POST a=b given body"


async def test_pieces_arrive_as_they_are_sent():
    go = asyncio.Event()

    async def application(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await go.wait()
        await send({"type": "http.response.body", "body": b"second"})

    async with served_by(application) as url, aiohttp.ClientSession() as http:
        response = await http.get(url)
        assert await asyncio.wait_for(response.content.readany(), 5) == b"first"
        go.set()
        assert await response.content.read() == b"second"


async def test_an_application_is_told_that_its_client_left_and_ends_in_its_own_way():
    told, ended = asyncio.Event(), asyncio.Event()

    async def application(scope, receive, send):
        await receive()
        await send(START)
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        told.set()
        await send({"type": "http.response.body", "body": b"to nobody"})
        ended.set()

    async with served_by(application) as url, aiohttp.ClientSession() as http:
        response = await http.post(url, data=b"x")
        await response.content.readany()
        response.close()
        await asyncio.wait_for(told.wait(), 5)
        await asyncio.wait_for(ended.wait(), 5)


async def test_an_application_that_says_nothing_is_a_server_error():
    async def application(scope, receive, send): ...

    async with served_by(application) as url, aiohttp.ClientSession() as http:
        assert (await http.get(url)).status == 500


def test_no_server_takes_the_place_of_the_module_that_shows_pictures():
    assert server_identifier("output") == "output_"
