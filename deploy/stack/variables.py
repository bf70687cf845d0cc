"""The variables of the stack: given in the environment or in .env, or secrets that are made on first use."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy import settings_file
from deploy.stack.files import write
from deploy.stack.own import VARIABLE, OwnServers
from deploy.stack.servers import Problem, Server

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
# For the command line on this side only: a key must not reach the daemon, and paths of this machine mean nothing there.
NOT_FOR_THE_DAEMON = re.compile(
    r"CODE_EXECUTOR_(PUBLISH|TEST_\w*|KEY|URL|SECRETS_DIR|SERVERS_FILE|SERVERS_DIR|SERVER_SECRETS_DIR|DOCKER_HOST"
    r"|SECCOMP_FILE|LAUNCHER_SOCKET|STARTED_IN)"
)
# What LAUNCHER_FIELDS in orchestrator/settings.py names, without what means nothing in its container.
FOR_THE_LAUNCHER = re.compile(
    r"CODE_EXECUTOR_(RUNNER_IMAGE|RUNTIME|MEMORY_BYTES|CPUS|MAX_PROCESSES|WORKSPACE_BYTES|SCRATCH_BYTES|MAX_RUNNING"
    r"|MAX_SANDBOXES|LOG_LEVEL|LOG_FORMAT)"
)
SECRET_BYTES = 32
SECRET_MODE = 0o640


@dataclass(frozen=True, slots=True)
class Variables:
    given: Mapping[str, str]
    generated: Mapping[str, str]  # by name, the file below the directory of secrets
    secrets_dir: Path
    servers_dir: Path  # with the servers of the user's own

    @classmethod
    def of(cls, root: Path, given: Mapping[str, str], generated: Mapping[str, str]) -> Variables:
        return cls(
            given,
            generated,
            secrets_dir=root / (given.get("CODE_EXECUTOR_SECRETS_DIR") or "secrets"),
            servers_dir=root / (given.get("CODE_EXECUTOR_SERVERS_DIR") or "servers.d"),
        )

    def value(self, name: str) -> str | None:
        if self.given.get(name):
            return self.given[name]
        file = self.generated.get(name)
        return _read_or_make_secret(self.secrets_dir / file) if file else None

    def require(self, server: Server) -> None:
        missing = [name for name in server.needs if not self.value(name)]
        if missing:
            raise Problem(
                f"The server {server.name} is left out: set {' and '.join(missing)} in .env or in the environment."
            )

    def secrets_for_compose(self) -> list[str]:
        """Return NAME=value of each secret that exists and that nobody has given another value."""
        files = {name: self.secrets_dir / file for name, file in self.generated.items() if not self.given.get(name)}
        files |= {file.name: file for file in self._secrets_of_own_servers()}
        return [f"{name}={file.read_text().strip()}" for name, file in files.items() if file.exists()]

    def _secrets_of_own_servers(self) -> list[Path]:
        """Return those that containers get; what the daemon itself sends, it reads from files."""
        directory = self.secrets_dir / "own" / "containers"
        return [file for file in sorted(directory.glob("*")) if VARIABLE.fullmatch(file.name)]

    def lines_for_daemon(self, servers_file: Path) -> list[str]:
        """Return NAME='value' of the daemon's own settings and of what its servers.json names as ${NAME}."""
        servers = servers_file.read_text() if servers_file.exists() else ""
        made = [name for name, file in self.generated.items() if (self.secrets_dir / file).exists()]
        own = [name for name in (*self.given, *made) if name.startswith("CODE_EXECUTOR_")]
        named = (*REFERENCE.findall(servers), *OwnServers.read(self.servers_dir).references_of_daemon())
        return self._lines(name for name in (*own, *named) if not NOT_FOR_THE_DAEMON.fullmatch(name))

    def lines_for_launcher(self) -> list[str]:
        """Return NAME='value' of what the launcher needs to know, and of no secret."""
        return self._lines(name for name in self.given if FOR_THE_LAUNCHER.fullmatch(name))

    def _lines(self, names: Iterable[str]) -> list[str]:
        values = {name: self.value(name) for name in sorted(set(names))}
        return [_environment_line(name, value) for name, value in values.items() if value]


def given_in(root: Path) -> dict[str, str]:
    """Return the environment before .env; a variable that is empty is not set."""
    return settings_file.read(root / ".env") | {name: value for name, value in os.environ.items() if value}


def referred_to(texts: Iterable[str]) -> list[str]:
    return REFERENCE.findall(" ".join(texts))


def _environment_line(name: str, value: str) -> str:
    """Both kinds of compose take a value in single quotes as it is."""
    if "'" in value or "\n" in value or value.endswith("\\"):
        raise Problem(
            f"The value of {name} must not contain a single quote or a line break or end with a backslash, "
            "because such a value cannot be passed to a container."
        )
    return f"{name}='{value}'"


def _read_or_make_secret(path: Path) -> str:
    if not path.exists():
        write(path, secrets.token_hex(SECRET_BYTES) + "\n", SECRET_MODE)
    return path.read_text().strip()
