"""The client library's own HTTP, against a peer that says anything."""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.client_library.workspace import CLIENT_LIBRARY

sys.path.insert(0, str(CLIENT_LIBRARY / "python"))

from _http import Connections

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@contextmanager
def peer(*connections: tuple[bytes, ...]) -> Iterator[str]:
    """Answers each request of each connection with the next of its answers, and then closes it."""
    name = f"peer-{secrets.token_hex(8)}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen()

    def serve() -> None:
        for answers in connections:
            connected, _ = listener.accept()
            with connected:
                for answer in answers:
                    received = b""
                    while not received.endswith(b"\r\n\r\n{}"):
                        received += connected.recv(1000)
                    connected.sendall(answer)

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    with listener:
        yield f"@{name}"
        serving.join(5)
    assert not serving.is_alive()


def post(gateway: str, connections: Connections | None = None) -> tuple[int, bytes]:
    return (connections or Connections()).post(gateway, "/call", "grant", b"{}")


def test_status_and_body_are_read():
    with peer((b"HTTP/1.1 403 Forbidden\r\ncontent-LENGTH:  3 \r\nX: y\r\n\r\nno!",)) as gateway:
        assert post(gateway) == (403, b"no!")


def test_what_follows_the_answer_is_not_part_of_it():
    with peer((OK + b"more",)) as gateway:
        assert post(gateway) == (200, b"hi")


def test_one_connection_serves_many_requests():
    connections = Connections()
    with peer((OK, OK, OK)) as gateway:
        assert [post(gateway, connections) for _ in range(3)] == [(200, b"hi")] * 3


def test_a_connection_that_the_gateway_gives_up_is_replaced():
    connections = Connections()
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    with peer((OK, closing), (OK,)) as gateway:
        assert [post(gateway, connections) for _ in range(3)] == [(200, b"hi"), (200, b""), (200, b"hi")]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\n\r\nhi", "has no Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "has no Content-Length"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "is not HTTP"),
        (b"x" * 70_000, "headers are longer than 65536 bytes"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_connection_error(answer, complaint):
    with peer((answer,)) as gateway, pytest.raises(ConnectionError, match=complaint):
        post(gateway)
