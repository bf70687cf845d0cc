"""The MCP servers of servers.toml, and the compose services that they need."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROXY = "mcp-proxy"
ALL = "all"


class Problem(Exception):
    """Ends the command with one sentence."""


class ProxyKind(StrEnum):
    OURS = "ours"
    PULLED = "pulled"


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    container: str
    packages: str
    network: str
    internet: bool
    default: bool
    package: str
    program: str
    module: str
    url: str
    contents: str
    session: str
    withhold: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    needs: tuple[str, ...]
    services: tuple[str, ...]
    debian: tuple[str, ...]
    watches: bool = False  # the daemon, or what watches it, instead of having tools for it
    along: tuple[str, ...] = ()

    @classmethod
    def from_table(cls, name: str, table: Mapping[str, Any], *, watches: bool = False) -> Server:
        container = table.get("container", f"mcp-{name}")
        return cls(
            name=name,
            container=container,
            packages=container,
            network=name,
            internet=table.get("internet", False),
            default=table.get("default", False),
            package=table.get("package", ""),
            program=table.get("program", ""),
            module=table.get("module", ""),
            url=table.get("url", ""),
            contents=table.get("contents", ""),
            session=table.get("session", ""),
            withhold=tuple(table.get("withhold", ())),
            args=tuple(table.get("args", ())),
            env=table.get("env", {}),
            needs=tuple(table.get("needs", ())),
            services=tuple(table.get("services", ())),
            debian=tuple(table.get("debian", ())),
            watches=watches,
            along=tuple(table.get("along", ())),
        )

    def behind(self, kind: ProxyKind) -> Server:
        """Return where it runs: in a container of its own, or together with others in a pulled proxy."""
        if kind is ProxyKind.OURS or not self.package:
            return self
        return replace(self, container=PROXY, network="proxy", internet=True)

    def command(self, kind: ProxyKind) -> list[str]:
        """Return how a proxy starts it: our images hold the servers, a pulled proxy fetches them itself."""
        if kind is ProxyKind.PULLED:
            return ["npx", "-y", f"{self.package}@{self._pinned_version()}", *self.args]
        if self.program:
            return ["node", f"/app/node_modules/{self.program}", *self.args]
        return ["python3", "-m", self.module, *self.args]

    def _pinned_version(self) -> str:
        manifest = json.loads((HERE / "packages" / self.packages / "package.json").read_text())
        return str(manifest["dependencies"][self.package])


@dataclass(frozen=True, slots=True)
class Stack:
    servers: Mapping[str, Server]
    services: Mapping[str, tuple[str, ...]]
    generated: Mapping[str, str]

    @classmethod
    def read(cls, kind: ProxyKind, given: Mapping[str, str]) -> Stack:
        tables = tomllib.loads((HERE / "servers.toml").read_text())
        servers = [Server.from_table(name, _as_given(table, given)) for name, table in tables["servers"].items()]
        servers += [Server.from_table(name, table, watches=True) for name, table in tables["watchers"].items()]
        return cls(
            servers={server.name: server.behind(kind) for server in servers},
            services={name: tuple(variables) for name, variables in tables["services"].items()},
            generated=tables["generated"],
        )

    def default(self) -> list[str]:
        return [server.name for server in self.servers.values() if server.default]

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Return the names, each once, with every server there is in the place of "all", and with what comes along."""
        every = [server.name for server in self.servers.values() if not server.watches]
        wanted = [each for name in names for each in (every if name == ALL else (name,))]
        along = [each for name in wanted if name in self.servers for each in self.servers[name].along]
        return list(dict.fromkeys((*wanted, *along)))

    def server(self, name: str) -> Server:
        if name not in self.servers:
            raise Problem(f"There is no server {name}; there are {', '.join(self.servers)}.")
        return self.servers[name]

    def services_of(self, servers: Iterable[Server]) -> list[str]:
        """Return the compose services that the servers need; those that others depend on come first."""
        names = [name for server in servers for name in (*server.services, server.container)]
        return sorted(dict.fromkeys(names), key=lambda name: name not in self.services)


def _as_given(table: Mapping[str, Any], given: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the table with what takes the place of a variable that nobody has set."""
    for variable, instead in table.get("without", {}).items():
        if not given.get(variable):
            table = {**table, **instead, "env": {**table.get("env", {}), **instead.get("env", {})}}
    return table
