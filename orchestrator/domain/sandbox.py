"""What the service asks of a sandbox, in words that no engine owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.domain.execution import Limits, Recipe


class Kind(StrEnum):
    SANDBOX = "sandbox"
    SLOT = "slot"


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    recipe: Recipe
    limits: Limits
    execution_id: str
    lifetime_seconds: float
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    code: str
    limits: Limits
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnedContainer:
    """A labelled container of this installation, from this start of the daemon or an earlier one."""

    id: str
    kind: Kind
    of_this_epoch: bool
    lifetime_seconds: float | None = None  # a slot has no end of its own
    tampered: bool = False


@dataclass(frozen=True, slots=True)
class EngineDescription:
    version: str
    api_version: str
    cgroup_version: str
    storage_driver: str
    runtimes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolSize:
    floor: int
    ceiling: int
    memory_bytes: int
    max_age_seconds: float
