"""A complete installation in a directory: keys, roles and data of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from orchestrator.commands import keys
from orchestrator.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installation:
    settings: Settings
    keys: dict[str, str]  # by role

    @classmethod
    def create(cls, directory: Path, **overrides: Any) -> Self:
        chosen = {
            "port": 0,
            "data_dir": directory / "data",
            "roles_file": PROJECT / "roles.json",
            "secrets_dir": directory / "secrets",
            "keys_dir": directory / "secrets" / "hashes",
            "servers_dir": directory / "servers.d",
            **overrides,
        }
        files = keys.key_files(chosen["roles_file"], chosen["secrets_dir"])
        keys.ensure(files)
        return cls(Settings(**chosen), {file.role: file.read() for file in files})

    @property
    def owner(self) -> str:
        """The id that its daemon puts on containers; there is none before its first start."""
        return self.settings.instance_file.read_text().strip()

    @property
    def was_started(self) -> bool:
        return self.settings.instance_file.exists()
