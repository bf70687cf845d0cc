"""What the running daemon holds, compared with the files here: they may be another directory's, or not taken up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from orchestrator.adapters.access_files import (
    RoleBook,
    RoleEntry,
    RolesDocument,
    RolesFileInvalid,
    read_role_book,
    read_roles,
    role_book_of,
)
from orchestrator.commands import keys
from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.settings import PROJECT, Settings
from orchestrator.settings_in_effect import SettingInEffect, in_effect

PATIENCE_SECONDS = 5


class NotTold(Exception):
    """The daemon does not say what it holds; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class OtherValue:
    """A setting that has one value here and another in the daemon."""

    here: SettingInEffect
    in_daemon: Any

    def __str__(self) -> str:
        return f"{self.here.name} is {_short(self.in_daemon)} there and {_short(self.here.value)} here"


@dataclass(frozen=True, slots=True)
class Held:
    version: str
    started_in: str | None
    settings: Mapping[str, Any]
    roles: RoleBook
    roles_problem: str | None
    servers: tuple[str, ...]
    servers_sha256: str | None
    servers_problem: str | None

    @classmethod
    def of(cls, answer: Mapping[str, Any], url: str) -> Held:
        entries = {"roles": {name: _as_in_the_file(role) for name, role in answer["roles"].items()}}
        return cls(
            version=answer["version"],
            started_in=answer["startedIn"],
            settings={name: each["value"] for name, each in answer["settings"].items()},
            roles=role_book_of(RolesDocument.model_validate(entries), Path(url), json.dumps(entries)),
            roles_problem=answer["rolesFile"]["problem"],
            servers=tuple(answer["servers"]),
            servers_sha256=answer["serversFile"]["sha256"],
            servers_problem=answer["serversFile"]["problem"],
        )

    @property
    def is_of_another_directory(self) -> bool:
        return self.started_in is not None and Path(self.started_in).resolve() != PROJECT

    def other_values(self, settings: Settings) -> list[OtherValue]:
        """Return what make would tell the daemon otherwise today; a setting that it does not know yet is left out."""
        return [
            OtherValue(here, self.settings[here.field])
            for here in in_effect(settings)
            if not here.is_of_one_side and here.field in self.settings and self.settings[here.field] != here.value
        ]

    def other_roles(self, roles_file: Path) -> str | None:
        """Say how the roles in force differ from those of a file; None if they do not."""
        try:
            here = read_role_book(roles_file)
        except RolesFileInvalid as error:
            return f"the daemon keeps older roles, because of a mistake: {error}"
        told = list(_differences(here, self.roles))
        if not told:
            return None
        return "; ".join(told) + (f" (it says: {self.roles_problem})" if self.roles_problem else "")

    def other_servers(self, settings: Settings) -> str | None:
        """Say how the servers in force differ from those of the file that make gives the daemon; None if not."""
        if self.servers_problem:
            return f"the daemon keeps older servers, because of a mistake: {self.servers_problem}"
        file = servers_file_of_make(settings)
        here = sha256(file.read_bytes()).hexdigest() if file.is_file() else None
        return None if here == self.servers_sha256 else f"{file} is not what the daemon took up"


async def ask(settings: Settings) -> Held:
    """Ask the daemon, or raise NotTold."""
    key = _key(settings)
    if key is None:
        raise NotTold(f"the daemon was not asked, because no key in {settings.secrets_dir} can be read")
    try:
        answer = await ApiClient(settings.url, key).get("/config", seconds=PATIENCE_SECONDS)
        return Held.of(answer, settings.url)
    except CallFailed as error:
        raise NotTold(f"the daemon was not asked: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise NotTold(f"what answers at {settings.url} does not tell its configuration; it may be older") from error


def servers_file_of_make(settings: Settings) -> Path:
    given = "servers_file" in settings.model_fields_set
    return settings.servers_file if given else PROJECT / ".build" / "stack" / "daemon" / "servers.json"


def _key(settings: Settings) -> str | None:
    if settings.key is not None:
        return settings.key.get_secret_value()
    for file in _key_files(settings):
        with suppress(OSError):
            return file.read_text().strip()
    return None


def _key_files(settings: Settings) -> list[Path]:
    """Return the key files, those of roles that may ask first; with a mistake in the role file, all that there are."""
    try:
        roles = read_roles(settings.roles_file).roles
        files = keys.key_files(settings.roles_file, settings.secrets_dir)
    except RolesFileInvalid:
        return sorted(settings.secrets_dir.glob("*.key"))
    return [file.path for file in sorted(files, key=lambda file: not roles[file.role].sees_all_executions)]


def _as_in_the_file(role: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.alias or name for name, field in RoleEntry.model_fields.items()}
    return {name: value for name, value in role.items() if name in known}  # a newer daemon may tell more


def _differences(here: RoleBook, there: RoleBook) -> Iterator[str]:
    for name in sorted(here.roles.keys() - there.roles.keys()):
        yield f"the role {name} is here only"
    for name in sorted(there.roles.keys() - here.roles.keys()):
        yield f"the role {name} is in the daemon only"
    for name in sorted(here.roles.keys() & there.roles.keys()):
        if here.roles[name] != there.roles[name]:
            yield f"the role {name} differs"
    moved = {key for key, _ in here.role_of_key.items() ^ there.role_of_key.items()}
    for key in sorted(moved):
        yield f"the key {key} has the role {here.role_of_key.get(key)} here and {there.role_of_key.get(key)} there"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
