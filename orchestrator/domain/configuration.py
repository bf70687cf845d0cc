"""What the daemon holds of its configuration, for those who want to compare it with their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.access import AccessBook


@dataclass(frozen=True, slots=True)
class FileInForce:
    """The content that was last taken up, by its SHA-256, and what was wrong with the newer one, if there is one."""

    sha256: str | None  # None for a file that was not there
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class HeldSetting:
    value: Any  # as JSON has it; what is secret is masked
    is_given: bool


@dataclass(frozen=True, slots=True)
class HeldConfiguration:
    settings: Mapping[str, HeldSetting]
    started_in: str | None
    roles_file: FileInForce
    book: AccessBook
    servers_file: FileInForce
    servers: tuple[str, ...]
