"""Decides what the stack of MCP servers consists of, and writes the settings of its containers.

stack.py default                        the servers that come up without being asked for
stack.py services SERVER…               the compose services they need
stack.py usable SERVER…                 those of them that exist and have the variables they need
stack.py without SERVICE,… SERVER…      those of them that need none of the services
stack.py packages SERVER                the Debian packages that its image needs
stack.py write --proxy KIND SERVER…     the settings below .build/stack, and what is missing in secrets/; says which
                                        containers have new settings
stack.py secrets                        NAME=value of what is in secrets/, for compose
stack.py daemon-env FILE                NAME='value' of the daemon's settings, and of what a servers.json refers to
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PORT = 9090
PROXY = "mcp-proxy"
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
# As python-dotenv, compose and `configured` in scripts/lib.sh read it.
SETTING = re.compile(
    r"""(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(?:(['"])(?P<quoted>.*?)\2\s*(?:\#.*)?|(?P<plain>.*?)(?:\s+\#.*)?)"""
)
# For the command line on this side only: a key must not reach the daemon, and paths of this machine mean nothing there.
NOT_FOR_THE_DAEMON = re.compile(
    r"CODE_EXECUTOR_(PUBLISH|TEST_\w*|KEY|URL|SECRETS_DIR|SERVERS_FILE|DOCKER_HOST|SECCOMP_FILE)"
)
SECRET_BYTES = 32
SECRET_MODE = 0o640


class Problem(Exception):
    """Ends the command with one sentence."""


class ProxyKind(StrEnum):
    OURS = "ours"
    PULLED = "pulled"


PATHS = {ProxyKind.OURS: "/servers/{server}/mcp", ProxyKind.PULLED: "/{server}/mcp"}


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    container: str
    default: bool
    package: str
    program: str
    module: str
    url: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    needs: tuple[str, ...]
    services: tuple[str, ...]
    debian: tuple[str, ...]

    @classmethod
    def from_table(cls, name: str, table: Mapping[str, Any]) -> Server:
        return cls(
            name=name,
            container=table.get("container", f"mcp-{name}"),
            default=table.get("default", False),
            package=table.get("package", ""),
            program=table.get("program", ""),
            module=table.get("module", ""),
            url=table.get("url", ""),
            args=tuple(table.get("args", ())),
            env=table.get("env", {}),
            needs=tuple(table.get("needs", ())),
            services=tuple(table.get("services", ())),
            debian=tuple(table.get("debian", ())),
        )

    def entry(self, kind: ProxyKind) -> dict[str, Any]:
        """What the proxy's configuration says of it."""
        command, *args = self._fetched_by_npx() if kind is ProxyKind.PULLED else self._in_our_image()
        return {"command": command, "args": [*args, *self.args], "env": dict(self.env)}

    def _in_our_image(self) -> list[str]:
        if self.program:
            return ["node", f"/app/node_modules/{self.program}"]
        return ["python3", "-m", self.module]

    def _fetched_by_npx(self) -> list[str]:
        return ["npx", "-y", f"{self.package}@{pinned_version(self.container, self.package)}"]


@dataclass(frozen=True, slots=True)
class Stack:
    servers: Mapping[str, Server]
    services: Mapping[str, tuple[str, ...]]
    generated: Mapping[str, str]

    @classmethod
    def read(cls, path: Path = HERE / "servers.toml") -> Stack:
        tables = tomllib.loads(path.read_text())
        return cls(
            servers={name: Server.from_table(name, table) for name, table in tables["servers"].items()},
            services={name: tuple(variables) for name, variables in tables["services"].items()},
            generated=tables["generated"],
        )

    def default(self) -> list[str]:
        return [server.name for server in self.servers.values() if server.default]

    def server(self, name: str) -> Server:
        if name not in self.servers:
            raise Problem(f"There is no server {name}; there are {', '.join(self.servers)}.")
        return self.servers[name]


@dataclass(frozen=True, slots=True)
class Settings:
    """Variables of the environment, of .env, and those that are made on first use."""

    given: Mapping[str, str]
    generated: Mapping[str, str]
    secrets_dir: Path

    def value(self, name: str) -> str | None:
        if self.given.get(name):
            return self.given[name]
        file = self.generated.get(name)
        return read_or_make_secret(self.secrets_dir / file) if file else None

    def lines(self, names: Iterable[str]) -> list[str]:
        values = {name: self.value(name) for name in sorted(set(names))}
        return [environment_line(name, value) for name, value in values.items() if value]

    def made(self) -> list[str]:
        files = {name: self.secrets_dir / file for name, file in self.generated.items() if not self.given.get(name)}
        return [f"{name}={file.read_text().strip()}" for name, file in files.items() if file.exists()]


def environment_line(name: str, value: str) -> str:
    """Both kinds of compose take a value in single quotes as it is."""
    if "'" in value or "\n" in value:
        raise Problem(f"The value of {name} holds a quote or a line break, which cannot be handed to a container.")
    return f"{name}='{value}'"


def read_or_make_secret(path: Path) -> str:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, secrets.token_hex(SECRET_BYTES) + "\n", SECRET_MODE)
    return path.read_text().strip()


def write(path: Path, text: str, mode: int) -> bool:
    """Appears complete and with its mode, or not at all; what is the same stays untouched."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.chmod(mode)
    new.replace(path)
    return True


def pinned_version(container: str, package: str) -> str:
    manifest = json.loads((HERE / "packages" / container / "package.json").read_text())
    return str(manifest["dependencies"][package])


def services_of(stack: Stack, servers: Iterable[Server]) -> list[str]:
    """What others need comes first."""
    names = [name for server in servers for name in (*server.services, server.container)]
    return sorted(dict.fromkeys(names), key=lambda name: name not in stack.services)


def by_container(servers: Iterable[Server]) -> dict[str, list[Server]]:
    grouped: dict[str, list[Server]] = {}
    for server in servers:
        grouped.setdefault(server.container, []).append(server)
    return grouped


def proxy_settings(kind: ProxyKind, container: str, servers: Iterable[Server]) -> dict[str, Any]:
    entries = {server.name: server.entry(kind) for server in servers}
    if kind is ProxyKind.OURS:
        return {"mcpServers": entries}
    return {"mcpProxy": pulled_proxy_settings(container), "mcpServers": entries}


def pulled_proxy_settings(container: str) -> dict[str, Any]:
    return {
        "baseURL": f"http://{container}:{PORT}",
        "addr": f":{PORT}",
        "name": container,
        "version": "1",
        "type": "streamable-http",
        "options": {"authTokens": ["${MCP_PROXY_TOKEN}"], "panicIfInvalid": False, "logEnabled": True},
    }


def daemon_settings(kind: ProxyKind, servers: Iterable[Server]) -> dict[str, Any]:
    behind, beside = [], {}
    for server in servers:
        if server.container == PROXY:
            behind.append(server.name)
        else:
            beside[server.name] = {"type": "http", "url": server.url or address_of(server)}
    document: dict[str, Any] = {"mcpServers": beside}
    if behind:
        document["proxy"] = proxy_entry(kind, behind)
    return document


def address_of(server: Server) -> str:
    return f"http://{server.container}:{PORT}{PATHS[ProxyKind.OURS].format(server=server.name)}"


def proxy_entry(kind: ProxyKind, names: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"url": f"http://{PROXY}:{PORT}", "servers": names, "path": PATHS[kind]}
    if kind is ProxyKind.PULLED:
        entry["token"] = "${MCP_PROXY_TOKEN}"  # noqa: S105  # the name of a variable
    return entry


def write_everything(
    stack: Stack, settings: Settings, kind: ProxyKind, servers: list[Server], into: Path
) -> Iterator[str]:
    for container, inside in by_container(server for server in servers if not server.url).items():
        # The other containers are of our own image in any case.
        document = proxy_settings(kind if container == PROXY else ProxyKind.OURS, container, inside)
        if write(into / container / "config.json", as_json(document), 0o644):
            yield container
    write(into / "daemon" / "servers.json", as_json(daemon_settings(kind, servers)), 0o644)
    for name in variables_of(stack, kind, servers):
        settings.value(name)


def variables_of(stack: Stack, kind: ProxyKind, servers: list[Server]) -> list[str]:
    texts = [value for server in servers for value in (*server.args, *server.env.values())]
    of_services = [name for service in services_of(stack, servers) for name in stack.services.get(service, ())]
    of_proxy = ["MCP_PROXY_TOKEN"] if kind is ProxyKind.PULLED else []
    return [*REFERENCE.findall(" ".join(texts)), *of_services, *of_proxy]


def as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def settings_file(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    matches = (SETTING.fullmatch(line.strip()) for line in path.read_text().splitlines())
    return {match[1]: match["quoted"] or match["plain"] or "" for match in matches if match}


def given_settings(root: Path) -> dict[str, str]:
    return settings_file(root / ".env") | {name: value for name, value in os.environ.items() if value}


def variables_of_daemon(given: Mapping[str, str], servers_file: Path) -> list[str]:
    """Its own settings, and what servers.json names as ${NAME}; no others."""
    servers = servers_file.read_text() if servers_file.exists() else ""
    names = [*(name for name in given if name.startswith("CODE_EXECUTOR_")), *REFERENCE.findall(servers)]
    return [name for name in names if not NOT_FOR_THE_DAEMON.fullmatch(name)]


def usable(stack: Stack, settings: Settings, names: Iterable[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        try:
            refuse_without_variables(stack.server(name), settings)
            yield name
        except Problem as problem:
            sys.stderr.write(f"  {problem}\n")


def refuse_without_variables(server: Server, settings: Settings) -> None:
    missing = [name for name in server.needs if not settings.value(name)]
    if missing:
        raise Problem(
            f"The server {server.name} is left out: set {' and '.join(missing)} in .env or in the environment."
        )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=HERE.parents[1])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("default")
    commands.add_parser("secrets")
    commands.add_parser("services").add_argument("names", nargs="*")
    commands.add_parser("packages").add_argument("names", nargs=1)
    writing = commands.add_parser("write")
    writing.add_argument("--proxy", type=ProxyKind, required=True)
    writing.add_argument("names", nargs="*")
    commands.add_parser("usable").add_argument("names", nargs="*")
    without = commands.add_parser("without")
    without.add_argument("services", type=lambda text: text.split(","))
    without.add_argument("names", nargs="*")
    commands.add_parser("daemon-env").add_argument("file", type=Path)
    return parser.parse_args(arguments)


def run(chosen: argparse.Namespace) -> Iterable[str]:
    stack = Stack.read()
    given = given_settings(chosen.root)
    secrets_dir = chosen.root / (given.get("CODE_EXECUTOR_SECRETS_DIR") or "secrets")
    settings = Settings(given, stack.generated, secrets_dir)
    match chosen.command:
        case "default":
            return stack.default()
        case "daemon-env":
            return settings.lines(variables_of_daemon(given, chosen.file))
        case "secrets":
            return settings.made()
        case "usable":
            return usable(stack, settings, chosen.names)
    servers = [stack.server(name) for name in chosen.names]
    match chosen.command:
        case "without":
            return [server.name for server in servers if not set(chosen.services) & set(services_of(stack, [server]))]
        case "services":
            return services_of(stack, servers)
        case "packages":
            return [package for server in servers for package in server.debian]
        case "write":
            return write_everything(stack, settings, chosen.proxy, servers, chosen.root / ".build" / "stack")
    return []


def main(arguments: list[str]) -> None:
    try:
        for line in run(parse(arguments)):
            sys.stdout.write(f"{line}\n")
    except Problem as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main(sys.argv[1:])
