"""What can go wrong between us and an upstream. `problem` is a clause that follows the server's name and a colon."""

from __future__ import annotations

import ssl

import aiohttp


class TransportFailed(Exception):
    """Nothing usable came back."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class HttpRefused(TransportFailed):
    def __init__(self, status: int) -> None:
        super().__init__(_HTTP_PROBLEMS.get(status, f"it answers HTTP {status}"))
        self.status = status


class SessionLost(TransportFailed):
    """The server no longer knows our session; it did not look at the request."""


class BackendDead(TransportFailed):
    """The server's proxy answers, but what is behind it is gone. If it still lists, a listing proves nothing."""

    def __init__(self, problem: str, *, still_lists: bool) -> None:
        super().__init__(problem)
        self.still_lists = still_lists


class ResultTooLarge(Exception):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"larger than {max_bytes} bytes")
        self.max_bytes = max_bytes


class RpcError(Exception):
    """A JSON-RPC error reply: the server is well and says no."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message


_HTTP_PROBLEMS = {
    401: "it refuses our credentials (HTTP 401); check its headers or token in servers.json",
    403: "it forbids us the access (HTTP 403); check its headers or token in servers.json",
    404: "nothing is at its address (HTTP 404); check its name and path, and that the proxy could start it",
    405: "its address does not take POST (HTTP 405); check its path and type in servers.json",
    502: "its proxy cannot reach it (HTTP 502)",
    503: "it is not ready (HTTP 503)",
    504: "its proxy waits for it in vain (HTTP 504)",
}


def from_http_client(error: Exception) -> TransportFailed:
    """Our own words: those of the client quote addresses, which may hold credentials."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return TransportFailed("its host name cannot be resolved")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError() | ssl.SSLError():
            return TransportFailed("its TLS certificate or handshake is not acceptable")
        case aiohttp.ClientConnectorError(os_error=OSError(strerror=str(reason))):
            return TransportFailed(f"it cannot be connected to ({_tame(reason)})")
        case TimeoutError():
            return TransportFailed("it does not accept connections in time")
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | OSError():
            return TransportFailed("the connection broke before the answer was complete")
        case _:
            return TransportFailed("it does not speak HTTP as expected")


def _tame(reason: str) -> str:
    # "Connect call failed ('127.0.0.1', 9090)" is how asyncio says it when several addresses were tried.
    return reason.lower() if "(" not in reason else "connection refused"
