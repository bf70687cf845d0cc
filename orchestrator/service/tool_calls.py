"""The one way to call a tool, for programs, HTTP and MCP: limits → role → policies → dispatch → observe → ledger.

Whatever must hold for every call is a step here, so that nothing can go around it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import Category, GrantInvalid, InvalidArguments, OrchestratorError
from orchestrator.domain.execution import GatewayLimits
from orchestrator.domain.ledger import CallOutcome
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult
from orchestrator.service.call_recorder import CallJournal, Recorder
from orchestrator.service.grants import Grant, Grants
from orchestrator.service.ledger import LedgerEntry, Notify
from orchestrator.service.ports import Access

log = structlog.get_logger()

LARGE_CHARACTERS = 256 * 1024
MAX_NAME_CHARACTERS = 256

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
    text: str  # the same as JSON, as it was counted


class Policy(Protocol):
    """A rule on what flows through calls. It refuses by raising ToolDenied."""

    async def before(self, call: PendingCall) -> Mapping[str, Any]:
        """Return the arguments as they may be sent; which tool is called, the role has decided."""

    async def after(self, call: PendingCall, result: CallResult) -> CallResult:
        """Return the result as it may be given out."""


class Resolver(Protocol):
    """The one place that says whether a role may call a tool."""

    def callable_tool(self, role: Role, server: str, name: str) -> Tool: ...


class Dispatcher(Protocol):
    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], timeout_seconds: float, role: Role
    ) -> CallResult: ...


class Observer(Protocol):
    """Learns from results, such as their shape."""

    def note(self, tool: Tool, result: CallResult) -> None: ...


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
    ) -> None:
        self._resolver = resolver
        self._dispatcher = dispatcher
        self._observer = observer
        self._access = access
        self._limits = limits
        self._policies = tuple(policies)
        self._recorder = Recorder(journal)
        self.grants = Grants(limits, self._recorder)

    def open(self, caller: Caller, execution_id: str, notify: Notify, sandbox_id: str | None = None) -> Grant:
        """Let an execution call tools until its grant is revoked."""
        return self.grants.issue(caller, execution_id, notify, sandbox_id)

    def drop_grants_of_lost_keys(self) -> None:
        if lost := self.grants.revoke_unless(self._access.book.live_keys):
            log.warning("grants.revoked", executions=lost)

    async def finish(self) -> None:
        """Return when the journal has every call that was handed in."""
        await self._recorder.finish()

    def role_of(self, grant: Grant) -> Role:
        """Return the role as it stands now: a change of roles.json holds at once."""
        role = self._access.book.roles.get(grant.caller.role.name)
        if role is None:
            raise GrantInvalid(f"The role {grant.caller.role.name} no longer exists.")
        return role

    async def call(self, grant: Grant, server: object, tool: object, arguments: object, request_bytes: int) -> Answer:
        """Call a tool for an execution. Whatever becomes of it is in the ledger before the caller knows."""
        server, tool = _name("server", server), _name("tool", tool)
        grant.require_calls_left()
        entry = grant.ledger.begin(server, tool, request_bytes)
        try:
            return await self._call(grant, entry, server, tool, arguments, request_bytes)
        except OrchestratorError as error:
            outcome = OUTCOME_OF_CATEGORY.get(error.category, CallOutcome.UNAVAILABLE)
            await entry.finish(outcome, detail=error.summary)
            raise
        except Exception:  # a defect of ours or of a policy; whoever called hears of it in the face's words
            await entry.finish(CallOutcome.UNAVAILABLE, detail="The daemon failed.")
            raise

    async def _call(
        self, grant: Grant, entry: LedgerEntry, server: str, tool: str, arguments: object, request_bytes: int
    ) -> Answer:
        grant.require_calls_left()
        grant.count_bytes(request_bytes)
        role = self.role_of(grant)
        described = self._resolver.callable_tool(role, server, tool)
        if not isinstance(arguments, Mapping):
            raise InvalidArguments("`arguments` must be an object.")
        call = PendingCall(grant.execution_id, grant.caller, role, described, arguments)
        async with grant.turns:
            for policy in self._policies:
                call = replace(call, arguments=await policy.before(call))
            entry.sent()
            timeout = self._limits.call_timeout_seconds
            result = await self._dispatcher.call(server, tool, call.arguments, timeout, role)
            for policy in reversed(self._policies):
                result = await policy.after(call, result)
            text = await _as_json(result)
        grant.count_bytes(len(text))
        self._observer.note(described, result)
        grant.pictures.note(result)
        failed = bool(result.get("isError"))
        await entry.finish(CallOutcome.TOOL_ERROR if failed else CallOutcome.DONE, result_bytes=len(text))
        return Answer(result, text)


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


async def _as_json(result: CallResult) -> str:
    # A large result is written off the event loop, so that it does not delay other executions' calls.
    contents = result.get("content")
    pieces = contents if isinstance(contents, list) else []
    size = sum(len(str(piece.get("text") or piece.get("data") or "")) for piece in pieces if isinstance(piece, dict))
    if size > LARGE_CHARACTERS or ("structuredContent" in result and size == 0):
        return await asyncio.to_thread(json.dumps, result)
    return json.dumps(result)
