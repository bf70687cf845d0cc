"""Short-lived tokens: this execution, this role, in this sandbox, until it ends."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import structlog

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import GrantInvalid, LimitExceeded
from orchestrator.domain.execution import GatewayLimits, Image
from orchestrator.domain.ledger import CallRecord, ToolCall
from orchestrator.domain.sandbox import GATEWAY
from orchestrator.service.budget import Budget
from orchestrator.service.call_recorder import Recorder
from orchestrator.service.ledger import Ledger, Notify
from orchestrator.service.pictures import Pictures
from orchestrator.service.rooms import Rooms
from orchestrator.service.scopes import Scope
from orchestrator.service.sessions import Sessions

T = TypeVar("T")
WatchCalls = Callable[[str, CallRecord], None]  # hears of the calls of every caller, by the name of its key

LARGE_BODIES_AT_ONCE = 2
# Twice as many as a sandbox may have connections: a request goes on when its connection is closed.
OPEN_REQUESTS = 256

log = structlog.get_logger()


class Grant:
    """What an execution may still do with tools, and what it did."""

    def __init__(
        self,
        caller: Caller,
        execution_id: str,
        sandbox_id: str | None,
        limits: GatewayLimits,
        ledger: Ledger,
        sessions: Sessions,
        on_revoked: Callable[[Grant], None],
        *,
        at_most_once: bool = False,
        passed: bool = True,
        scope: Scope | None = None,
        deadline: float | None = None,
        within: Grant | None = None,
    ) -> None:
        self.token = secrets.token_urlsafe(32)
        self.caller = caller
        self.execution_id = execution_id
        self.sandbox_id = sandbox_id
        self.ledger = ledger
        self.sessions = sessions
        self.at_most_once = at_most_once
        self.scope = scope
        self.deadline = deadline  # of the program, on the monotonic clock; without one it is no program's
        # A skill that runs in a sandbox of its own takes part in what is left to the program that called it.
        self._root: Grant = self if within is None else within._root
        self.pictures: Pictures = Pictures(limits) if within is None else within.pictures
        self.turns = asyncio.Semaphore(limits.max_concurrent_calls)
        self.large_bodies = asyncio.Semaphore(LARGE_BODIES_AT_ONCE)
        self.results = Budget(limits.max_held_result_bytes, limits.max_held_result_bytes)
        self.nested = asyncio.Semaphore(1)  # skills that run in sandboxes of their own, one at a time
        self.used_skills: set[tuple[str, bool]] = set()  # with whether they failed; each is counted once
        self.faults: Counter[str] = Counter()  # of what its sandbox does wrong; told once, when it ends
        self.revoked = False
        self.passed = asyncio.Event()  # until then, calls wait: the program is still being checked
        if passed:
            self.passed.set()
        self._limits = limits
        self._bytes_left = limits.max_total_bytes
        self._searches_left = limits.max_searches
        self._open_requests = 0
        self._calls: set[asyncio.Future[Any]] = set()
        self._on_revoked = on_revoked

    @property
    def environment(self) -> dict[str, str]:
        """Tell the program's client library where the gateway is, and the token."""
        told = {"CODE_EXECUTOR_GATEWAY": GATEWAY, "CODE_EXECUTOR_GRANT": self.token}
        if self.scope is None:
            return told
        if self.scope.returns:
            told["CODE_EXECUTOR_RETURNS"] = "with files" if self.scope.is_nested else "the result"
        return {**told, "CODE_EXECUTOR_SKILLS_AROUND": " ".join(self.scope.chain[:-1])}

    @property
    def is_replay(self) -> bool:
        """Tell whether its calls are answered from a recording: then they are nobody's, and reach nobody."""
        return self.scope is not None and self.scope.replay is not None

    def require_valid(self) -> None:
        if self.revoked:
            raise GrantInvalid("The execution has ended, or its key was taken away.")

    def open_request(self) -> None:
        """Count a request until it is closed."""
        if self._open_requests >= OPEN_REQUESTS:
            raise LimitExceeded(f"An execution may have at most {OPEN_REQUESTS} requests open at once.")
        self._open_requests += 1

    def close_request(self) -> None:
        self._open_requests -= 1

    async def within(self, call: Awaitable[T]) -> T:
        """Run a call that ends, unanswered, when the grant does."""
        task: asyncio.Future[T] = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            if self.revoked:
                raise GrantInvalid("The execution has ended.") from None
            raise

    def require_calls_left(self) -> None:
        """Refuse calls beyond the limit. Asked before a call is in the ledger and after: only the first is told."""
        of_role = self.caller.role.max_tool_calls
        most = self._limits.max_calls if of_role is None else min(of_role, self._limits.max_calls)
        if len(self.ledger) > most:
            raise LimitExceeded(f"An execution may make at most {most} tool calls.")

    def count_search(self) -> None:
        root = self._root
        root._searches_left -= 1
        if root._searches_left < 0:
            most = self._limits.max_searches
            raise LimitExceeded(f"An execution may search for tools or ask about them at most {most} times.")

    def count_bytes(self, size: int) -> None:
        root = self._root
        root._bytes_left -= size
        if root._bytes_left < 0:
            raise LimitExceeded(
                f"An execution may send and receive at most {self._limits.max_total_bytes} bytes through tools."
            )

    def revoke(self) -> None:
        self.revoked = True
        self._on_revoked(self)
        if self.faults:
            log.warning("gateway.misused", execution_id=self.execution_id, **self.faults)
            self.faults.clear()
        for call in self._calls:
            call.cancel()
        if self._root is self:
            self.sessions.end()  # after the calls, which tell the server in their session that they are given up

    def calls(self) -> tuple[ToolCall, ...]:
        return self.ledger.calls()

    def images(self) -> tuple[Image, ...]:
        return self.pictures.all()


class Grants:
    """Every grant that is valid now. Those of programs are found by their sandbox and token."""

    def __init__(
        self, limits: GatewayLimits, recorder: Recorder, rooms: Rooms, watch: WatchCalls = lambda caller, call: None
    ) -> None:
        self._limits = limits
        self._recorder = recorder
        self._rooms = rooms
        self._watch = watch
        self._valid: set[Grant] = set()
        self._by_sandbox: dict[str, Grant] = {}

    def issue(
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
        """Open an execution's use of tools; without a sandbox, only the daemon itself can use it."""
        ledger = Ledger(execution_id, self._recorder, notify, partial(self._watch, caller.key_name))
        grant = Grant(
            caller,
            execution_id,
            sandbox_id,
            self._limits,
            ledger,
            Sessions(self._rooms, caller.key_name),
            self._forget,
            at_most_once=at_most_once,
            passed=passed,
            scope=scope,
            deadline=deadline,
        )
        return self._take_up(grant)

    def issue_within(self, outer: Grant, sandbox_id: str, scope: Scope) -> Grant:
        """Let a skill in a sandbox of its own call tools: its calls are its caller's, in ledger and budget."""
        grant = Grant(
            outer.caller,
            outer.execution_id,
            sandbox_id,
            self._limits,
            outer.ledger,
            outer.sessions,
            self._forget,
            at_most_once=outer.at_most_once,
            scope=scope,
            deadline=outer.deadline,
            within=outer,
        )
        return self._take_up(grant)

    def _take_up(self, grant: Grant) -> Grant:
        self._valid.add(grant)
        if grant.sandbox_id is not None:
            self._by_sandbox[grant.sandbox_id] = grant
        return grant

    def find(self, token: str, sandbox_id: str) -> Grant:
        """Return the grant of a sandbox; a neighbour's token is worth nothing here."""
        grant = self._by_sandbox.get(sandbox_id)
        presented = token.encode("utf-8", "surrogatepass")
        if grant is None or not hmac.compare_digest(grant.token.encode(), presented):
            raise GrantInvalid("The grant is not valid in this sandbox.")
        return grant

    def revoke_unless(self, live_keys: frozenset[tuple[str, str]]) -> int:
        """End the grants of callers whose keys were taken away or rotated; return how many there were."""
        lost = [
            grant
            for grant in self._valid
            if (grant.caller.key_name, grant.caller.key_sha256) not in live_keys and not grant.is_replay
        ]
        for grant in lost:
            grant.revoke()
        return len(lost)

    def _forget(self, revoked: Grant) -> None:
        self._valid.discard(revoked)
        if revoked.sandbox_id is not None and self._by_sandbox.get(revoked.sandbox_id) is revoked:
            del self._by_sandbox[revoked.sandbox_id]
