"""One upstream server and its life: connect, list, serve, notice the loss, try again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential_jitter

from orchestrator.domain.errors import LimitExceeded, ToolUnavailable
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, UpstreamState, UpstreamStatus
from orchestrator.upstreams.entries import ServerEntry, UnusableServer
from orchestrator.upstreams.faults import BackendDead, HttpRefused, ResultTooLarge, RpcError, TransportFailed
from orchestrator.upstreams.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from orchestrator.upstreams.pacing import Pacing
from orchestrator.upstreams.session import Session
from orchestrator.upstreams.transport import Alerts, Transport

_FAILURES_UNTIL_REFUSAL = 3
_CONNECTION_CLOSED = -32000
_STATUSES_ABOUT_THE_REQUEST = {400, 413, 414, 422, 431}
_RESTLESS_SECONDS = 60.0

MakeTransport = Callable[[ServerEntry, Alerts], Transport]


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
        """Until cancelled."""
        if isinstance(self.entry, UnusableServer):
            self._move(UpstreamState.DOWN, self.entry.problem)
            await asyncio.Event().wait()
        while True:
            await self._with_backoff(self._live_once)

    async def call(self, tool: str, arguments: Mapping[str, Any], timeout_seconds: float) -> CallResult:
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
        except ResultTooLarge as error:
            message = f"The result of {self.entry.name}/{tool} is larger than {error.max_bytes} bytes."
            raise LimitExceeded(message) from None
        except TransportFailed as failure:
            self._note_failure(session, failure)
            raise self._unavailable(failure.problem) from None

    async def _result(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        try:
            result = await session.call_tool(tool, arguments)
        except RpcError as error:
            return self._refusal(error)
        if _is_an_error_without_words(result):
            await self._require_listing(session)
        self._note_answer()
        return result

    def _refusal(self, error: RpcError) -> CallResult:
        if _says_transport_closed(error):
            problem = "what is behind its proxy is gone (transport closed); restart the proxy"
            raise BackendDead(problem, still_lists=True)
        if error.code == INVALID_PARAMS:
            self._relist_soon()  # this may be how it says that the tool is no longer there
        self._note_answer()
        return {"content": [{"type": "text", "text": error.message or f"error {error.code}"}], "isError": True}

    async def _require_listing(self, session: Session) -> None:
        # PyPI's mcp-proxy answers so, and refuses the listing, when the process behind it is gone.
        try:
            await session.list_tools()
        except RpcError:
            problem = "what is behind its proxy is gone; restart the proxy"
            raise BackendDead(problem, still_lists=False) from None

    def _note_answer(self) -> None:
        self._failures = 0
        if self._doubt is not None and self._session is not None:
            self._doubt = None
            self._move(UpstreamState.CONNECTED, self._listing_problem)

    def _note_failure(self, session: Session, failure: TransportFailed) -> None:
        if session is not self._session:
            return  # an answer to what was asked before we reconnected
        if _is_about_the_request(failure):
            self._relist_soon()  # if it is about the session after all, the listing fails as well
            return
        self._failures += 1
        if isinstance(failure, BackendDead) or self._failures >= _FAILURES_UNTIL_REFUSAL:
            self._lose(failure)
        else:
            self._relist_soon()

    def _lose(self, fault: TransportFailed) -> None:
        self._session, self._fault = None, fault
        self._move(UpstreamState.DOWN, fault.problem)
        self._wake.set()

    def _unavailable(self, problem: str) -> ToolUnavailable:
        return ToolUnavailable(f"The server {self.entry.name} is unavailable: {problem}.")

    async def _with_backoff(self, work: Callable[[], Awaitable[None]]) -> None:
        pacing = self._pacing
        wait = wait_exponential_jitter(
            multiplier=pacing.first_retry_seconds, max=pacing.longest_retry_seconds, jitter=pacing.first_retry_seconds
        )
        await AsyncRetrying(retry=retry_if_exception_type(Exception), wait=wait)(work)

    async def _live_once(self) -> None:
        """Returns when a connection that had lasted is lost; raises when it had not, so that the backoff goes on."""
        began = time.monotonic()
        try:
            await self._live()
        except Exception as fault:
            self._go_down(fault)
            if time.monotonic() - began < self._pacing.settled_seconds:
                raise

    async def _live(self) -> None:
        self._fault = None
        self._wake.clear()
        async with self._connected() as session:
            self._serve(session)
            while True:
                await self._woken()
                if self._fault is not None:
                    raise self._fault
                await self._list(session)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Session]:
        alerts = Alerts(relist=self._relist_soon, lost=self._lose)
        transport = self._make_transport(self.entry, alerts)
        session = Session(self.entry.name, transport, alerts)
        try:
            async with asyncio.timeout(self._pacing.connect_seconds):
                await transport.open()
                await session.open()
                await self._take_listing(session)
            yield session
        finally:
            self._session = None
            self._cancel_relist_timer()
            await transport.close()

    def _serve(self, session: Session) -> None:
        if self._fault is not None:
            raise self._fault  # it was lost between its listing and now
        self._session, self._failures = session, 0
        if self._doubt is None:
            self._log.info("upstream.connected", tools=len(self.tools))
            self._move(UpstreamState.CONNECTED, self._listing_problem)

    async def _woken(self) -> None:
        try:
            async with asyncio.timeout(self._relist_seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _list(self, session: Session) -> None:
        async with asyncio.timeout(self._pacing.list_seconds):
            await self._take_listing(session)
        if self._doubt is None and self._session is not None:
            self._move(UpstreamState.CONNECTED, self._listing_problem)

    async def _take_listing(self, session: Session) -> None:
        listing = await session.list_tools()
        self._listed_at = time.monotonic()
        self._listing_problem = listing.problem
        if listing.skipped:
            self._log.warning("upstream.tools_skipped", number=listing.skipped, first=listing.reasons)
        if listing.tools != self.tools:
            self._note_change()
            self.tools = listing.tools
            self._log.info("upstream.tools_changed", tools=len(self.tools))
            self._on_change()

    def _note_change(self) -> None:
        """Each change costs warm sandboxes, so a server that changes all the time is heard less and less."""
        now = time.monotonic()
        restless = now - self._changed_at < _RESTLESS_SECONDS
        shortest = self._pacing.between_listings_seconds
        self._between_listings = min(2 * self._between_listings, _RESTLESS_SECONDS) if restless else shortest
        self._changed_at = now

    def _relist_soon(self) -> None:
        """At once, unless it was just done: a server may announce changes without end."""
        if self._relist_timer is None:
            wait = self._listed_at + self._between_listings - time.monotonic()
            self._relist_timer = asyncio.get_running_loop().call_later(max(0.0, wait), self._relist_now)

    def _relist_now(self) -> None:
        self._relist_timer = None
        self._wake.set()

    def _cancel_relist_timer(self) -> None:
        if self._relist_timer is not None:
            self._relist_timer.cancel()
            self._relist_timer = None

    def _go_down(self, fault: Exception) -> None:
        self._doubt = fault.problem if isinstance(fault, BackendDead) and fault.still_lists else None
        match fault:
            case TransportFailed(problem=problem):
                pass
            case TimeoutError():
                problem = "it does not answer our greeting or its tool listing in time"
            case RpcError():
                problem = f"it refuses to list its tools (error {fault.code})"
            case ResultTooLarge():
                problem = "its tool listing is too large"
            case _:
                problem = "an unexpected fault of ours, see the daemon's log"
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


def _is_about_the_request(failure: TransportFailed) -> bool:
    """One caller's arguments must not take the server from the others."""
    return isinstance(failure, HttpRefused) and failure.status in _STATUSES_ABOUT_THE_REQUEST


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
