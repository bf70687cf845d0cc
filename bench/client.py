"""A caller of the daemon's HTTP API that adds as little time of its own as possible: a blocking socket, kept alive."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any

TIMEOUT_SECONDS = 120.0
REFUSED = (429, 503)


class Refused(Exception):
    """The daemon has no room; that is an answer, not a fault."""


class BadReply(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Reply:
    seconds: float
    first_byte_seconds: float | None
    output: str
    warm: bool
    queue_ms: float
    start_ms: float
    run_ms: float
    tool_call_ms: tuple[float, ...]

    @property
    def rest_ms(self) -> float:
        return 1000 * self.seconds - self.queue_ms - self.start_ms - self.run_ms


class Client:
    def __init__(self, port: int, key: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def close(self) -> None:
        self._connection.close()

    def execute(self, code: str, language: str, check: str | None = None, workspace: str | None = None) -> Reply:
        began = time.perf_counter()
        response = self._post(code, language, "application/json", check=check, workspace=workspace)
        body = response.read()
        seconds = time.perf_counter() - began
        return _reply(json.loads(_accepted(response, body)), seconds, None)

    def result(self, code: str, language: str) -> Any:
        """Return the reply as it came, whatever became of the program."""
        response = self._post(code, language, "application/json")
        return json.loads(_accepted(response, response.read()))

    def stream(self, code: str, language: str) -> Reply:
        """The same through the event stream, which shows when the first byte of output came."""
        began = time.perf_counter()
        response = self._post(code, language, "text/event-stream")
        if response.status != 200:
            _accepted(response, response.read())
        first_byte, event = None, ""
        for line in response:
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            elif line.startswith(b"data: ") and event == "stdout" and first_byte is None:
                first_byte = time.perf_counter() - began
            elif line.startswith(b"data: ") and event == "result":
                seconds = time.perf_counter() - began
                response.read()
                return _reply(json.loads(line[6:]), seconds, first_byte)
        raise BadReply("the stream ended without a result")

    def gauge(self, *names: str) -> tuple[float, ...]:
        lines = self.get("/metrics").splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return tuple(float(values[name]) for name in names)

    def get(self, path: str) -> str:
        try:
            return self._get(path)
        except http.client.RemoteDisconnected:  # it was idle for longer than the daemon keeps it open
            self._connection.close()
            return self._get(path)

    def _get(self, path: str) -> str:
        self._connection.request("GET", path, headers=self._headers)
        response = self._connection.getresponse()
        return _accepted(response, response.read()).decode()

    def _post(self, code: str, language: str, accept: str, **options: str | None) -> http.client.HTTPResponse:
        chosen = {name: value for name, value in options.items() if value}
        body = json.dumps({"code": code, "language": language, "timeoutSeconds": 60, **chosen})
        self._connection.request("POST", "/execute", body.encode(), {**self._headers, "Accept": accept})
        return self._connection.getresponse()


def _accepted(response: http.client.HTTPResponse, body: bytes) -> bytes:
    if response.status in REFUSED:
        raise Refused(body.decode())
    if response.status != 200:
        raise BadReply(f"{response.status}: {body.decode()[:400]}")
    return body


def _reply(body: Any, seconds: float, first_byte: float | None) -> Reply:
    if body["outcome"] not in ("completed", "output_limit"):
        raise BadReply(f"{body['outcome']}: {body['stderr'][-400:]} {body['error']}")
    metrics = body["metrics"]
    return Reply(
        seconds=seconds,
        first_byte_seconds=first_byte,
        output=body["output"],
        warm=body["warm"],
        queue_ms=metrics["queueMs"],
        start_ms=metrics["startMs"],
        run_ms=metrics["runMs"],
        tool_call_ms=tuple(call["durationMs"] for call in body["toolCalls"]),
    )
