"""What stands in for the daemon's API where the command line is tested."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class QuietHandler(BaseHTTPRequestHandler):
    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: type[QuietHandler], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the command line find a daemon that answers as the handler says."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("CODE_EXECUTOR_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("CODE_EXECUTOR_KEY", "key")
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
