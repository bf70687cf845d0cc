"""A complete installation in a temporary directory: keys, roles, data, and a daemon of its own on the real engine."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.commands import keys
from orchestrator.daemon import running_daemon
from orchestrator.settings import Settings
from tests.support.api import Api, until
from tests.support.engine import remove_network

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installation:
    settings: Settings
    keys: dict[str, str]

    @classmethod
    def create(cls, directory: Path, **overrides: Any) -> Installation:
        files = keys.key_files(PROJECT / "roles.json", directory / "secrets")
        keys.ensure(files)
        chosen = {
            "port": 0,
            "data_dir": directory / "data",
            "secrets_dir": directory / "secrets",
            "keys_dir": directory / "secrets" / "hashes",
            "network": f"mcp-net-test-{secrets.token_hex(4)}",
            "check_seconds": 0.5,
            "shutdown_grace_seconds": 1,
            **overrides,
        }
        return cls(Settings(**chosen), {file.role: file.read() for file in files})

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Api]:
        """A daemon that is ready; afterwards nothing of it is left on the engine but the network, which goes too."""
        try:
            async with (
                running_daemon(self.settings) as daemon,
                Api.connect(f"http://127.0.0.1:{daemon.port}", self.keys["admin"]) as api,
            ):
                await until(lambda: daemon.readiness.ready, seconds=30)
                yield api
        finally:
            remove_network(self.settings.network)
