"""What narrows a skill's program further than its caller's role: it may call only the tools that the skill declares.

While a skill is proven, its calls are recorded, or answered from a recording instead of by a server.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.domain.errors import LimitExceeded, OrchestratorError, ToolDenied, ToolUnavailable, fault_of
from orchestrator.domain.upstream import CallResult

LARGEST_RECORDING_BYTES = 1024 * 1024  # of all examples of a skill
LARGEST_ARGUMENTS_BYTES = 256 * 1024  # of a call that is recorded, replayed, or runs a skill: these are decoded
MOST_NAMED = 5  # of the calls that a proof fails for
NAMED_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call and what came of it: a result, or the code and the message of an error."""

    path: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any] | None = None
    error: tuple[str, str] | None = None

    def as_document(self) -> dict[str, Any]:
        return {"path": self.path, "arguments": self.arguments, "result": self.result, "error": self.error}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> RecordedCall:
        error = document.get("error")
        return cls(document["path"], document["arguments"], document.get("result"), tuple(error) if error else None)


class Recording:
    """Keeps what every call was asked and answered, as plain values."""

    def __init__(self, bytes_left: int = LARGEST_RECORDING_BYTES) -> None:
        self.calls: list[RecordedCall] = []
        self.bytes_left = bytes_left

    @property
    def overflowed(self) -> bool:
        return self.bytes_left < 0

    def has_room(self, size: int) -> bool:
        """Take so many bytes, if there are as many; what is too large must not even be decoded."""
        self.bytes_left = self.bytes_left - size if not self.overflowed else -1
        return not self.overflowed

    def note(
        self, path: str, arguments: Mapping[str, Any], result: CallResult | None, error: OrchestratorError | None
    ) -> None:
        """Keep a call for which there was room."""
        failure = (error.code, error.message) if error is not None else None
        asked, answered = (json.dumps(dict(each) if each is not None else None) for each in (arguments, result))
        # Read again from its text: nobody changes it afterwards, and it is what a replay gets.
        self.calls.append(RecordedCall(path, json.loads(asked), json.loads(answered), failure))


class Replay:
    """Answers calls from a recording, each recorded call once; calls that are alike are answered in their order."""

    def __init__(self, calls: tuple[RecordedCall, ...]) -> None:
        self._waiting: dict[bytes, deque[RecordedCall]] = {}
        for call in calls:
            self._waiting.setdefault(_key(call.path, call.arguments), deque()).append(call)
        self.unknown: list[str] = []  # calls that the recording does not have

    def answer(self, path: str, arguments: Mapping[str, Any]) -> CallResult:
        waiting = self._waiting.get(_key(path, arguments))
        if not waiting:
            if len(self.unknown) < MOST_NAMED:
                self.unknown.append(path)
            raise ToolUnavailable(f"The recording has no call of {path} with these arguments.")
        call = waiting.popleft()
        if call.error is not None:
            raise fault_of(*call.error)
        return call.result or {}

    @property
    def left(self) -> list[str]:
        """Name what was recorded and not asked for."""
        return sorted(call.path for calls in self._waiting.values() for call in calls)


def _key(path: str, arguments: Mapping[str, Any]) -> bytes:
    return json.dumps([path, dict(arguments)], sort_keys=True).encode()  # with what no other encoding has


@dataclass(slots=True, eq=False)
class Scope:
    """What narrows an execution to a skill."""

    tools: frozenset[str]  # paths
    chain: tuple[str, ...]  # the skills around it, the outermost first
    returns: bool = False  # whether its result is handed back instead of printed
    recording: Recording | None = None
    replay: Replay | None = None
    of_approved: bool = False  # whether the skill is approved: then it uses only what is, whatever its caller saved
    is_nested: bool = False  # in a sandbox of its own, within that of another program
    refused: list[str] = field(default_factory=list)  # what it called without having declared it
    returned: Any = None
    left: Mapping[str, str] = field(default_factory=dict)  # files for the program that called it, as base64 by path
    has_returned: bool = False

    def note_refused(self, paths: Sequence[str]) -> None:
        """Note what a skill that this one called was refused."""
        self.refused += [path for path in paths if path not in self.refused][: MOST_NAMED - len(self.refused)]

    def note(self, path: str) -> None:
        """Note a call that the skill does not declare, also if it is refused for another reason first."""
        told = path[:NAMED_CHARACTERS]
        if path not in self.tools and told not in self.refused and len(self.refused) < MOST_NAMED:
            self.refused.append(told)

    def require(self, path: str, request_bytes: int = 0) -> None:
        """Refuse a call that the skill does not declare, or that is too large to be recorded."""
        if path not in self.tools:
            self.note(path)
            raise ToolDenied(f"The skill {self.chain[-1]} does not declare {path[:NAMED_CHARACTERS]}.")
        if (self.recording is not None or self.replay is not None) and request_bytes > LARGEST_ARGUMENTS_BYTES:
            raise LimitExceeded(
                f"A call of a skill that is being proven must have at most {LARGEST_ARGUMENTS_BYTES} bytes."
            )

    def require_result(self, size: int) -> None:
        """Refuse a result that nobody waits for; that of a proof is recorded, and takes room there."""
        self._require_awaited()
        if self.recording is not None and not self.recording.has_room(size):
            raise LimitExceeded(
                f"The calls and results of a proof take at most {LARGEST_RECORDING_BYTES} bytes: use less data."
            )

    def hand_back(self, value: Any, left: Mapping[str, str] | None = None) -> None:
        self._require_awaited()
        self.returned, self.left, self.has_returned = value, left or {}, True

    def _require_awaited(self) -> None:
        if not self.returns or self.has_returned:
            raise LimitExceeded("A result is handed back once, by a skill that was called.")


@dataclass(frozen=True, slots=True)
class SkillRun:
    """What an execution that runs a skill has besides its program."""

    label: str  # NAME@VERSION
    scope: Scope
    brought: Mapping[str, str] = field(default_factory=dict)  # its code, and what that may import
    prepared: Mapping[str, str] | None = None  # all files that its sandbox has, instead of those of every sandbox
    max_output_bytes: int | None = None  # instead of what programs may print
    is_proof: bool = False  # asked for by the daemon, with times of its own
