"""Keeps web pages out: one whose name was made to point at this machine, and one of another site."""

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
        host = _hostname(f"//{headers.get('Host', '')}")
        # Rebinding needs a name that changes its meaning; an address always means itself.
        if host is None or not (host in self._names or _is_address(host)):
            raise MisdirectedRequest(f"This daemon is not called {host or 'nothing'}.")
        origin = headers.get("Origin")
        if origin is not None and not self._is_ours(origin, host):
            raise ForeignOrigin(f"The request comes from a page of {origin[:200]}.")

    def _is_ours(self, origin: str, host: str) -> bool:
        name = _hostname(origin) if origin.startswith(("http://", "https://")) else None
        return name is not None and (name in self._names or name == host)


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
