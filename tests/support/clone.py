"""A directory in which make was run, beside any other on this engine.

It is a copy of the scripts, so that nothing of this clone is touched; the images are those of this clone.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from bench.testbed.installation import PROJECT

IMAGE = "mcp-code-executor/orchestrator:latest"
DATA = "/var/lib/code-executor"
PARTS = ("deploy", "scripts", "orchestrator/journals/migrations")


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@dataclass(frozen=True, slots=True)
class Clone:
    """A directory in which make was run, under names of its own."""

    path: Path
    prefix: str
    address: str
    variables: Mapping[str, str] = field(default_factory=dict)  # for every command

    @property
    def environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("CODE_EXECUTOR_")}
        return ours | {
            "STACK_PREFIX": self.prefix,
            "CODE_EXECUTOR_PUBLISH": self.address,
            "CODE_EXECUTOR_SECRETS_DIR": str(self.path / "secrets"),
            "CODE_EXECUTOR_ROLES_FILE": str(self.path / "roles.json"),
            "HOME": str(self.path),
            **self.variables,
        }

    @property
    def key(self) -> str:
        return (self.path / "secrets" / "code-executor-admin.key").read_text().strip()

    @property
    def daemon(self) -> str:
        return f"{self.prefix}mcp-code-executor"

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.path, env=self.environment | more, capture_output=True, text=True, timeout=150
        )

    def do(self, *command: str, **more: str) -> str:
        ended = self.run(*command, **more)
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def seed(self, file: Path, name: str) -> None:
        """Put a file into the volume, as the daemon's user, whose it is to be."""
        write = f"import sys; open('{DATA}/{name}', 'wb').write(sys.stdin.buffer.read())"
        volume = f"{self.daemon}-data:{DATA}"
        inside = ("docker", "run", "--rm", "-i", "-v", volume, "--entrypoint", "/usr/bin/python3", IMAGE, "-ISc", write)
        subprocess.run(inside, input=file.read_bytes(), env=self.environment, check=True, timeout=60)


@contextmanager
def cloned(path: Path, *profiles: str, **variables: str) -> Iterator[Clone]:
    """Prepare a directory as `make stack` does, without the default servers; afterwards nothing of it is left."""
    path.chmod(0o755)
    for part in PARTS:
        shutil.copytree(PROJECT / part, path / part)
    for file in ("compose.yaml", "roles.json"):
        shutil.copy(PROJECT / file, path / file)
    (path / ".venv").symlink_to(PROJECT / ".venv")
    (path / ".build" / "stack" / "daemon").mkdir(parents=True)
    made = Clone(path, f"t{token_hex(4)}-", free_address(), variables)
    try:
        made.do(".venv/bin/python", "-m", "deploy.stack", "write", *profiles)  # without any, no network of theirs
        services = made.do(".venv/bin/python", "-m", "deploy.stack", "services", *profiles)
        (path / ".build" / "stack" / "services").write_text(services)
        (path / ".build" / "stack" / "compose.env").touch()
        yield made
    finally:
        made.run("scripts/down.sh")
        volumes = made.do("docker", "volume", "ls", "--quiet", "--filter", f"name=^{made.prefix}").split()
        subprocess.run(("docker", "volume", "rm", "--force", *volumes), capture_output=True)
        left = made.do("docker", "ps", "--all", "--quiet", "--filter", f"name={made.prefix}")
        assert left == ""
