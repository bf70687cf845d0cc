from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of the scripts whose machine is made of stand-in commands, each of which records its calls."""

    path: Path

    @property
    def commands(self) -> Path:
        return self.path / "commands"

    def command(self, name: str, body: str = "exit 0") -> None:
        stand_in = self.commands / name
        stand_in.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.path}/calls"\n{body}\n')
        stand_in.chmod(0o755)

    def calls(self) -> list[str]:
        record = self.path / "calls"
        return record.read_text().splitlines() if record.exists() else []

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        plain = {"PATH": f"{self.commands}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.path)}
        return subprocess.run(
            command, cwd=self.path, env=plain | environment, capture_output=True, text=True, timeout=60
        )

    def bash(self, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("bash", "-euo", "pipefail", "-c", f". scripts/lib.sh; {text}", **environment)


def unprivileged(tree: Tree) -> None:
    tree.command("id", 'if [ "$1" = -u ]; then echo 1000; else echo somebody; fi')
