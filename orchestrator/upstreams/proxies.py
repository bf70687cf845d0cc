"""What proxies say when the server behind them is gone, and where that server lives, which is for nobody to know.

A caller can make a server say the same words. So they may cost the call that they answer, and never decide more.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from yarl import URL

from orchestrator.upstreams.entries import HttpServer, ServerEntry
from orchestrator.upstreams.faults import RpcError
from orchestrator.upstreams.jsonrpc import INTERNAL_ERROR

_CONNECTION_CLOSED = -32000
_MAX_CHARACTERS = 16 * 1024
_MOST_ADDRESSES = 50
_WITHHELD = "[address]"
GONE = "the server behind its proxy is gone. Restart the proxy"

# TBXark's mcp-proxy, which is mcp-go (older versions leave out the colon), and those made with the TypeScript SDK.
_SAID_OF_THE_GONE = {
    (INTERNAL_ERROR, "transport error: transport closed"),
    (INTERNAL_ERROR, "transport error transport closed"),
    (INTERNAL_ERROR, "transport error: transport is closed"),
    (INTERNAL_ERROR, "transport error: transport has been closed"),
    (_CONNECTION_CLOSED, "connection closed"),
    (_CONNECTION_CLOSED, "mcp error -32000: connection closed"),
}
# How mcp-go tells that it could not send a request on: the whole message, from its first word.
_SENDING_FAILED = re.compile(
    r"(?:transport error:? (?:failed to [a-z ]{1,40}: ){0,4}|(?:failed to send request: ){1,4})"
    r"(?:(?:post|get|delete) \"[^\"]{1,2000}\": .{1,2000}|write \|1: .{1,200})"
)
_REASONS = {
    "broken pipe",
    "connection refused",
    "connection reset by peer",
    "context deadline exceeded",
    "i/o timeout",
    "network is unreachable",
    "no route to host",
    "no such host",
}

# Where addresses stand in an error's words. A name is one only where Go or Node.js puts it: "lookup failed" has none.
_URL = r"\b(?P<place>https?://[^\s\"'<>()\[\]]{1,2000})"
_SOCKET = r"(?<![\w.:])(?P<place>(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]{2,45}\]):\d{1,5})(?!\d)"
_NAME = (
    r"\b(?:dial tcp|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|lookup(?= \S{1,253}(?: on |: no such host)))"
    r" (?P<place>[\w.-]{1,253}(?::\d{1,5})?)"
)


def problem_behind(error: RpcError) -> str | None:
    """Return what a proxy says of the server behind it, in our own words; None if these are words of the server."""
    words = " ".join(error.message[:_MAX_CHARACTERS].split()).rstrip(".").lower()
    if (error.code, words) in _SAID_OF_THE_GONE:
        return GONE
    if error.code == INTERNAL_ERROR and _SENDING_FAILED.fullmatch(words):
        reason = words.rpartition(": ")[2]
        return f"its proxy cannot reach it ({reason})" if reason in _REASONS else "its proxy cannot reach it"
    return None


def without_addresses(text: str, entry: ServerEntry) -> str:
    """Withhold from an error's words the address of the server and every other one of an internal network."""
    own = URL(entry.url) if isinstance(entry, HttpServer) else URL()

    def told(found: re.Match[str]) -> str:
        place = found["place"]
        try:
            host = URL(place if "://" in place else f"tcp://{place}").host or ""
        except ValueError:
            host = ""
        return found[0].replace(place, _WITHHELD) if host == own.host or _is_internal(host) else found[0]

    text = f"{text[:_MAX_CHARACTERS]}…" if len(text) > _MAX_CHARACTERS else text
    own_socket = rf"(?<![\w.-])(?P<place>{re.escape(own.host or '')}:{own.port})(?!\d)"
    for pattern in (_URL, _SOCKET, _NAME, *([own_socket] if own.host else [])):
        parts, end = list[str](), 0
        for found in re.finditer(pattern, text, re.IGNORECASE):
            parts.append(text[end : found.start()])
            if len(parts) > 2 * _MOST_ADDRESSES:
                # To look at an address takes its time, and no honest error has so many: the rest is left out.
                text, end = "…", 0
                break
            parts.append(told(found))
            end = found.end()
        text = "".join(parts) + text[end:]
    return text


def _is_internal(host: str) -> bool:
    """Tell whether nobody outside could reach it: an address that is not public, a name without a domain."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host.rstrip(".") or host.endswith((".local", ".internal", ".lan"))
