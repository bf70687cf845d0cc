"""servers.d: the entry of each server, which the daemon and the stack read, and the locks of its packages beside it."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from orchestrator.commands.keys import write_atomically
from orchestrator.domain.access import CHAT_SERVER
from orchestrator.domain.names import server_identifier

# No hyphens beside each other or at the end: a token's file is named by the server, two underscores and its own name.
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME = 32
FIRST_USER, LAST_USER = 11001, 11999
PORT = 9090
READABLE = 0o644

Json = dict[str, Any]


class BadEntry(Exception):
    """The message says what must be, and what to do."""


class Network(StrEnum):
    NONE = "none"
    BACKEND = "backend"
    INTERNET = "internet"

    @property
    def reach(self) -> str:
        return {
            Network.NONE: "nothing but the daemon reaches it, and it reaches nothing",
            Network.BACKEND: "it reaches the databases of the stack, and not the internet",
            Network.INTERNET: "it reaches the internet, and no other server",
        }[self]


@dataclass(frozen=True, slots=True)
class Container:
    """How a server runs in a container of the stack."""

    run: str  # as the user wrote it, with the version that was chosen
    command: tuple[str, ...]
    env: Mapping[str, str]
    network: Network
    user: int

    def as_json(self) -> Json:
        return {
            "run": self.run,
            "command": list(self.command),
            "env": dict(self.env),
            "network": self.network.value,
            "user": self.user,
        }


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for a server wherever it runs."""

    lists_contents: bool = False
    session: str | None = None
    host: bool = False

    def as_json(self) -> Json:
        told: Json = {}
        if self.lists_contents:
            told["contents"] = "list"
        if self.session:
            told["session"] = self.session
        if self.host:
            told["host"] = True
        return told


def entry_of_container(name: str, container: Container, options: Options) -> Json:
    url = f"http://mcp-own-{name}:{PORT}/servers/{name}/mcp"
    return {"type": "http", "url": url, **options.as_json(), "container": container.as_json()}


def entry_of_address(url: str, kind: str, headers: Mapping[str, str], options: Options) -> Json:
    told = {"headers": dict(headers)} if headers else {}
    return {"type": kind, "url": url, **told, **options.as_json()}


@dataclass(frozen=True, slots=True)
class ServersDirectory:
    path: Path

    def names(self) -> list[str]:
        files = sorted(self.path.glob("*.json")) if self.path.is_dir() else []
        return [file.stem for file in files if not file.name.startswith(".") and file.is_file()]

    def entry(self, name: str) -> Json | None:
        """Return the entry of a server, or None if there is no file; one that is broken raises BadEntry."""
        file = self.file(name)
        if not file.is_file():
            return None
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"][name]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise BadEntry(
                f"{file} is not an entry of {name}. Correct it, or remove it with 'servers remove'."
            ) from None
        if not isinstance(entry, dict):
            raise BadEntry(f"{file}: the entry of {name} must be an object.")
        return entry

    def file(self, name: str) -> Path:
        return self.path / f"{name}.json"

    def locks(self, name: str) -> Path:
        return self.path / name

    def write(self, name: str, entry: Json) -> None:
        """Write it as one step; the daemon takes it up, also when only a token has changed."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o755)  # the daemon reads it as another user, whatever the umask says
        text = json.dumps({"mcpServers": {name: entry}}, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.file(name), text, READABLE)

    def keep_locks(self, name: str, made_in: Path) -> None:
        """Put the locks that were made elsewhere beside the entry, instead of those that were there."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / f".{name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(made_in, fresh)
        shutil.rmtree(self.locks(name), ignore_errors=True)
        fresh.rename(self.locks(name))

    def remove(self, name: str) -> bool:
        """Remove the entry first, so that the daemon lets go of the server; return whether there was anything."""
        file, locks = self.file(name), self.locks(name)
        existed = file.exists() or locks.exists()
        file.unlink(missing_ok=True)
        shutil.rmtree(locks, ignore_errors=True)
        return existed

    def user_for(self, name: str) -> int:
        """Return the user of a server: the one that it has, or else the first that no other has."""
        users: dict[str, int] = {}
        for each in self.names():
            try:
                container = (self.entry(each) or {}).get("container")
            except BadEntry:
                continue
            if isinstance(container, dict) and isinstance(container.get("user"), int):
                users[each] = container["user"]
        if name in users:
            return users[name]
        free = (user for user in range(FIRST_USER, LAST_USER + 1) if user not in users.values())
        if (user := next(free, None)) is None:
            raise BadEntry("There are too many servers of your own. Remove one first.")
        return user


def check_name(name: str, directory: ServersDirectory, project: Path, servers_file: Path) -> None:
    """Refuse a name that cannot be a container's and a module's, or that another server has."""
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise BadEntry(
            f"NAME must be lower-case letters, digits and single hyphens between them, at most {LONGEST_NAME} of them, "
            "such as my-server."
        )
    if (why := why_taken(name, directory, project, servers_file)) is not None:
        raise BadEntry(f"The name {name} is taken: {why}. Choose another.")


def why_taken(name: str, directory: ServersDirectory, project: Path, servers_file: Path) -> str | None:
    """Return which other server has this name, or one that is the same in programs."""
    taken = {CHAT_SERVER: "is built in", **_of_the_stack(project), **_in_file(servers_file)}
    for other in directory.names():
        if other != name:
            taken.setdefault(other, f"is in {directory.file(other)}")
    for other, why in taken.items():
        if server_identifier(other) == server_identifier(name):
            return f"a server {other} {why}"
    return None


def _of_the_stack(project: Path) -> dict[str, str]:
    file = project / "deploy" / "stack" / "servers.toml"
    names = tomllib.loads(file.read_text())["servers"] if file.exists() else {}
    return dict.fromkeys(names, "comes with the stack, even if it does not run")


def _in_file(file: Path) -> dict[str, str]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        names = [*document.get("mcpServers", {}), *document.get("proxy", {}).get("servers", [])]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}
    return {str(name): f"is in {file}" for name in names}
