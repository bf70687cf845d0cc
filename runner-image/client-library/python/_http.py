"""Speaks just enough HTTP for the gateway: http.client would load e-mail and TLS, which takes longer than a call."""

from __future__ import annotations

import os
import socket

_MAX_HEAD_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024


class Connection:
    """A connection that stays open between requests and serves one thread at a time."""

    def __init__(self, gateway: str) -> None:
        self.gateway = gateway
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect("\0" + gateway.removeprefix("@"))  # a name, not a file
        except OSError:
            self._socket.close()
            raise
        self.reusable = True

    @property
    def alive(self) -> bool:
        """Tell beforehand, because a request that was sent cannot be sent again: it may have been carried out."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def post(self, path: str, grant: str, body: bytes) -> tuple[int, bytes]:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {grant}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode("latin-1") + body)
        return self._answer()

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> tuple[int, bytes]:
        received = bytearray(self._receive())
        while (end := received.find(b"\r\n\r\n")) < 0:
            if len(received) > _MAX_HEAD_BYTES:
                raise ConnectionError(f"its headers are longer than {_MAX_HEAD_BYTES} bytes")
            received += self._receive()
        status, headers = _parsed(bytes(received[:end]))
        self.reusable = headers.get("connection", "").lower() != "close"
        if not headers.get("content-length", "").isdecimal():
            raise ConnectionError("its answer has no Content-Length")
        body, size = received[end + 4 :], int(headers["content-length"])
        while len(body) < size:
            body += self._receive()
        return status, bytes(body[:size])

    def _receive(self) -> bytes:
        received = self._socket.recv(_READ_BYTES)
        if not received:
            raise ConnectionError("it closed the connection before the answer was complete")
        return received


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
        raise ConnectionError(f"its answer is not HTTP: {first[:60]!r}")
    fields = (line.partition(":") for line in lines)
    return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in fields}


class Connections:
    """Keeps the connections that wait for their next request."""

    def __init__(self) -> None:
        self._idle: list[Connection] = []
        # A forked child must not read the answers of its parent.
        os.register_at_fork(after_in_child=self._close)

    def post(self, gateway: str, path: str, grant: str, body: bytes) -> tuple[int, bytes]:
        connection = self._idle_to(gateway) or Connection(gateway)
        try:
            answer = connection.post(path, grant, body)
        except BaseException:
            connection.close()
            raise
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _idle_to(self, gateway: str) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.gateway == gateway and connection.alive:
                return connection
            connection.close()
        return None

    def _close(self) -> None:
        while self._idle:
            self._idle.pop().close()
