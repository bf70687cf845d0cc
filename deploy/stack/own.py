"""The servers of the user's own: files of one server each in servers.d, of which some run in containers of the stack.

`code-executor servers add` writes the files; they may also be written or changed by hand, so everything that is said in
them is checked before it becomes a container.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from deploy.stack.servers import Problem

PREFIX = "mcp-own-"
IMAGE = "mcp-code-executor/mcp-own-"
DAEMON = "orchestrator"
HOST = "host.docker.internal:host-gateway"
# Services that are no MCP servers, and which one with the network `backend` reaches.
BACKENDS = ("mcp-postgres", "mcp-timescale", "mcp-s3", "mcp-arango")
# What the kernel counts by user is not shared with another server, nor with the stack's own, which are 10002.
USERS = range(11001, 12000)
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME = 32
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# Those of x-server in compose.yaml; a test compares them.
LOCKDOWN: Mapping[str, Any] = {
    "init": True,
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "tmpfs": ["/tmp:size=256m,mode=1777,nosuid,nodev"],  # noqa: S108  # a tmpfs of the container
    "pids_limit": 512,
    "mem_limit": "1g",
    "memswap_limit": "1g",
    "cpus": 1,
    "restart": "unless-stopped",
    "stop_grace_period": "5s",
    "logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}},
}
LABEL = "mcp-code-executor.network"  # by which a network of another kind than is wanted now is told
# Without an address of this machine on the network, what listens here on all addresses is not reached from there.
WITHOUT_THIS_MACHINE = {"com.docker.network.bridge.inhibit_ipv4": "true"}


class Network(StrEnum):
    NONE = "none"
    BACKEND = "backend"
    INTERNET = "internet"


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server that runs in a container of the stack."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    network: Network
    user: int
    host: bool

    @property
    def service(self) -> str:
        return PREFIX + self.name

    @property
    def backends(self) -> tuple[str, ...]:
        return BACKENDS if self.network is Network.BACKEND else ()

    @classmethod
    def from_entry(cls, name: str, entry: Mapping[str, Any]) -> OwnServer:
        container = _mapping(name, "container", entry.get("container"))
        command = container.get("command")
        if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
            raise Problem(f"{name}.json: container.command must be a list of words.")
        env = _mapping(name, "container.env", container.get("env", {}))
        if not all(VARIABLE.fullmatch(key) and isinstance(value, str) for key, value in env.items()):
            raise Problem(f"{name}.json: container.env must have names of variables and texts.")
        given = set(_references(env.values()))
        if strange := [variable for variable in _references(command) if variable not in given]:
            # The command comes from the package: what it may know is what the user has given it.
            raise Problem(f"{name}.json: container.command names {strange[0]}, which no value of container.env names.")
        if container.get("network") not in list(Network):
            raise Problem(f"{name}.json: container.network must be one of {', '.join(Network)}.")
        user = container.get("user")
        if not isinstance(user, int) or user not in USERS:
            raise Problem(f"{name}.json: container.user must be a number from {USERS.start} to {USERS.stop - 1}.")
        return cls(name, tuple(command), env, Network(container["network"]), user, entry.get("host") is True)


@dataclass(frozen=True, slots=True)
class OwnServers:
    directory: Path
    entries: Mapping[str, Mapping[str, Any]]  # by name, with those that are only an address
    problems: tuple[str, ...]

    @classmethod
    def read(cls, directory: Path) -> OwnServers:
        entries: dict[str, Mapping[str, Any]] = {}
        problems: list[str] = []
        for file in sorted(directory.glob("*.json")) if directory.is_dir() else ():
            if file.name.startswith(".") or not file.is_file():
                continue
            try:
                entries |= _entries_in(file)
            except (Problem, OSError, ValueError, RecursionError) as problem:
                problems.append(f"{file.name} is left out: {problem}")
        return cls(directory, entries, tuple(problems))

    def sorted_out(self) -> tuple[list[OwnServer], list[str]]:
        """Return those that run in containers, and of each that is left out a sentence that says why."""
        by_user: dict[int, OwnServer] = {}
        complaints = list(self.problems)
        for name, entry in self.entries.items():
            if "container" not in entry:
                continue
            try:
                server = _server(name, entry)
                if (other := by_user.setdefault(server.user, server)) is not server:
                    raise Problem(f"{name}.json: container.user is that of {other.name}; choose another.")
            except Problem as problem:
                complaints.append(f"The server {name} is left out: {problem}")
        return list(by_user.values()), complaints

    def in_containers(self) -> list[OwnServer]:
        return self.sorted_out()[0]

    def references_of_daemon(self) -> list[str]:
        """Return the variables that the daemon needs: those of addresses and headers, not those of containers."""
        told = [{key: value for key, value in entry.items() if key != "container"} for entry in self.entries.values()]
        return _references(_texts(told))

    def daemon_needs_host(self) -> bool:
        return any(entry.get("host") is True and "container" not in entry for entry in self.entries.values())


def compose_document(servers: Iterable[OwnServer], *, daemon_needs_host: bool) -> dict[str, Any]:
    """Return what is added to compose.yaml. The daemon is not on these networks here: it joins them while it runs."""
    services: dict[str, Any] = {server.service: _service(server) for server in servers}
    if daemon_needs_host:
        services[DAEMON] = {"extra_hosts": [HOST]}
    return {"services": services, "networks": {server.service: _network(server) for server in servers}}


def proxy_config(server: OwnServer) -> dict[str, Any]:
    command, *args = server.command
    return {"mcpServers": {server.name: {"command": command, "args": args, "env": dict(server.env)}}}


def _service(server: OwnServer) -> dict[str, Any]:
    variables = sorted(set(_references(server.env.values())))
    return {
        **LOCKDOWN,
        "container_name": f"${{STACK_PREFIX:-}}{server.service}",
        "image": f"{IMAGE}{server.name}:latest",
        "user": f"{server.user}:{server.user}",
        "networks": [server.service],
        "environment": {name: f"${{{name}:-}}" for name in variables},
        **({"extra_hosts": [HOST]} if server.host else {}),
    }


def _network(server: OwnServer) -> dict[str, Any]:
    name, labels = f"${{STACK_PREFIX:-}}{server.service}", {LABEL: server.network.value}
    if server.network is Network.INTERNET:
        return {"name": name, "internal": False, "labels": labels}
    return {"name": name, "internal": True, "driver_opts": dict(WITHOUT_THIS_MACHINE), "labels": labels}


def _server(name: str, entry: Mapping[str, Any]) -> OwnServer:
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise Problem(f"its name must be lower-case letters, digits and single hyphens, at most {LONGEST_NAME}.")
    return OwnServer.from_entry(name, entry)


def _entries_in(file: Path) -> dict[str, Mapping[str, Any]]:
    document = json.loads(file.read_text(encoding="utf-8"))
    servers = document.get("mcpServers", {}) if isinstance(document, dict) else None
    if not isinstance(servers, dict) or not all(isinstance(entry, dict) for entry in servers.values()):
        raise Problem('it must be an object with "mcpServers".')
    return {name: entry for name, entry in servers.items() if not entry.get("disabled")}


def _mapping(name: str, key: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Problem(f"{name}.json: {key} must be an object.")
    return value


def _references(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for name in REFERENCE.findall(text)]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
