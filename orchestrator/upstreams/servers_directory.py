"""servers.d: files of one server each, read beside servers.json. One that is wrong costs its own server alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import structlog

from orchestrator.upstreams.entries import ServerEntry, UnusableServer
from orchestrator.upstreams.servers_file import ServersFileInvalid, read_servers

log = structlog.get_logger()

MAX_FILE_BYTES = 256 * 1024

Version = tuple[str, int, int, int]


def files_in(directory: Path | None) -> list[Path]:
    """Return the files in the order of their names; what is hidden or no plain file, a pipe say, is none of them."""
    if directory is None:
        return []
    try:
        found = sorted(directory.glob("*.json"))
    except OSError:
        return []
    return [file for file in found if not file.name.startswith(".") and file.is_file()]


def versions_in(directory: Path | None) -> tuple[Version, ...]:
    """Return what is another as soon as a file is added, replaced, changed or removed."""
    versions = []
    for file in files_in(directory):
        try:
            status = file.stat()
        except OSError:
            continue
        versions.append((file.name, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(versions)


def read_all_servers(
    servers_file: Path, directory: Path | None, environment: Mapping[str, str]
) -> tuple[ServerEntry, ...]:
    """Read servers.json, which raises ServersFileInvalid if it is wrong, and then the files of the directory."""
    main = read_servers(servers_file, environment)
    taken = {entry.name: servers_file.name for entry in main}
    own: dict[str, ServerEntry] = {}
    for file in files_in(directory):
        for entry in _read_one(file, environment):
            place = taken.setdefault(entry.name, file.name)
            if place == file.name:
                own[entry.name] = entry
            elif entry.name in own:
                problem = f"both {place} and {file.name} in {file.parent.name} name it. Remove one of the two"
                own[entry.name] = UnusableServer(entry.name, problem)
            else:  # what runs already is not taken away by a file that was added
                log.error("servers_directory.name_taken", server=entry.name, file=file.name, taken_by=place)
    return (*main, *own.values())


def _read_one(file: Path, environment: Mapping[str, str]) -> tuple[ServerEntry, ...]:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ServersFileInvalid(f"{file.name} is larger than {MAX_FILE_BYTES} bytes.")
        return read_servers(file, environment, asks_for_host=True)
    except ServersFileInvalid as error:
        problem = str(error).replace(f"{file.parent}/", "", 1).rstrip(".")
        return (UnusableServer(file.stem, problem),)
    except OSError:  # it is gone again
        return ()
