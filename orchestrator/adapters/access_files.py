"""Roles from roles.json, key hashes from the files beside the keys; read anew when they change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import structlog
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from orchestrator.domain.access import AccessBook, KeyHash, Role

log = structlog.get_logger()

Fingerprint = tuple[tuple[str, int, int, int], ...]  # name, inode, time of change and size of each file

HASH_SUFFIX = ".sha256"
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ToolPattern = Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^/\s]+$")]
Room = Annotated[str, StringConstraints(pattern=r"^(\*|[!#][^\s\x00-\x1f]{1,254})$")]
ServerName = Annotated[str, StringConstraints(pattern=r"^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$")]


class RolesFileInvalid(Exception):
    """The message names the file, the line where it can be told, and what is wrong."""


class ToolRules(BaseModel):
    model_config = ConfigDict(extra="forbid")

    allow: list[ToolPattern] = Field(default_factory=list)
    deny: list[ToolPattern] = Field(default_factory=list)


class RoleLimits(BaseModel):
    model_config = ConfigDict(extra="forbid")

    timeout_seconds: float | None = Field(None, alias="timeoutSeconds", gt=0, le=300)
    max_tool_calls: int | None = Field(None, alias="maxToolCalls", ge=0)


class RoleEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    servers: list[ServerName]
    tools: ToolRules = Field(default_factory=ToolRules)
    limits: RoleLimits = Field(default_factory=RoleLimits)
    sees_all_executions: bool = Field(False, alias="seesAllExecutions")
    chat_rooms: list[Room] = Field(default_factory=list, alias="chatRooms")
    keys: list[Name] = Field(default_factory=list)


class RolesDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    roles: dict[Name, RoleEntry] = Field(min_length=1)


class AccessFiles:
    """Keeps the last valid book when a file becomes invalid."""

    def __init__(self, roles_file: Path, keys_dir: Path) -> None:
        self._roles_file = roles_file
        self._keys_dir = keys_dir
        self._complained: tuple[Fingerprint, str] | None = None
        self._seen = self._fingerprint()
        self.book = read_book(roles_file, keys_dir)

    def refresh(self) -> None:
        """Read the files again if they changed; an invalid file changes nothing."""
        fingerprint = self._fingerprint()
        if fingerprint == self._seen:
            return
        try:
            self.book = read_book(self._roles_file, self._keys_dir)
        except (RolesFileInvalid, OSError, ValueError) as error:
            # Said once for each state of the files; they are read again all the same, as a disk may have failed.
            if self._complained != (fingerprint, str(error)):
                log.error("access.kept_old", error=str(error))
            self._complained = fingerprint, str(error)
        else:
            self._seen = fingerprint
            log.info("access.reloaded", roles=sorted(self.book.roles), keys=len(self.book.key_hashes))

    def _fingerprint(self) -> Fingerprint:
        found: list[tuple[str, int, int, int]] = []
        for file in (self._roles_file, *_hash_files(self._keys_dir)):
            try:
                status = file.stat()
            except OSError:
                found.append((file.name, 0, 0, 0))
            else:
                found.append((file.name, status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)


def read_book(roles_file: Path, keys_dir: Path) -> AccessBook:
    roles: dict[str, Role] = {}
    owners: dict[str, str] = {}
    for name, entry in read_roles(roles_file).roles.items():
        roles[name] = Role(
            name,
            frozenset(entry.servers),
            allowed_tools=tuple(entry.tools.allow),
            denied_tools=tuple(entry.tools.deny),
            sees_all_executions=entry.sees_all_executions,
            max_timeout_seconds=entry.limits.timeout_seconds,
            max_tool_calls=entry.limits.max_tool_calls,
            chat_rooms=frozenset(entry.chat_rooms),
        )
        for key in entry.keys:
            if key in owners:
                where = f"{roles_file}, line {_line_of(roles_file, key)}"
                raise RolesFileInvalid(f"{where}: key {key} belongs to {owners[key]} and to {name}.")
            owners[key] = name
    hashes = []
    for file in _hash_files(keys_dir):
        digest = file.read_text().strip()
        if len(digest) == 64 and set(digest) <= set("0123456789abcdef"):
            hashes.append(KeyHash(file.name.removesuffix(HASH_SUFFIX), digest))
        else:
            log.error("access.hash_ignored", file=file.name, reason="not 64 hexadecimal digits")
    return AccessBook(roles, owners, tuple(hashes))


def read_roles(roles_file: Path) -> RolesDocument:
    try:
        return RolesDocument.model_validate(json.loads(roles_file.read_text()))
    except OSError as error:
        raise RolesFileInvalid(f"{roles_file} cannot be read ({error.strerror}).") from error
    except json.JSONDecodeError as error:
        raise RolesFileInvalid(f"{roles_file}, line {error.lineno}: {error.msg}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        line = _line_of(roles_file, str(first["loc"][-1])) if first["loc"] else 1
        raise RolesFileInvalid(f"{roles_file}, line {line}: {path}: {first['msg']}.") from error


def _hash_files(keys_dir: Path) -> list[Path]:
    return sorted(keys_dir.glob(f"*{HASH_SUFFIX}"))


def _line_of(file: Path, word: str) -> int:
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if f'"{word}"' in line:
            return number
    return 1
