"""What can go wrong between us and an upstream.

`problem` continues "The server NAME is unavailable:" and ends without a full stop; a sentence that says what to do may
follow within it.
"""

from __future__ import annotations

from dataclasses import dataclass

_CHECK_CREDENTIALS = "Check its headers and its token"
_HTTP_PROBLEMS = {
    401: f"it rejects our credentials (HTTP 401). {_CHECK_CREDENTIALS}",
    403: f"it denies us access (HTTP 403). {_CHECK_CREDENTIALS}",
    404: "nothing is at its address (HTTP 404). Check its name and path, and that the proxy could start it",
    405: "its address does not accept POST (HTTP 405). Check its path and type in servers.json",
    502: "its proxy cannot reach it (HTTP 502)",
    503: "it is not ready (HTTP 503)",
    504: "its proxy got no answer from it in time (HTTP 504)",
}


@dataclass(eq=False)
class TransportFailed(Exception):
    """Nothing usable came back."""

    problem: str


class Unreachable(TransportFailed):
    """There was no connection, so the server has not seen the request."""


class HttpRefused(TransportFailed):
    """The server answered with a status that is an error."""

    def __init__(self, status: int) -> None:
        super().__init__(_HTTP_PROBLEMS.get(status, f"it answers with HTTP status {status}"))
        self.status = status


class SessionLost(TransportFailed):
    """The server no longer knows our session; it did not look at the request."""


class Severed(TransportFailed):
    """What carries the session is gone, and the session with it: its process, or its place at the server."""


class BackendGone(TransportFailed):
    """The server's proxy says that it cannot reach what is behind it; whether that is so, its words do not prove."""


@dataclass(eq=False)
class NotJson(TransportFailed):
    """The server sent something that is not a JSON-RPC message."""

    problem: str = "its answer is not JSON-RPC"


@dataclass(eq=False)
class ResultTooLarge(Exception):
    """What the server sends exceeds the limit; it was not read to its end."""

    max_bytes: int


class NoRoom(Exception):
    """A large result had to be discarded, because its caller holds as much as it may."""


class NotEncodable(Exception):
    """A message of ours holds a value that JSON cannot represent, such as NaN."""


@dataclass(eq=False)
class RpcError(Exception):
    """A JSON-RPC error reply: the server is well and says no."""

    code: int
    message: str
