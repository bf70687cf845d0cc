"""Keeps web pages out: those whose name was made to point at this machine, and those of other sites."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from orchestrator.domain.errors import ForeignOrigin, MisdirectedRequest

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class HostCheck:
    def __init__(self, allowed_names: frozenset[str] = frozenset()) -> None:
        self._names = LOCAL_NAMES | {name.lower() for name in allowed_names}

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuse a request that was not sent to this daemon, or that a web page of another site sent."""
        sent_to = headers.get("Host", "")
        host = _hostname(f"//{sent_to}")
        # Rebinding needs a name that changes its meaning; an address always means itself.
        if host is None or not (host in self._names or _is_address(host)):
            found = f"it names {host or sent_to[:200]}" if sent_to else "it is missing"
            raise MisdirectedRequest(f"The Host header must name this daemon; {found}.")
        origin = headers.get("Origin")
        if origin is None:
            return
        page_of = _hostname(origin) if origin.startswith(("http://", "https://")) else None
        if page_of is None or not (page_of in self._names or page_of == host):
            found = f"it names {origin[:200]}" if origin else "it is empty"
            raise ForeignOrigin(f"The Origin header must name this daemon; {found}.")


def _hostname(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return None if "@" in parts.netloc else parts.hostname
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
