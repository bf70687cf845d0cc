"""The command line's client against an API that does as it is told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from orchestrator.commands import client as client_module
from orchestrator.commands.client import AddressInvalid, ApiClient, CallFailed, Event, Refused
from tests.support.upstream_server import serving


@asynccontextmanager
async def answering(handler):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with serving(app) as url:
        yield ApiClient(url, "key")


def streaming(*parts: bytes):
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0)
        return response

    return handler


async def events_of(client: ApiClient) -> list[Event]:
    return [event async for event in client.execute("1", "python", None)]


async def test_events_are_read_wherever_their_chunks_end():
    parts = (b"event: std", b'out\ndata: {"text":"\xc3', b'\xa9"}\n', b"\n: ping\n\nevent: result\r\ndata: {}\r\n\r\n")
    async with answering(streaming(*parts)) as client:
        assert await events_of(client) == [Event("stdout", {"text": "é"}), Event("result", {})]


async def test_an_event_that_is_too_large_ends_the_call(monkeypatch):
    monkeypatch.setattr(client_module, "LARGEST_EVENT_BYTES", 100)
    async with answering(streaming(b"event: stdout\ndata: " + b"x" * 1000)) as client:
        with pytest.raises(CallFailed, match="more than 100 bytes"):
            await events_of(client)


async def test_a_refusal_is_told_in_the_daemons_words():
    async def refuse(_: web.Request) -> web.Response:
        problem = {"detail": "The queue is full.", "hint": "Try again later.", "code": "queue_full"}
        return web.json_response(problem, status=429, content_type="application/problem+json")

    async with answering(refuse) as client:
        with pytest.raises(Refused, match=r"^The queue is full\. Try again later\. \(queue_full\)$") as refused:
            await client.get("/tools")
    assert refused.value.code == "queue_full"


async def test_an_error_of_somebody_else_is_told_by_its_status():
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(text="<html>", status=502)

    async with answering(refuse) as client:
        with pytest.raises(CallFailed, match="HTTP 502"):
            await client.get("/tools")


async def test_silence_is_told_as_such():
    async def wait(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with answering(wait) as client:
        with pytest.raises(CallFailed, match="no answer in time"):
            await client.get("/tools", seconds=0.05)


async def test_without_a_daemon_the_user_is_told_how_to_start_it():
    async with answering(streaming()) as client:
        pass
    with pytest.raises(CallFailed, match=r"No daemon answers at .*\. Start it with 'make up'\."):
        await client.get("/tools")


async def test_a_host_that_is_not_found_is_no_daemon_that_has_to_be_started(monkeypatch):
    async def not_found(*_: object, **__: object) -> list[object]:
        raise OSError("Name or service not known")

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", not_found)
    monkeypatch.setattr(aiohttp.DefaultResolver, "resolve", not_found)
    with pytest.raises(CallFailed, match=r"^The host of http://no\.invalid:9091 could not be found\. Check CODE_EXEC"):
        await ApiClient("http://no.invalid:9091", "key").get("/tools")


@pytest.mark.parametrize("url", ["notaurl", "ftp://x", "http://", "http://x:99999", "127.0.0.1:9091", ""])
async def test_what_is_no_address_is_told_with_one_that_is(url):
    with pytest.raises(AddressInvalid, match=r"^CODE_EXECUTOR_URL must be an http:// or https:// address, such as "):
        await ApiClient(url, "key").get("/tools")


async def test_a_stream_that_breaks_off_is_an_error():
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Content-Length": "500"})
        await response.prepare(request)
        await response.write(b"event: ")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with answering(break_off) as client:
        with pytest.raises(CallFailed, match="broke") as failed:
            await events_of(client)
    assert isinstance(failed.value.__cause__, aiohttp.ClientError)
