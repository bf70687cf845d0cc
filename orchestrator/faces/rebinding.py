"""Keeps web pages out: those whose name was made to point at this machine, and those of other sites and ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from orchestrator.domain.errors import ForeignOrigin, MisdirectedRequest

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
DEFAULT_PORTS = {"http": 80, "https": 443}


class HostCheck:
    def __init__(self, allowed_names: frozenset[str] = frozenset()) -> None:
        self._allowed = frozenset(name.lower() for name in allowed_names)
        self._names = LOCAL_NAMES | self._allowed

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuse a request that was not sent to this daemon, or that a web page of another site sent."""
        sent_to = headers.get("Host", "")
        address = _address(sent_to)
        host = address[0] if address is not None else None
        # Rebinding needs a name that changes its meaning; an address always means itself.
        if host is None or not (host in self._names or _is_address(host)):
            found = f"it names {host or sent_to[:200]}" if sent_to else "it is missing"
            raise MisdirectedRequest(f"The Host header must name this daemon; {found}.")
        origin = headers.get("Origin")
        if origin is not None and not self._is_own(origin, sent_to):
            found = f"it names {origin[:200]}" if origin else "it is empty"
            raise ForeignOrigin(f"The Origin header must name this daemon, with its port; {found}.")

    def _is_own(self, origin: str, sent_to: str) -> bool:
        """Tell whether a page is the daemon's own: of the same name and port, for other ports are other programs'."""
        scheme, _, page_of = origin.partition("://")
        if scheme not in DEFAULT_PORTS:
            return False
        page, default = _address(page_of), DEFAULT_PORTS[scheme]
        if page is None or page[0] is None:
            return False
        name, port = page[0], page[1] or default
        # A proxy in front of the daemon may be known by its own name, and pass on another as Host.
        if name in self._allowed and port == default:
            return True
        host = _address(sent_to)
        return host is not None and (name, port) == (host[0], host[1] or default)


def _address(netloc: str) -> tuple[str | None, int | None] | None:
    """Return the name and the port in a Host header, or in what follows the scheme of an Origin."""
    if any(mark in netloc for mark in "/?#"):
        return None
    try:
        parts = urlsplit(f"//{netloc}")
        return None if "@" in parts.netloc else (parts.hostname, parts.port)
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
