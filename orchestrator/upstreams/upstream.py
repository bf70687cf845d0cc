"""One upstream server and its life: connect, list, serve, notice the loss, try again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential_jitter

from orchestrator.domain.errors import InvalidArguments, LimitExceeded, SessionsFull, ToolUnavailable
from orchestrator.domain.upstream import CallResult, LargeResult, UpstreamState, UpstreamStatus
from orchestrator.upstreams.entries import HttpServer, ServerEntry, UnusableServer
from orchestrator.upstreams.faults import (
    BackendGone,
    NoRoom,
    NotEncodable,
    NotJson,
    ResultTooLarge,
    RpcError,
    TransportFailed,
)
from orchestrator.upstreams.jsonrpc import INVALID_PARAMS
from orchestrator.upstreams.listing import Listed, is_withheld
from orchestrator.upstreams.own_sessions import MakeTransport, OwnSession, OwnSessions, SessionOwner
from orchestrator.upstreams.proxies import GONE, problem_behind, without_addresses
from orchestrator.upstreams.room import Room
from orchestrator.upstreams.session import Session
from orchestrator.upstreams.transport import Alerts

_RESTLESS_SECONDS = 60.0
_PAUSE_PER_LISTING = 5

_NOTICEABLE_SECONDS = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pacing:
    """How patient we are with an upstream, in seconds."""

    connect_seconds: float = 60.0  # a package runner may fetch the server first
    list_seconds: float = 30.0
    between_listings_seconds: float = 1.0
    first_retry_seconds: float = 0.5
    longest_retry_seconds: float = 60.0
    longest_cheap_retry_seconds: float = 3.0  # to find an HTTP server still away costs neither side anything
    between_tries_seconds: float = 2.0  # as often as calls may ask for another try
    hastened_seconds: float = 2.0  # a call waits this long for a try that it asked for, or for a listing
    settled_seconds: float = 30.0  # a connection that lasted this long starts the backoff anew


PATIENT = Pacing()


class _TimedRoom:
    """A caller's room. The time that is spent waiting for it is not the server's, so its deadline is put off."""

    def __init__(self, room: Room, deadline: asyncio.Timeout) -> None:
        self._room = room
        self._deadline = deadline
        self.waited_seconds = 0.0

    @property
    def owner(self) -> str:
        return self._room.owner

    async def reserve(self, size: int) -> None:
        async with self._putting_off():
            await self._room.reserve(size)

    def shrink(self, size: int) -> None:
        self._room.shrink(size)

    async def in_turn(self, work: Callable[[], T]) -> T:
        async with self._putting_off():
            return await self._room.in_turn(work)

    @asynccontextmanager
    async def _putting_off(self) -> AsyncIterator[None]:
        began, until = asyncio.get_running_loop().time(), self._deadline.when()
        with suppress(RuntimeError):  # it has passed
            self._deadline.reschedule(None)
        try:
            yield
        finally:
            waited = asyncio.get_running_loop().time() - began
            self.waited_seconds += waited
            if until is not None:
                with suppress(RuntimeError):  # who waited has gone meanwhile
                    self._deadline.reschedule(until + waited)


class Upstream:
    """What becomes of a call never decides whether the server is up: that would let one caller take it from the others.

    A failed call makes us list the tools, and only a listing that fails, or the end of the connection, tells that the
    server is down. A proxy that lists the tools of a dead backend is thus up, and each call says what is wrong.
    """

    def __init__(
        self,
        entry: ServerEntry,
        make_transport: MakeTransport,
        pacing: Pacing,
        on_change: Callable[[], None],
        *,
        relist_seconds: float,
        longest_call_seconds: float,
        listed: Mapping[str, Listed] | None = None,
    ) -> None:
        self.entry = entry
        # What is withheld from now on is gone now, and not when the server has listed its tools again.
        kept = {name: each for name, each in (listed or {}).items() if not is_withheld(name, entry.withheld)}
        self.listed: Mapping[str, Listed] = kept
        self.tools = tuple(each.tool for each in self.listed.values())
        self._make_transport = make_transport
        self._pacing = pacing
        self._relist_seconds = relist_seconds
        self._longest_call_seconds = longest_call_seconds
        self._on_change = on_change
        self._log = structlog.get_logger().bind(server=entry.name)
        self._state = UpstreamState.CONNECTING
        self._problem: str | None = None
        self._listing_problem: str | None = None
        self._since = time.time()
        self._session: Session | None = None  # there only while calls may be made
        self._fault: TransportFailed | None = None
        self._trying = False
        self._tried_at = self._failed_at = float("-inf")
        self._connected_at = float("inf")  # in this try; for ever ahead, if it never came to that
        self._hurry = asyncio.Event()
        self._wake = asyncio.Event()
        self._news = asyncio.Event()  # set and replaced when a try to connect or a listing has ended, well or not
        self._listed_at = self._listing_ended_at = float("-inf")
        self._listing_took_seconds = 0.0
        self._silent_since: float | None = None
        self._changed_at = float("-inf")
        self._between_listings = pacing.between_listings_seconds
        self._relist_timer: asyncio.TimerHandle | None = None
        self._own: OwnSessions | None = None  # then the one long-lived session serves to list the tools only
        if entry.has_own_sessions:
            self._own = OwnSessions(entry, make_transport, self._relist_soon, pacing.connect_seconds)

    @property
    def own_sessions(self) -> int:
        """Return how many sessions the server has for executions now."""
        return len(self._own) if self._own is not None else 0

    @property
    def status(self) -> UpstreamStatus:
        return UpstreamStatus(self.entry.name, self._state, len(self.tools), self._problem, self._since)

    async def run(self) -> None:
        """Stay connected until cancelled; between attempts that fail, wait longer and longer."""
        if isinstance(self.entry, UnusableServer):
            self._move(UpstreamState.DOWN, self.entry.problem)
            await asyncio.Event().wait()
        first = self._pacing.first_retry_seconds
        patient, cheap = (
            wait_exponential_jitter(multiplier=first, max=longest, jitter=first)
            for longest in (self._pacing.longest_retry_seconds, self._pacing.longest_cheap_retry_seconds)
        )

        def backoff(state: RetryCallState) -> float:
            fault = state.outcome.exception() if state.outcome is not None else None
            return (cheap if self._is_cheap(fault) else patient)(state)

        tries = AsyncRetrying(retry=retry_if_exception_type(Exception), wait=backoff, sleep=self._pause)
        try:
            while True:
                await tries(self._live_once)
        finally:
            if self._own is not None:
                await self._own.close()

    async def open_session(self, owner: SessionOwner, timeout_seconds: float) -> None:
        """See to it that an execution has its own session here, at a server that keeps one for each."""
        if self._own is None:
            return
        own: OwnSession | None = None
        try:
            async with asyncio.timeout(timeout_seconds):
                if not self._own.has(owner) and self._session is None:
                    await self._session_of_another_try()
                own = self._own.begin(owner)
                await own.opened()
        except TimeoutError:
            if own is not None and not own.has_place:
                message = f"All sessions of the server {self.entry.name} that you may have were in use"
                raise SessionsFull(f"{message} for {timeout_seconds:g} s.") from None
            message = f"The server {self.entry.name} did not begin a session within {timeout_seconds:g} s."
            raise ToolUnavailable(message) from None
        except TransportFailed as failure:
            self._relist_soon()
            raise self._unavailable(failure.problem) from None

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float,
        room: Room | None = None,
        owner: SessionOwner | None = None,
    ) -> CallResult:
        """Return the server's result, error replies included; raise a ToolUnavailable that says why there is none."""
        own: OwnSession | None = None
        try:
            async with asyncio.timeout(timeout_seconds) as deadline:
                if self._own is not None:
                    if owner is None:
                        raise ToolUnavailable(f"The server {self.entry.name} is called by executions alone.")
                    own = self._own.begin(owner)
                    session = await own.opened()
                else:
                    session = self._session or await self._session_of_another_try()
                timed_room = _TimedRoom(room, deadline) if room is not None else None
                return await self._result(session, tool, arguments, timed_room)
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
        except NoRoom:
            message = f"The result of {self.entry.name}/{tool} was discarded: there was no room for it in time."
            raise LimitExceeded(f"{message} Make fewer calls with large results at once.") from None
        except TransportFailed as failure:
            if isinstance(failure, BackendGone) and self._relist_timer is None:  # as often as we list, not as they call
                self._log.warning("upstream.backend_gone", problem=failure.problem)
            self._relist_soon()
            if self._own is not None and own is not None and (loss := self._own.loss(own, failure)) is not None:
                raise loss from None
            raise self._unavailable(failure.problem) from None

    async def _session_of_another_try(self) -> Session:
        """Hasten the next try to connect and wait for it briefly, or fail at once if the last was only just made."""
        self._hurry.set()
        now = time.monotonic()
        is_due = self._tried_at + self._pacing.between_tries_seconds <= now
        if (
            self._state is UpstreamState.DOWN
            and (is_due or self._trying)
            and not isinstance(self.entry, UnusableServer)
        ):
            await self._briefly_until(lambda: self._session is not None or self._failed_at >= now)
        if self._session is None:
            raise self._unavailable(self._problem or "it is still connecting")
        return self._session

    async def _briefly_until(self, condition: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pacing.hastened_seconds):
                while not condition():
                    await self._news.wait()

    def _tell_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _result(self, session: Session, tool: str, arguments: Mapping[str, Any], room: Room | None) -> CallResult:
        """Ask the session, and see through a proxy that answers for a backend that is gone."""
        try:
            result = await session.call_tool(tool, arguments, room)
        except RpcError as error:
            if (problem := problem_behind(error)) is not None:
                raise BackendGone(problem) from None
            if error.code == INVALID_PARAMS:
                self._relist_soon()  # this may be how it says that the tool is no longer there
            text = without_addresses(error.message, self.entry) or f"error {error.code}"
            result = {"content": [{"type": "text", "text": text}], "isError": True}
        else:
            if _is_an_error_without_words(result):
                # PyPI's mcp-proxy answers so, and refuses the listing, when the process behind it is gone.
                listing = self._session if self._own is not None else session
                doubted_at = time.monotonic()
                self._relist_soon()
                await self._briefly_until(lambda: self._session is not listing or self._listed_at >= doubted_at)
                if self._session is None or self._session is not listing:
                    raise BackendGone(GONE)
        self._silent_since = None
        return result

    def _unavailable(self, problem: str) -> ToolUnavailable:
        return ToolUnavailable(f"The server {self.entry.name} is unavailable: {problem}.")

    async def _live_once(self) -> None:
        """Connect and serve until that fails. Raise if it had not lasted, so that the backoff goes on; else return."""
        self._tried_at = time.monotonic()
        self._connected_at = float("inf")
        self._trying = True
        self._fault = self._silent_since = None
        self._hurry.clear()
        self._wake.clear()
        try:
            await self._connect_and_serve()
        except Exception as fault:
            self._go_down(fault)
            if self._trying:
                self._failed_at = time.monotonic()
            if time.monotonic() - self._connected_at < self._pacing.settled_seconds:
                raise
        finally:
            self._trying = False
            self._tell_news()

    async def _pause(self, seconds: float) -> None:
        """Wait before the next try; calls that need the server shorten it, down to a pace that does not hammer it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
                await asyncio.sleep(self._tried_at + self._pacing.between_tries_seconds - time.monotonic())

    def _is_cheap(self, fault: BaseException | None) -> bool:
        """Tell whether another try costs little, unlike that of a process that must start, or of a large answer."""
        is_brief = isinstance(fault, TransportFailed | RpcError) and not isinstance(fault, NotJson)
        return is_brief and isinstance(self.entry, HttpServer)

    async def _connect_and_serve(self) -> None:
        alerts = Alerts(relist=self._relist_soon, lost=self._lose)
        transport = self._make_transport(self.entry, alerts)
        session = Session(
            self.entry.name,
            transport,
            alerts,
            lists_contents=self.entry.lists_contents,
            withheld=self.entry.withheld,
        )
        try:
            async with asyncio.timeout(self._pacing.connect_seconds):
                await transport.open()
                await session.open()
                await self._take_listing(session)
            self._raise_if_lost()
            self._session, self._trying, self._connected_at = session, False, time.monotonic()
            self._log.info("upstream.connected", tools=len(self.tools))
            self._move(UpstreamState.CONNECTED, self._listing_problem)
            self._tell_news()
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._relist_seconds):
                        await self._wake.wait()
                self._wake.clear()
                self._raise_if_lost()
                await self._list_again(session)
                if self._session is not None:
                    self._move(UpstreamState.CONNECTED, self._listing_problem)
                self._tell_news()
        finally:
            self._session = None
            if self._relist_timer is not None:
                self._relist_timer.cancel()
                self._relist_timer = None
            await transport.close()

    async def _list_again(self, session: Session) -> None:
        """Take a listing. A server that does not answer may be busy with a call, for as long as a call may take."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._pacing.list_seconds):
                await self._take_listing(session)
        except TimeoutError:
            self._silent_since = self._silent_since or began
            if time.monotonic() - self._silent_since > self._longest_call_seconds:
                raise
            self._relist_soon()
        else:
            self._silent_since = None

    def _lose(self, fault: TransportFailed) -> None:
        self._session, self._fault = None, fault
        self._move(UpstreamState.DOWN, fault.problem)
        self._wake.set()

    def _raise_if_lost(self) -> None:
        if self._fault is not None:
            raise self._fault

    async def _take_listing(self, session: Session) -> None:
        began = time.monotonic()
        try:
            listing = await session.list_tools(self.listed)
        finally:  # one that fails after a long time must not be tried again at once either
            now = self._listing_ended_at = time.monotonic()
            self._listing_took_seconds = now - began
        self._listed_at = now
        if listing.skipped and listing.problem != self._listing_problem:  # once: calls can make us list again and again
            self._log.warning("upstream.tools_skipped", number=listing.skipped, first=listing.reasons)
        self._listing_problem = listing.problem
        if _digests(listing.listed) == _digests(self.listed):
            return
        # Each change costs warm sandboxes, so a server that changes all the time is heard less and less. Who connects
        # anew each time is not heard sooner: its change waits for the next listing.
        if now < self._changed_at + self._between_listings:
            self._relist_soon()
            return
        restless = now - self._changed_at < self._between_listings + _RESTLESS_SECONDS
        shortest = self._pacing.between_listings_seconds
        self._between_listings = min(2 * self._between_listings, _RESTLESS_SECONDS) if restless else shortest
        self._changed_at = now
        self.listed, self.tools = listing.listed, listing.tools
        self._log.info("upstream.tools_changed", tools=len(self.tools))
        self._on_change()

    def _relist_soon(self) -> None:
        """List at once, unless that was just done: a server may announce changes without end."""

        def relist() -> None:
            self._relist_timer = None
            self._wake.set()

        if self._relist_timer is None:
            # What takes long to read, such as a large listing, is not to be read without a pause.
            shortest = max(
                self._between_listings, min(_PAUSE_PER_LISTING * self._listing_took_seconds, _RESTLESS_SECONDS)
            )
            wait = self._listing_ended_at + shortest - time.monotonic()
            self._relist_timer = asyncio.get_running_loop().call_later(max(0.0, wait), relist)

    def _go_down(self, fault: Exception) -> None:
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


def _digests(listed: Mapping[str, Listed]) -> list[bytes]:
    return [each.digest for each in listed.values()]


def _is_an_error_without_words(result: CallResult) -> bool:
    if isinstance(result, LargeResult):
        return False
    content = result.get("content")
    if result.get("isError") is not True or not isinstance(content, list):
        return False
    return all(isinstance(part, dict) and part.get("text") in ("", "Connection closed") for part in content)
