"""A name server that does not answer holds up only those who wait for it."""

import asyncio
import socket
import threading

import pytest

from orchestrator.upstreams.faults import TransportFailed
from orchestrator.upstreams.http_client import Address, http_client
from tests.support.upstream_server import ScriptedProxy, serving

MORE_THAN_THE_LOOP_HAS_THREADS = 40


@pytest.fixture
def silent_name_server(monkeypatch):
    """Resolve nothing that ends in `.invalid` until the test is over."""
    over, look_up = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        if str(host).endswith(".invalid"):
            over.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "over")
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    over.set()


async def asked(http, url):
    async with Address(http, url).send("GET", {}) as response:
        return response.status


@pytest.mark.usefixtures("silent_name_server")
async def test_names_that_are_not_resolved_take_no_threads_from_others():
    async with http_client(connect_seconds=30) as http:
        waiting = [
            asyncio.create_task(asked(http, f"http://host-{number}.invalid/"))
            for number in range(MORE_THAN_THE_LOOP_HAS_THREADS)
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(5):
                assert await asyncio.to_thread(lambda: "done") == "done"
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.usefixtures("silent_name_server")
async def test_the_time_to_connect_includes_that_to_resolve_the_name():
    async with http_client(connect_seconds=0.1) as http, asyncio.timeout(5):
        with pytest.raises(TransportFailed, match="did not accept a connection in time"):
            await asked(http, "http://host.invalid/")


async def test_a_name_that_is_resolved_is_connected_to():
    async with serving(ScriptedProxy("db").app()) as url, http_client() as http:
        assert await asked(http, url.replace("127.0.0.1", "localhost") + "/db/mcp") == 405


async def test_a_name_that_does_not_exist_is_told_as_such(monkeypatch):
    def getaddrinfo(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    async with http_client() as http:
        with pytest.raises(TransportFailed, match="its host name cannot be resolved"):
            await asked(http, "http://host.invalid/")


async def test_the_threads_end_with_the_client():
    async with serving(ScriptedProxy("db").app()) as url, http_client() as http:
        await asked(http, url.replace("127.0.0.1", "localhost") + "/db/mcp")
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("resolver")]
        assert threads
    for thread in threads:
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()
