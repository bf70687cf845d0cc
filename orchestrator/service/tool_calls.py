"""The one way to call a tool, for all faces: check → limits → role → scope → policies → dispatch → observe → ledger.

Whatever must hold for every call is a step here, so that nothing can go around it.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import structlog

from orchestrator.domain.access import SKILLS, Caller, Role
from orchestrator.domain.errors import (
    Category,
    GrantInvalid,
    InvalidArguments,
    JournalUnavailable,
    LimitExceeded,
    OrchestratorError,
    ToolUnavailable,
)
from orchestrator.domain.execution import GatewayLimits, RoomLimits
from orchestrator.domain.json_text import Text
from orchestrator.domain.ledger import CallOutcome
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, LargeResult, is_failure
from orchestrator.service.call_recorder import CallJournal, Recorder
from orchestrator.service.grants import Grant, Grants, WatchCalls
from orchestrator.service.ledger import LedgerEntry, Notify
from orchestrator.service.pictures import images_in
from orchestrator.service.ports import Access
from orchestrator.service.rooms import ResultRoom, Rooms
from orchestrator.service.scopes import LARGEST_ARGUMENTS_BYTES, Scope
from orchestrator.service.sessions import Sessions

log = structlog.get_logger()

# Up to here a result is read, written and held without a reservation; most have much less.
FREE_BYTES = 64 * 1024
OBSERVED_BYTES = 256 * 1024
MAX_NAME_CHARACTERS = 256
MAX_USED_SKILLS = 200

_encoder = json.JSONEncoder(allow_nan=False)

OUTCOME_OF_CATEGORY = {
    Category.UNAUTHENTICATED: CallOutcome.DENIED,
    Category.DENIED: CallOutcome.DENIED,
    Category.INVALID: CallOutcome.INVALID,
    Category.NOT_FOUND: CallOutcome.INVALID,
    Category.NOT_CONFIGURED: CallOutcome.INVALID,
    Category.LIMITED: CallOutcome.LIMITED,
    Category.REFUSED_ELSEWHERE: CallOutcome.TOOL_ERROR,
}


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that its role allows, as policies see it."""

    execution_id: str
    caller: Caller
    role: Role
    tool: Tool
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    result: CallResult
    text: Text  # the same as JSON, as it was counted


class Policy(Protocol):
    """A rule on what flows through calls. It refuses by raising ToolDenied."""

    async def before(self, call: PendingCall) -> Mapping[str, Any]:
        """Return the arguments as they may be sent; which tool is called, the role has decided."""

    async def after(self, call: PendingCall, result: CallResult) -> CallResult:
        """Return the result as it may be given out."""


class Resolver(Protocol):
    """The one place that says whether a role may call a tool."""

    def callable_tool(self, role: Role, server: str, name: str, own: Sequence[Tool] = ()) -> Tool: ...


class Skills(Protocol):
    """What calls of skills are dispatched to."""

    def own_tools(self, caller: Caller, role: Role) -> Sequence[Tool]:
        """Return the skills that a caller may call as their author, before anybody approved them."""

    async def call(self, grant: Grant, role: Role, skill: Tool, arguments: Mapping[str, Any]) -> CallResult:
        """Run a skill in a sandbox of its own, for a program that waits for its result."""

    def count_use(self, caller: Caller, role: Role, name: str, *, failed: bool) -> None:
        """Count one use of a skill that the caller may use, or its failure."""


class NoSkills:
    def own_tools(self, caller: Caller, role: Role) -> Sequence[Tool]:
        return ()

    async def call(self, grant: Grant, role: Role, skill: Tool, arguments: Mapping[str, Any]) -> CallResult:
        raise ToolUnavailable("Skills cannot be called here.")

    def count_use(self, caller: Caller, role: Role, name: str, *, failed: bool) -> None:
        return


class Dispatcher(Protocol):
    async def open_session(self, server: str, sessions: Sessions, timeout_seconds: float) -> None:
        """Return when an execution has its own session at the server, if it is one that keeps such sessions."""

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float,
        role: Role,
        room: ResultRoom,
        sessions: Sessions,
    ) -> CallResult: ...


class Observer(Protocol):
    """Learns from results, such as their shape, for the role that got them. For large ones it is called on a thread."""

    def note(self, role: Role, tool: Tool, result: CallResult) -> None: ...


class ToolCalls:
    def __init__(
        self,
        resolver: Resolver,
        dispatcher: Dispatcher,
        observer: Observer,
        access: Access,
        journal: CallJournal,
        limits: GatewayLimits,
        policies: Sequence[Policy] = (),
        room_limits: RoomLimits | None = None,
        watch: WatchCalls = lambda caller, call: None,
    ) -> None:
        self._resolver = resolver
        self._dispatcher = dispatcher
        self._observer = observer
        self._access = access
        self._limits = limits
        self._policies = tuple(policies)
        self._recorder = Recorder(journal)
        self.rooms = Rooms(room_limits or RoomLimits())
        self.grants = Grants(limits, self._recorder, self.rooms, watch)
        self.skills: Skills = NoSkills()  # until whoever runs them is there, which needs this to be there

    def open(
        self,
        caller: Caller,
        execution_id: str,
        notify: Notify,
        sandbox_id: str | None = None,
        *,
        at_most_once: bool = False,
        passed: bool = True,
        scope: Scope | None = None,
        deadline: float | None = None,
    ) -> Grant:
        """Let an execution call tools until its grant is revoked; that of a key which is gone by now is at once.

        Unless the program has `passed` its check, its calls wait until it has.

        What must happen at most once is sent only after the journal knows of it: without its record, whoever sees the
        execution cut off would run it again.
        """
        grant = self.grants.issue(
            caller,
            execution_id,
            notify,
            sandbox_id,
            at_most_once=at_most_once,
            passed=passed,
            scope=scope,
            deadline=deadline,
        )
        if not grant.is_replay and (caller.key_name, caller.key_sha256) not in self._access.book.live_keys:
            grant.revoke()
        return grant

    def drop_grants_of_lost_keys(self) -> None:
        if lost := self.grants.revoke_unless(self._access.book.live_keys):
            log.warning("grants.revoked", executions=lost)

    def note_use(self, grant: Grant, skill: str, *, failed: bool) -> None:
        """Count that a program used a skill in its own process, or that this failed; each once for a program."""
        is_due = not failed or (skill, False) in grant.used_skills
        if is_due and (skill, failed) not in grant.used_skills and len(grant.used_skills) < MAX_USED_SKILLS:
            grant.used_skills.add((skill, failed))
            self.skills.count_use(grant.caller, self.role_of(grant), skill, failed=failed)

    async def finish(self) -> None:
        """Return when the journal has every call that was handed in."""
        await self._recorder.finish()

    def role_of(self, grant: Grant) -> Role:
        """Return the role as it stands now: a change of roles.json holds at once."""
        role = self._access.book.role_now(grant.caller)
        if role is None:
            raise GrantInvalid(f"The role {grant.caller.role.name} no longer exists.")
        return role

    def room(self, grant: Grant) -> ResultRoom:
        """Return a context for the result of a call; what it takes up is given back when the context is left."""
        return ResultRoom(self.rooms, grant.results, grant.caller.key_name, grant.execution_id)

    async def call(
        self, grant: Grant, server: object, tool: object, arguments: object, request_bytes: int, room: ResultRoom
    ) -> Answer:
        """Call a tool for an execution. Whatever becomes of it is in the ledger before the caller knows."""
        server, tool = _name("server", server), _name("tool", tool)
        await grant.passed.wait()
        if grant.scope is not None:
            grant.scope.note(f"{server}/{tool}")
        grant.require_calls_left()
        entry = grant.ledger.begin(server, tool, request_bytes)
        try:
            return await self._call(grant, entry, server, tool, arguments, request_bytes, room)
        except OrchestratorError as error:
            outcome = OUTCOME_OF_CATEGORY.get(error.category, CallOutcome.UNAVAILABLE)
            await entry.finish(outcome, detail=error.summary)
            raise
        except Exception:  # a defect of ours or of a policy; whoever called hears of it in the face's words
            await entry.finish(CallOutcome.UNAVAILABLE, detail="The daemon failed.")
            raise

    async def _call(
        self,
        grant: Grant,
        entry: LedgerEntry,
        server: str,
        tool: str,
        arguments: object,
        request_bytes: int,
        room: ResultRoom,
    ) -> Answer:
        grant.require_valid()
        grant.require_calls_left()
        grant.count_bytes(request_bytes)
        if not isinstance(arguments, Mapping):
            raise InvalidArguments("`arguments` must be an object.")
        scope = grant.scope
        if scope is not None:  # before the role: also what its author may not call must not be missing in a proof
            scope.require(f"{server}/{tool}", request_bytes)
            if scope.replay is not None:
                answer = partial(scope.replay.answer, f"{server}/{tool}", arguments)
                return await self._replayed(grant, entry, room.in_turn(answer))
        role = self.role_of(grant)
        may_be_own = server == SKILLS and not (scope is not None and scope.of_approved)
        own = self.skills.own_tools(grant.caller, role) if may_be_own else ()
        described = self._resolver.callable_tool(role, server, tool, own)
        call = PendingCall(grant.execution_id, grant.caller, role, described, arguments)
        async with grant.turns:
            for policy in self._policies:
                call = replace(call, arguments=await policy.before(call))
            try:
                result = await self._dispatched(grant, entry, call, request_bytes, room)
            except OrchestratorError as error:
                if scope is not None and scope.recording is not None and scope.recording.has_room(request_bytes):
                    await room.in_turn(partial(scope.recording.note, described.path, arguments, None, error))
                raise
            for policy in reversed(self._policies):
                result = await policy.after(call, result)
            result, text = await _written(result, is_large=described.skill is not None)
        recording = scope.recording if scope is not None else None
        if recording is not None and recording.has_room(request_bytes + len(text)):
            await room.in_turn(partial(recording.note, described.path, arguments, result, None))
        if len(text) > FREE_BYTES:
            await room.reserve(len(text))
        room.shrink(len(text))
        grant.count_bytes(len(text))
        if described.skill is not None:
            pass  # it declares what it returns
        elif isinstance(result, LargeResult):
            await self._observe_large(role, described, result, room)
        else:
            self._observer.note(role, described, result)
        if images := images_in(result):
            grant.pictures.note(await room.in_turn(partial(grant.pictures.readable, images)))
        outcome = CallOutcome.TOOL_ERROR if is_failure(result) else CallOutcome.DONE
        await entry.finish(outcome, result_bytes=len(text))
        return Answer(result, text)

    async def _dispatched(
        self, grant: Grant, entry: LedgerEntry, call: PendingCall, request_bytes: int, room: ResultRoom
    ) -> CallResult:
        server, tool = call.tool.server, call.tool.name
        if call.tool.skill is not None:
            if request_bytes > LARGEST_ARGUMENTS_BYTES:
                raise InvalidArguments(f"The input of a skill must have at most {LARGEST_ARGUMENTS_BYTES} bytes.")
            entry.sent()
            return await self.skills.call(grant, call.role, call.tool, call.arguments)
        timeout, began = self._limits.call_timeout_seconds, time.monotonic()
        await self._dispatcher.open_session(server, grant.sessions, timeout)
        timeout = max(0.0, timeout - (time.monotonic() - began))
        async with self.rooms.at_server(server, grant.caller.key_name, request_bytes):
            written = entry.sent()
            if grant.at_most_once and not await asyncio.shield(written):
                raise JournalUnavailable("The call was not sent, because the journal cannot record it.")
            return await self._dispatcher.call(server, tool, call.arguments, timeout, call.role, room, grant.sessions)

    async def _replayed(self, grant: Grant, entry: LedgerEntry, answer: Awaitable[CallResult]) -> Answer:
        try:
            result, text = await _written(await answer, is_large=True)
        except OrchestratorError as error:
            await entry.finish(CallOutcome.REPLAYED, detail=error.summary)
            raise
        grant.count_bytes(len(text))
        await entry.finish(CallOutcome.REPLAYED, result_bytes=len(text))
        return Answer(result, text)

    async def _observe_large(self, role: Role, tool: Tool, result: LargeResult, room: ResultRoom) -> None:
        if tool.output_schema is None and len(result.text) <= OBSERVED_BYTES:
            await room.in_turn(partial(self._observer.note, role, tool, result))


def _name(field: str, value: object) -> str:
    """JSON can spell lone surrogates, which no name has."""
    if isinstance(value, str) and 1 <= len(value) <= MAX_NAME_CHARACTERS:
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise InvalidArguments(f"`{field}` must be a name of 1 to {MAX_NAME_CHARACTERS} characters.")


async def _written(result: CallResult, *, is_large: bool = False) -> tuple[CallResult, Text]:
    """Return a result that every program can read, and its JSON."""
    if isinstance(result, LargeResult):
        return result, result.text
    contents = result.get("content")
    pieces = contents if isinstance(contents, list) else []
    size = sum(len(str(piece.get("text") or piece.get("data") or "")) for piece in pieces if isinstance(piece, dict))
    try:
        # What a server sends is not decoded if it is large, but a policy or a built-in server may make it so.
        return await asyncio.to_thread(_as_json, result) if is_large or size > FREE_BYTES else _as_json(result)
    except RecursionError:
        raise LimitExceeded("The result is nested too deeply.") from None


def _as_json(result: CallResult) -> tuple[CallResult, bytes]:
    try:
        return result, _encoder.encode(result).encode()
    except ValueError:
        finite = {name: _finite(value) for name, value in result.items()}
        return finite, _encoder.encode(finite).encode()


def _finite(value: Any) -> Any:
    """Say null for what is not a finite number, such as 1e999: JSON has no such number, and JavaScript reads none."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case list():
            return [_finite(item) for item in value]
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case _:
            return value
