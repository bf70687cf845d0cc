"""One upstream server and its life: connect, list, serve, notice the loss, try again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential_jitter

from orchestrator.domain.errors import InvalidArguments, LimitExceeded, ToolUnavailable
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, UpstreamState, UpstreamStatus
from orchestrator.upstreams.entries import ServerEntry, UnusableServer
from orchestrator.upstreams.faults import (
    BackendDead,
    HttpRefused,
    NotEncodable,
    ResultTooLarge,
    RpcError,
    TransportFailed,
)
from orchestrator.upstreams.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from orchestrator.upstreams.session import Session
from orchestrator.upstreams.transport import Alerts, Transport

_FAILURES_UNTIL_REFUSAL = 3
_CONNECTION_CLOSED = -32000
_STATUSES_ABOUT_THE_REQUEST = {400, 413, 414, 422, 431}
_RESTLESS_SECONDS = 60.0

MakeTransport = Callable[[ServerEntry, Alerts], Transport]


@dataclass(frozen=True, slots=True)
class Pacing:
    """How patient we are with an upstream, in seconds."""

    connect_seconds: float = 60.0  # a package runner may fetch the server first
    list_seconds: float = 30.0
    between_listings_seconds: float = 1.0
    first_retry_seconds: float = 0.5
    longest_retry_seconds: float = 60.0
    settled_seconds: float = 30.0  # a connection that lasted this long starts the backoff anew


PATIENT = Pacing()


class Upstream:
    def __init__(
        self,
        entry: ServerEntry,
        make_transport: MakeTransport,
        pacing: Pacing,
        on_change: Callable[[], None],
        *,
        relist_seconds: float,
        tools: tuple[Tool, ...] = (),
    ) -> None:
        self.entry = entry
        self.tools = tools
        self._make_transport = make_transport
        self._pacing = pacing
        self._relist_seconds = relist_seconds
        self._on_change = on_change
        self._log = structlog.get_logger().bind(server=entry.name)
        self._state = UpstreamState.CONNECTING
        self._problem: str | None = None
        self._listing_problem: str | None = None
        self._since = time.time()
        self._session: Session | None = None  # there only while calls may be made
        self._failures = 0
        self._fault: TransportFailed | None = None
        self._doubt: str | None = None  # a proxy still lists the tools of a dead backend, so only a call can lift it
        self._wake = asyncio.Event()
        self._listed_at = float("-inf")
        self._changed_at = float("-inf")
        self._between_listings = pacing.between_listings_seconds
        self._relist_timer: asyncio.TimerHandle | None = None

    @property
    def status(self) -> UpstreamStatus:
        return UpstreamStatus(self.entry.name, self._state, len(self.tools), self._problem, self._since)

    async def run(self) -> None:
        """Stay connected until cancelled; between attempts that fail, wait longer and longer."""
        if isinstance(self.entry, UnusableServer):
            self._move(UpstreamState.DOWN, self.entry.problem)
            await asyncio.Event().wait()
        first, longest = self._pacing.first_retry_seconds, self._pacing.longest_retry_seconds
        backoff = wait_exponential_jitter(multiplier=first, max=longest, jitter=first)
        while True:
            await AsyncRetrying(retry=retry_if_exception_type(Exception), wait=backoff)(self._live_once)

    async def call(self, tool: str, arguments: Mapping[str, Any], timeout_seconds: float) -> CallResult:
        """Return the server's result, error replies included; raise a ToolUnavailable that says why there is none."""
        session = self._session
        if session is None:
            raise self._unavailable(self._problem or "it is still connecting")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._result(session, tool, arguments)
        except TimeoutError:
            self._relist_soon()
            message = f"The server {self.entry.name} did not answer within {timeout_seconds:g} s."
            raise ToolUnavailable(message) from None
        except NotEncodable:
            message = "The arguments must be values that JSON can represent; NaN and infinity are not."
            raise InvalidArguments(message) from None
        except ResultTooLarge as error:
            message = f"The result of {self.entry.name}/{tool} is larger than {error.max_bytes} bytes."
            raise LimitExceeded(message) from None
        except TransportFailed as failure:
            self._note_failure(session, failure)
            raise self._unavailable(failure.problem) from None

    async def _result(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """Ask the session, and see through a proxy that answers for a backend that is gone."""
        try:
            result = await session.call_tool(tool, arguments)
        except RpcError as error:
            if _says_transport_closed(error):
                problem = "the server behind its proxy is gone (transport closed). Restart the proxy"
                raise BackendDead(problem, still_lists=True) from None
            if error.code == INVALID_PARAMS:
                self._relist_soon()  # this may be how it says that the tool is no longer there
            text = error.message or f"error {error.code}"
            result = {"content": [{"type": "text", "text": text}], "isError": True}
        else:
            if _is_an_error_without_words(result):
                # PyPI's mcp-proxy answers so, and refuses the listing, when the process behind it is gone.
                try:
                    await session.list_tools()
                except RpcError:
                    problem = "the server behind its proxy is gone. Restart the proxy"
                    raise BackendDead(problem, still_lists=False) from None
        self._failures = 0
        if self._doubt is not None and self._session is not None:
            self._doubt = None
            self._move(UpstreamState.CONNECTED, self._listing_problem)
        return result

    def _note_failure(self, session: Session, failure: TransportFailed) -> None:
        if session is not self._session:
            return  # an answer to what was asked before we reconnected
        if isinstance(failure, HttpRefused) and failure.status in _STATUSES_ABOUT_THE_REQUEST:
            # One caller's arguments must not take the server from the others. If the refusal is about the session after
            # all, the listing fails as well.
            self._relist_soon()
            return
        self._failures += 1
        if isinstance(failure, BackendDead) or self._failures >= _FAILURES_UNTIL_REFUSAL:
            self._lose(failure)
        else:
            self._relist_soon()

    def _unavailable(self, problem: str) -> ToolUnavailable:
        return ToolUnavailable(f"The server {self.entry.name} is unavailable: {problem}.")

    async def _live_once(self) -> None:
        """Connect and serve until that fails. Raise if it had not lasted, so that the backoff goes on; else return."""
        began = time.monotonic()
        self._fault = None
        self._wake.clear()
        try:
            await self._connect_and_serve()
        except Exception as fault:
            self._go_down(fault)
            if time.monotonic() - began < self._pacing.settled_seconds:
                raise

    async def _connect_and_serve(self) -> None:
        alerts = Alerts(relist=self._relist_soon, lost=self._lose)
        transport = self._make_transport(self.entry, alerts)
        session = Session(self.entry.name, transport, alerts)
        try:
            async with asyncio.timeout(self._pacing.connect_seconds):
                await transport.open()
                await session.open()
                await self._take_listing(session)
            self._raise_if_lost()
            self._session, self._failures = session, 0
            if self._doubt is None:
                self._log.info("upstream.connected", tools=len(self.tools))
                self._move(UpstreamState.CONNECTED, self._listing_problem)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._relist_seconds):
                        await self._wake.wait()
                self._wake.clear()
                self._raise_if_lost()
                async with asyncio.timeout(self._pacing.list_seconds):
                    await self._take_listing(session)
                if self._doubt is None and self._session is not None:
                    self._move(UpstreamState.CONNECTED, self._listing_problem)
        finally:
            self._session = None
            if self._relist_timer is not None:
                self._relist_timer.cancel()
                self._relist_timer = None
            await transport.close()

    def _lose(self, fault: TransportFailed) -> None:
        self._session, self._fault = None, fault
        self._move(UpstreamState.DOWN, fault.problem)
        self._wake.set()

    def _raise_if_lost(self) -> None:
        if self._fault is not None:
            raise self._fault

    async def _take_listing(self, session: Session) -> None:
        listing = await session.list_tools()
        now = self._listed_at = time.monotonic()
        self._listing_problem = listing.problem
        if listing.skipped:
            self._log.warning("upstream.tools_skipped", number=listing.skipped, first=listing.reasons)
        tools = listing.tools
        if tools == self.tools:
            return
        # Each change costs warm sandboxes, so a server that changes all the time is heard less and less.
        restless = now - self._changed_at < _RESTLESS_SECONDS
        shortest = self._pacing.between_listings_seconds
        self._between_listings = min(2 * self._between_listings, _RESTLESS_SECONDS) if restless else shortest
        self._changed_at = now
        self.tools = tools
        self._log.info("upstream.tools_changed", tools=len(self.tools))
        self._on_change()

    def _relist_soon(self) -> None:
        """List at once, unless that was just done: a server may announce changes without end."""

        def relist() -> None:
            self._relist_timer = None
            self._wake.set()

        if self._relist_timer is None:
            wait = self._listed_at + self._between_listings - time.monotonic()
            self._relist_timer = asyncio.get_running_loop().call_later(max(0.0, wait), relist)

    def _go_down(self, fault: Exception) -> None:
        self._doubt = fault.problem if isinstance(fault, BackendDead) and fault.still_lists else None
        match fault:
            case TransportFailed(problem=problem):
                pass
            case TimeoutError():
                problem = "it does not answer our greeting or list its tools in time"
            case RpcError():
                problem = f"it refuses to list its tools (error {fault.code})"
            case ResultTooLarge():
                problem = "its tool listing is too large"
            case _:
                problem = "an unexpected error in the daemon. See the daemon's log"
                self._log.error("upstream.crashed", exc_info=fault)
        self._move(UpstreamState.DOWN, problem)

    def _move(self, state: UpstreamState, problem: str | None) -> None:
        if (state, problem) == (self._state, self._problem):
            return
        if state is not self._state:
            self._since = time.time()
        self._state, self._problem = state, problem
        if state is UpstreamState.DOWN:
            self._log.warning("upstream.down", problem=problem)


def _says_transport_closed(error: RpcError) -> bool:
    words = error.message.lower()
    if error.code == INTERNAL_ERROR:
        return "transport closed" in words or "transport is closed" in words
    return error.code == _CONNECTION_CLOSED and "connection closed" in words


def _is_an_error_without_words(result: CallResult) -> bool:
    content = result.get("content")
    if result.get("isError") is not True or not isinstance(content, list):
        return False
    return all(isinstance(part, dict) and part.get("text") in ("", "Connection closed") for part in content)
