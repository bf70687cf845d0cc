"""Takes up changes of servers.json while the daemon runs; an invalid file leaves everything as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import structlog

from orchestrator.upstreams.servers_file import ServersFileInvalid, read_servers
from orchestrator.upstreams.upstreams import Upstreams

log = structlog.get_logger()

Version = tuple[int, int, int]


class WatchedServersFile:
    def __init__(self, path: Path, variables: Mapping[str, str], upstreams: Upstreams) -> None:
        self._path = path
        self._variables = variables
        self._upstreams = upstreams
        self._seen = self._version()

    async def take_up_changes(self) -> None:
        """Reconfigure the upstreams if the file has changed since it was last looked at."""
        version = self._version()
        if version == self._seen:
            return
        self._seen = version
        try:
            entries = read_servers(self._path, self._variables)
        except ServersFileInvalid as error:
            log.error("servers.kept_old", error=str(error))
            return
        await self._upstreams.reconfigure(entries)
        log.info("servers.reloaded", servers=len(entries))

    def _version(self) -> Version | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size
