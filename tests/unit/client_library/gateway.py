"""A gateway for the client library to talk to: it speaks our own protocol and answers as the test tells it."""

from __future__ import annotations

import json
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GRANT = "grant-of-this-test"


@dataclass(frozen=True)
class Request:
    path: str
    authorization: str | None
    body: Any


Answer = tuple[int, Any]


def text(*texts: str) -> Answer:
    return 200, {"content": [{"type": "text", "text": each} for each in texts]}


@dataclass
class Gateway:
    address: str = ""
    answer: Callable[[Request], Answer] = lambda request: text("ok")
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    @property
    def environment(self) -> dict[str, str]:
        return {"CODE_EXECUTOR_GATEWAY": self.address, "CODE_EXECUTOR_GRANT": GRANT}

    @property
    def arguments(self) -> list[Any]:
        return [request.body["arguments"] for request in self.requests if request.path == "/call"]

    def answers(self, *answers: Answer) -> None:
        """In this order; the last one from then on."""
        remaining = list(answers)
        self.answer = lambda request: remaining.pop(0) if len(remaining) > 1 else remaining[0]


class _Server(ThreadingHTTPServer):
    address_family = socket.AF_UNIX
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, _ = super().get_request()
        return connection, ("gateway", 0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A program may end before it has its answer.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def running_gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    name = f"gateway-{secrets.token_hex(8)}"
    server = _Server(f"\0{name}", _handler_for(gateway))  # type: ignore[arg-type]  # a name instead of host and port
    gateway.address = f"@{name}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield gateway
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler_for(gateway: Gateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            gateway.connections += 1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Request(self.path, self.headers["Authorization"], body)
            gateway.requests.append(request)
            status, reply = gateway.answer(request)
            self._send(status, reply if isinstance(reply, bytes) else json.dumps(reply).encode())

        def _send(self, status: int, reply: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
