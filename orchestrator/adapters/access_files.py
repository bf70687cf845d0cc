"""Roles from roles.json, key hashes from the files beside the keys; each is taken up on its own when it changes.

A role file with a mistake leaves the roles as they were. A key is different: what cannot be read is refused.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import structlog
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from orchestrator.domain.access import AccessBook, KeyHash, Role
from orchestrator.domain.configuration import FileInForce
from orchestrator.domain.execution import LONGEST_SECONDS

log = structlog.get_logger()

Fingerprint = tuple[int, int, int] | None  # inode, time of change and size; None for a file that is not there

HASH_SUFFIX = ".sha256"
MAX_HASH_BYTES = 128
MAX_ROLES_BYTES = 1024 * 1024
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ToolPattern = Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^/\s]+$")]
Room = Annotated[str, StringConstraints(pattern=r"^(\*|[!#][^\s\x00-\x1f]{1,254})$")]
WorkspacePattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9*?._-]{1,64}$")]
ServerName = Annotated[str, StringConstraints(pattern=r"^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$")]


class RolesFileInvalid(Exception):
    """The message names the file, the line where it can be told, and what is wrong."""


class ToolRules(BaseModel):
    model_config = ConfigDict(extra="forbid")

    allow: list[ToolPattern] = Field(default_factory=list)
    deny: list[ToolPattern] = Field(default_factory=list)


class RoleLimits(BaseModel):
    model_config = ConfigDict(extra="forbid")

    timeout_seconds: float | None = Field(None, alias="timeoutSeconds", gt=0, le=LONGEST_SECONDS)
    max_tool_calls: int | None = Field(None, alias="maxToolCalls", ge=0)


class RoleEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    servers: list[ServerName]
    tools: ToolRules = Field(default_factory=ToolRules)
    limits: RoleLimits = Field(default_factory=RoleLimits)
    sees_all_executions: bool = Field(False, alias="seesAllExecutions")
    chat_rooms: list[Room] = Field(default_factory=list, alias="chatRooms")
    shared_workspaces: list[WorkspacePattern] = Field(default_factory=list, alias="sharedWorkspaces")
    approves_skills: bool = Field(False, alias="approvesSkills")
    keys: list[Name] = Field(default_factory=list)


class RolesDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    roles: dict[Name, RoleEntry] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class RoleBook:
    """The roles, and which of them each key has."""

    roles: Mapping[str, Role]
    role_of_key: Mapping[str, str]
    sha256: str = ""  # of the text that they were read from


@dataclass(frozen=True, slots=True)
class HashFiles:
    """The hashes that could be read, and what could not be, with the reason; its keys are refused."""

    hashes: tuple[KeyHash, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


class AccessFiles:
    """Keeps the last valid roles when their file becomes invalid, but never a key whose hash is gone."""

    def __init__(self, roles_file: Path, keys_dir: Path) -> None:
        self._roles_file = roles_file
        self._keys_dir = keys_dir
        self._complained: tuple[Fingerprint, str] | None = None
        self._seen = _fingerprint(roles_file)
        self._roles = read_role_book(roles_file)
        self._hashes = HashFiles()
        self._take_up_hashes()
        self.book = self._as_book()

    @property
    def roles_in_force(self) -> FileInForce:
        return FileInForce(self._roles.sha256, self._complained[1] if self._complained else None)

    def refresh(self) -> None:
        """Take up what changed."""
        before = self.book
        self._take_up_hashes()  # whatever is the matter with the roles
        self._take_up_roles()
        now = self._as_book()
        if now != before:
            self.book = now
            log.info("access.reloaded", roles=sorted(now.roles), keys=len(now.key_hashes))

    def _as_book(self) -> AccessBook:
        return AccessBook(self._roles.roles, self._roles.role_of_key, self._hashes.hashes)

    def _take_up_hashes(self) -> None:
        # Every time: a few short files, and no time stamp tells that somebody took away the right to read one.
        found = read_hashes(self._keys_dir)
        for name, reason in found.refused:
            if (name, reason) not in self._hashes.refused:
                log.error("access.hash_refused", file=name, reason=reason)
        self._hashes = found

    def _take_up_roles(self) -> None:
        fingerprint = _fingerprint(self._roles_file)
        if fingerprint == self._seen:
            self._complained = None  # what was wrong is undone
            return
        try:
            self._roles = read_role_book(self._roles_file)
        except (RolesFileInvalid, OSError) as error:
            # Said once for each state of the file; it is read again all the same, as a disk may have failed.
            if self._complained != (fingerprint, str(error)):
                log.error("access.kept_old_roles", error=str(error))
            self._complained = fingerprint, str(error)
        else:
            self._seen = fingerprint
            self._complained = None


def wait_for_roles(roles_file: Path, seconds: float) -> None:
    """Give `roles_copy` time to make the first copy of the file; without one, whoever reads it says what is missing."""
    give_up = time.monotonic() + seconds
    while not roles_file.exists() and time.monotonic() < give_up:
        time.sleep(0.1)


def read_book(roles_file: Path, keys_dir: Path) -> AccessBook:
    roles = read_role_book(roles_file)
    return AccessBook(roles.roles, roles.role_of_key, read_hashes(keys_dir).hashes)


def read_role_book(roles_file: Path) -> RoleBook:
    text, document = _read_document(roles_file)
    return role_book_of(document, roles_file, text)


def role_book_of(document: RolesDocument, roles_file: Path, text: str) -> RoleBook:
    """Return the roles that a document describes; the file and its text are for the message about a mistake."""
    roles: dict[str, Role] = {}
    owners: dict[str, str] = {}
    for name, entry in document.roles.items():
        roles[name] = Role(
            name,
            frozenset(entry.servers),
            allowed_tools=tuple(entry.tools.allow),
            denied_tools=tuple(entry.tools.deny),
            sees_all_executions=entry.sees_all_executions,
            max_timeout_seconds=entry.limits.timeout_seconds,
            max_tool_calls=entry.limits.max_tool_calls,
            chat_rooms=frozenset(entry.chat_rooms),
            shared_workspaces=tuple(entry.shared_workspaces),
            approves_skills=entry.approves_skills,
        )
        for key in entry.keys:
            if key in owners:
                where = f"{roles_file}, line {_line_of(text, key)}"
                raise RolesFileInvalid(f"{where}: key {key} belongs to {owners[key]} and to {name}.")
            owners[key] = name
    return RoleBook(roles, owners, sha256(text.encode()).hexdigest())


def read_roles(roles_file: Path) -> RolesDocument:
    return _read_document(roles_file)[1]


def _read_document(roles_file: Path) -> tuple[str, RolesDocument]:
    text = ""
    try:
        text = _text_of(roles_file, MAX_ROLES_BYTES)
        return text, RolesDocument.model_validate(json.loads(text))
    except OSError as error:
        raise RolesFileInvalid(f"{roles_file} cannot be read ({error.strerror or error}).") from error
    except json.JSONDecodeError as error:
        raise RolesFileInvalid(f"{roles_file}, line {error.lineno}: {error.msg}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        line = _line_of(text, str(first["loc"][-1])) if first["loc"] else 1
        raise RolesFileInvalid(f"{roles_file}, line {line}: {path}: {first['msg']}.") from error
    except (ValueError, RecursionError) as error:
        raise RolesFileInvalid(f"{roles_file} must be JSON in UTF-8: {error}.") from error


def read_hashes(keys_dir: Path) -> HashFiles:
    """Read every hash on its own, so that one that cannot be read takes no other key along."""
    try:
        names = sorted(name for name in os.listdir(keys_dir) if name.endswith(HASH_SUFFIX))
    except OSError as error:
        return HashFiles(refused=((str(keys_dir), f"cannot be listed ({error.strerror}): every key is refused"),))
    hashes: list[KeyHash] = []
    refused: list[tuple[str, str]] = []
    for name in names:
        try:
            digest = _text_of(keys_dir / name, MAX_HASH_BYTES).strip()
        except FileNotFoundError:
            continue  # it was removed a moment ago
        except (OSError, ValueError) as error:
            refused.append((name, f"cannot be read ({getattr(error, 'strerror', None) or error})"))
            continue
        if len(digest) == 64 and set(digest) <= set("0123456789abcdef"):
            hashes.append(KeyHash(name.removesuffix(HASH_SUFFIX), digest))
        else:
            refused.append((name, "must hold 64 hexadecimal digits"))
    return HashFiles(tuple(hashes), tuple(refused))


def _text_of(file: Path, max_bytes: int) -> str:
    """Read a small file; whatever else has its name, such as a pipe without a writer, neither blocks nor fills us."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        content = b""
        while len(content) <= max_bytes and (piece := os.read(descriptor, max_bytes + 1 - len(content))):
            content += piece
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise OSError(f"it has more than {max_bytes} bytes")
    return content.decode()


def _fingerprint(file: Path) -> Fingerprint:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _line_of(text: str, word: str) -> int:
    for number, line in enumerate(text.splitlines(), start=1):
        if f'"{word}"' in line:
            return number
    return 1
