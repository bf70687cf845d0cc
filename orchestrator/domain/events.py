"""Facts that the console, streams and the command line see alike."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.domain.execution import ExecutionRecord
from orchestrator.domain.ledger import CallRecord
from orchestrator.domain.upstream import UpstreamStatus


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the daemon is, and whether an execution would work now."""

    running: int
    waiting: int
    warm: int
    sandboxes: int
    ready: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Events were missed: whoever watches has to look at the lists again."""


# An execution that began, went on or ended; a call that began or ended; a server or the daemon as it is now.
Subject = ExecutionRecord | CallRecord | UpstreamStatus | Load | Gap


@dataclass(frozen=True, slots=True)
class Event:
    number: int
    subject: Subject
