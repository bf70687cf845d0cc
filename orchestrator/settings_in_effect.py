"""Which settings are in effect, where each comes from, and which names mean nothing to anybody."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo

from orchestrator.settings import PREFIX, Settings

MASK = "********"
# For scripts/mcp-wrapper.sh, scripts/extra-network.yaml and the tests; no part of the daemon reads them.
OF_OTHERS = re.compile(
    rf"{PREFIX}(ROLE|CONTAINER|ADMIN_GROUP|DEVELOPER_GROUP|EXTRA_NETWORK|TEST_\w+|NODE|TSC|TY|PACKAGES)"
)
# Addresses and paths: in the daemon's container they are others, or are for this side only. make hands it the token.
OF_ONE_SIDE = frozenset(
    (
        *("host", "port", "data_dir", "roles_file", "secrets_dir", "keys_dir", "servers_file", "servers_dir"),
        *("server_secrets_dir", "client_library", "skill_programs", "console_dir", "docker_host", "launcher_socket"),
        *("seccomp_file", "publish", "url", "key", "started_in", "metrics_token"),
    )
)


class Source(StrEnum):
    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = ".env"


@dataclass(frozen=True, slots=True)
class SettingInEffect:
    """A setting as it may be shown: what is secret is masked, and a path is text."""

    field: str
    value: Any
    source: Source

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.field.upper()}"

    @property
    def is_of_one_side(self) -> bool:
        return self.field in OF_ONE_SIDE


@dataclass(frozen=True, slots=True)
class UnknownSetting:
    name: str
    source: Source
    meant: str | None

    def __str__(self) -> str:
        where = "in .env" if self.source is Source.FILE else "in the environment"
        advice = f"did you mean {self.meant}?" if self.meant else "docs/configuration.md lists the settings."
        return f"{self.name} {where} is not a setting and has no effect; {advice}"


def in_effect(settings: Settings) -> tuple[SettingInEffect, ...]:
    return tuple(
        SettingInEffect(name, _shown(getattr(settings, name)), _source(settings, name, field))
        for name, field in Settings.model_fields.items()
    )


def unknown_settings(env_file: Path | None = None, environment: Mapping[str, str] = os.environ) -> list[UnknownSetting]:
    """Return the names with our prefix that nothing reads, each with the one that was probably meant."""
    in_file = dotenv_values(env_file) if env_file is not None and os.access(env_file, os.R_OK) else {}
    return [
        *_unknown(in_file.keys() - environment.keys(), Source.FILE),
        *_unknown(environment, Source.ENVIRONMENT),
    ]


def _unknown(names: Iterable[str], source: Source) -> list[UnknownSetting]:
    known = {name for field, about in Settings.model_fields.items() for name in _variables(field, about)}
    strange = [name for name in names if name.startswith(PREFIX) and not OF_OTHERS.fullmatch(name)]
    return [UnknownSetting(name, source, _meant(name)) for name in sorted(set(strange) - known)]


def _meant(name: str) -> str | None:
    words = name.removeprefix(PREFIX)  # else what all names share would make them all alike
    close = get_close_matches(words, [field.upper() for field in Settings.model_fields], 1, cutoff=0.7)
    return f"{PREFIX}{close[0]}" if close else None


def _variables(name: str, field: FieldInfo) -> Sequence[str]:
    alias = field.validation_alias
    return [str(each) for each in alias.choices] if isinstance(alias, AliasChoices) else [f"{PREFIX}{name.upper()}"]


def _source(settings: Settings, name: str, field: FieldInfo) -> Source:
    if name not in settings.model_fields_set:
        return Source.DEFAULT
    return Source.ENVIRONMENT if any(os.environ.get(each) for each in _variables(name, field)) else Source.FILE


def _shown(value: Any) -> Any:
    match value:
        case SecretStr():
            return MASK
        case Path():
            return str(value)
        case _:
            return value
