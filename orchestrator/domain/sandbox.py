"""What the service asks of a sandbox, in words that no engine owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.domain.execution import Check, Limits, Recipe
from orchestrator.domain.files import FileLimits, Place

# A sandbox has no network, only this Unix socket; @ stands for the NUL byte that abstract names begin with. The engine
# carries what connects to it to the gateway.
GATEWAY = "@gateway"
# The folders and packages of the tools and of the skills: whoever imports one writes one of these.
TOOLS = ("servers", "skills")


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
    check: Check = Check.OFF
    # Which folders are handed over when it has ended, and how much of each.
    hands_over: Mapping[Place, FileLimits] = field(default_factory=dict)

    @property
    def is_checked(self) -> bool:
        """Tell whether it is checked: what names no tools has nothing that a check could keep it from doing."""
        return self.check is not Check.OFF and any(word in self.code for word in TOOLS)

    @property
    def may_call_at_once(self) -> bool:
        """Tell whether its tool calls need not wait for a verdict."""
        return not (self.is_checked and self.check is Check.STRICT)


@dataclass(frozen=True, slots=True)
class OwnedContainer:
    """A labelled container of this installation, from this start of the daemon or an earlier one."""

    id: str
    of_this_epoch: bool
    lifetime_seconds: float | None = None  # None when it has no end of its own
    tampered: bool = False


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what it is like, and how to mend it."""

    check: str
    verdict: Verdict
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class PoolSize:
    floor: int
    ceiling: int
    memory_bytes: int
    max_age_seconds: float
