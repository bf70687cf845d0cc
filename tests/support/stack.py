"""A second stack of MCP servers beside any that runs here: other names, other secrets, other volumes."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROJECT = Path(__file__).resolve().parents[2]
ADDRESS_SECONDS = 60  # until a container that starts again has one
SOURCES = PROJECT / "deploy" / "stack"
# What is mounted from the settings, beside what deploy.stack writes there.
STARTED_BY_A_SCRIPT = {
    "mcp-postgres": ("postgres/start.sh", "postgres/sample.sql"),
    "mcp-timescale": ("postgres/start.sh", "timescale/sample.sql"),
}


def run(*command: str, **environment: str) -> str:
    ended = subprocess.run(command, cwd=PROJECT, env=os.environ | environment, capture_output=True, text=True)
    assert ended.returncode == 0, f"{command}: {ended.stderr}"
    return ended.stdout


def compose_command() -> list[str]:
    plugin = subprocess.run(("docker", "compose", "version"), capture_output=True)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


def address_of(container: str) -> str:
    """Empty while the container does not run."""
    addresses = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
    return (run("docker", "inspect", "--format", addresses, container).split() or [""])[0]


def logs_of(container: str) -> str:
    ended = subprocess.run(("docker", "logs", container), capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def direct() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def urls_in(servers_file: Path) -> dict[str, str]:
    document = json.loads(servers_file.read_text())
    proxy = document.get("proxy", {"servers": ()})
    behind = {name: proxy["url"] + proxy["path"].format(server=name) for name in proxy["servers"]}
    return behind | {name: entry["url"] for name, entry in document["mcpServers"].items()}


def settings_in(directory: Path, kind: str, servers: Sequence[str], **given: str) -> dict[str, str]:
    """Write the settings of the servers below the directory and return the secrets that were made for them."""
    given = {"CODE_EXECUTOR_SECRETS_DIR": str(directory / "secrets"), **given}
    command = (sys.executable, "-m", "deploy.stack", "--root", str(directory))
    run(*command, "write", "--proxy", kind, *servers, **given)
    for service, files in STARTED_BY_A_SCRIPT.items():
        start = directory / ".build" / "stack" / service
        start.mkdir(exist_ok=True)
        for file in files:
            shutil.copy(SOURCES / file, start)
    made = run(*command, "secrets", **given).splitlines()
    return dict(line.split("=", 1) for line in made)


@dataclass(frozen=True, slots=True)
class OptionalServers:
    """The servers that are asked for by name, each in its container, reached at its address."""

    prefix: str
    directory: Path
    compose: tuple[str, ...]
    environment: dict[str, str]

    @property
    def settings(self) -> Path:
        return self.directory / ".build" / "stack"

    def container(self, service: str) -> str:
        return f"{self.prefix}{service}"

    def for_a_daemon_on_this_machine(self) -> dict[str, Any]:
        """Return the daemon's own file with addresses for names, which only containers can look up."""
        document = json.loads((self.settings / "daemon" / "servers.json").read_text())
        return {"mcpServers": {name: self._reachable(entry) for name, entry in document["mcpServers"].items()}}

    def _reachable(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        url = urlsplit(entry["url"])
        container = self.container(url.hostname or "")
        deadline = time.monotonic() + ADDRESS_SECONDS
        while not (found := address_of(container)) and time.monotonic() < deadline:
            time.sleep(0.1)  # it starts again, because what it needs was not ready
        address = url._replace(netloc=f"{found}:{url.port}")
        # Some answer to their own name only.
        return {**entry, "url": address.geturl(), "headers": {"Host": url.netloc}}


def touch_settings() -> None:
    """Make what the older compose reads whatever it is asked to start."""
    for settings in ("daemon.env", "launcher.env"):
        (PROJECT / ".build" / settings).touch(0o600)


@contextmanager
def running_servers(
    directory: Path, servers: Sequence[str], *, more: Sequence[Path] = (), **given: str
) -> Iterator[OptionalServers]:
    """Start the servers with what they need; `more` are further files for compose."""
    directory.chmod(0o755)
    touch_settings()
    prefix = f"test-{secrets.token_hex(4)}-"
    made = settings_in(directory, "ours", servers, **given)
    settings = directory / ".build" / "stack"
    environment = {**made, **given, "STACK_PREFIX": prefix, "STACK_DIR": str(settings)}
    files = [part for file in ("compose.yaml", settings / "networks.yaml", *more) for part in ("-f", str(file))]
    compose = (
        *compose_command(),
        *files,
        "--project-directory",
        str(PROJECT),
        "--project-name",
        prefix.rstrip("-"),
    )
    command = (sys.executable, "-m", "deploy.stack", "--root", str(directory), "services", *servers)
    services = run(*command, **given).splitlines()
    stand_ins = [service for file in more for service in json.loads(file.read_text())["services"]]
    try:
        run(*compose, "up", "-d", *dict.fromkeys((*services, *stand_ins)), **environment)
        yield OptionalServers(prefix, directory, compose, environment)
    finally:
        run(*compose, "down", "--volumes", **environment)
