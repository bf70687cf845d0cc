"""This machine, as a sandbox might try to reach it."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path


def own_ipv4_addresses() -> list[str]:
    """Every address that this machine answers on, bridges included, but not loopback."""
    trie = Path("/proc/net/fib_trie").read_text()
    found = set(re.findall(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL", trie))
    return sorted(address for address in found if not ipaddress.ip_address(address).is_loopback)


def own_ipv6_addresses() -> list[str]:
    lines = Path("/proc/net/if_inet6").read_text().split("\n")
    found = {str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in lines if line}
    return sorted(address for address in found if not ipaddress.ip_address(address).is_loopback)
