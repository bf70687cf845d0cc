"""Takes up changes of servers.json and servers.d while the daemon runs.

An invalid servers.json leaves everything as it was; an invalid file of servers.d costs its own server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import structlog

from orchestrator.domain.configuration import FileInForce
from orchestrator.upstreams.servers_directory import Version as FileVersion
from orchestrator.upstreams.servers_directory import read_all_servers, versions_in
from orchestrator.upstreams.servers_file import ServersFileInvalid
from orchestrator.upstreams.upstreams import Upstreams

log = structlog.get_logger()

Version = tuple[tuple[int, int, int] | None, tuple[FileVersion, ...]]


class WatchedServersFile:
    def __init__(
        self, path: Path, variables: Mapping[str, str], upstreams: Upstreams, directory: Path | None = None
    ) -> None:
        self._path = path
        self._directory = directory
        self._variables = variables
        self._upstreams = upstreams
        self._seen = self._version()
        self.in_force = FileInForce(self._sha256())

    async def take_up_changes(self) -> None:
        """Reconfigure the upstreams if a file has changed since they were last looked at."""
        version = self._version()
        if version == self._seen:
            return
        self._seen = version
        digest = self._sha256()
        try:
            entries = read_all_servers(self._path, self._directory, self._variables)
        except ServersFileInvalid as error:
            log.error("servers.kept_old", error=str(error))
            self.in_force = replace(self.in_force, problem=str(error))
            return
        await self._upstreams.reconfigure(entries)
        self.in_force = FileInForce(digest)
        log.info("servers.reloaded", servers=len(entries))

    def _sha256(self) -> str | None:
        try:
            return sha256(self._path.read_bytes()).hexdigest()
        except OSError:
            return None

    def _version(self) -> Version:
        try:
            status = self._path.stat()
            main = (status.st_ino, status.st_mtime_ns, status.st_size)
        except OSError:
            main = None
        return main, versions_in(self._directory)
