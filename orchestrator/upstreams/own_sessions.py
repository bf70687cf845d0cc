"""Sessions that a server keeps for one execution each, so that no program meets what another left in its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Protocol

import structlog

from orchestrator.domain.errors import GrantInvalid, StateLost
from orchestrator.upstreams.entries import ServerEntry
from orchestrator.upstreams.faults import RpcError, SessionLost, Severed, TransportFailed
from orchestrator.upstreams.session import Session
from orchestrator.upstreams.transport import Alerts, Transport

_DISCONNECTED = "we have disconnected from it"
_NO_SESSIONS = (
    'it has no sessions, so "session": "execution" cannot keep executions apart. Start it in a mode with sessions, or '
    "remove that key from its entry in servers.json"
)
# A session that is just being made can be ended only when the server has said how it is called.
_UNTIL_NAMED_SECONDS = 2.0

MakeTransport = Callable[[ServerEntry, Alerts], Transport]


class SessionOwner(Protocol):
    """An execution, as a server knows it. Whoever does not hold this object has no way to its sessions."""

    @property
    def ended(self) -> bool: ...

    @property
    def begun(self) -> dict[str, object]:
        """Return the newest session at each server, until the execution has been told that it is lost."""

    def place_at(self, server: str) -> AbstractAsyncContextManager[None]:
        """Return a context that is entered when the server may have one more session."""

    def when_ended(self, close: Callable[[], None]) -> None: ...


class OwnSession:
    """One execution's session at one server. Its task waits for a place, opens it, keeps it, and closes it once."""

    def __init__(
        self, owner: SessionOwner, entry: ServerEntry, make_transport: MakeTransport, relist: Callable[[], None]
    ) -> None:
        self.owner = owner
        self.has_place = False
        self._entry = entry
        self._make_transport = make_transport
        self._relist = relist
        self._fault: TransportFailed | None = None
        self._closing = False
        self._deadline: asyncio.Timeout | None = None  # there only while the server is asked for a session
        self._opened: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return self._closing

    @property
    def was_opened(self) -> bool:
        return self._opened.done() and self._opened.exception() is None

    @property
    def problem(self) -> str:
        return self._fault.problem if self._fault is not None else _DISCONNECTED

    def start(self, connect_seconds: float) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._live(connect_seconds), name=f"own session {self._entry.name}")
        self._task.add_done_callback(self._disappoint)  # also when it was cancelled before it could begin
        return self._task

    async def opened(self) -> Session:
        """Wait for the session; whoever gives up leaves it to the others that wait for it."""
        return await asyncio.shield(self._opened)

    def lose(self, fault: TransportFailed) -> None:
        self._fault = self._fault or fault
        self.close()

    def close(self) -> None:
        """Begin to close. Once: to be cancelled again would interrupt the farewell to the server."""
        if self._closing:
            return
        self._closing = True
        if self._deadline is not None:
            soon = asyncio.get_running_loop().time() + _UNTIL_NAMED_SECONDS
            with suppress(RuntimeError):  # it has passed
                self._deadline.reschedule(min(soon, self._deadline.when() or soon))
        elif self._task is not None:
            self._task.cancel()

    async def _live(self, connect_seconds: float) -> None:
        try:
            async with self.owner.place_at(self._entry.name):
                self.has_place = True
                await self._open_and_keep(connect_seconds)
        except Exception as error:
            self._fault = self._fault or self._in_words(error)

    async def _open_and_keep(self, connect_seconds: float) -> None:
        alerts = Alerts(relist=self._relist, lost=self.lose)
        transport = self._make_transport(self._entry, alerts)
        session = Session(self._entry.name, transport, alerts, is_renewed=False)
        try:
            async with asyncio.timeout(connect_seconds) as deadline:
                await transport.open()
                self._deadline = deadline
                await session.open()
            self._deadline = None
            if not transport.is_apart:
                raise TransportFailed(_NO_SESSIONS)
            if not self._closing:
                self.owner.begun[self._entry.name] = self
                self._opened.set_result(session)
                await asyncio.Event().wait()
        finally:
            self._closing, self._deadline = True, None
            await transport.close()

    def _disappoint(self, _: object) -> None:
        """Tell whoever waits for the session that there will be none."""
        self._closing = True
        if not self._opened.done():
            self._opened.set_exception(TransportFailed(self.problem))
            self._opened.exception()  # seen: there may be nobody who waits

    def _in_words(self, error: Exception) -> TransportFailed:
        match error:
            case TransportFailed():
                return error
            case TimeoutError():
                return TransportFailed("it does not begin a session in time")
            case RpcError():
                return TransportFailed(f"it refuses to begin a session (error {error.code})")
            case _:
                structlog.get_logger().error("upstream.session_crashed", server=self._entry.name, exc_info=error)
                return TransportFailed("an unexpected error in the daemon. See the daemon's log")


class OwnSessions:
    """The sessions of one server that belong to executions."""

    def __init__(
        self,
        entry: ServerEntry,
        make_transport: MakeTransport,
        relist: Callable[[], None],
        connect_seconds: float,
    ) -> None:
        self._entry = entry
        self._make_transport = make_transport
        self._relist = relist
        self._connect_seconds = connect_seconds
        self._by_owner: dict[SessionOwner, OwnSession] = {}
        self._tasks: dict[asyncio.Task[None], OwnSession] = {}  # what is being closed is still held by the server
        self._over = False

    def __len__(self) -> int:
        return sum(own.has_place for own in self._tasks.values())

    def has(self, owner: SessionOwner) -> bool:
        return owner in self._by_owner and not self._by_owner[owner].over

    def begin(self, owner: SessionOwner) -> OwnSession:
        """Return the owner's session, which may still be opening: it is one, however many calls ask for it at once."""
        if owner.ended:
            raise GrantInvalid("The execution has ended, or its key was taken away.")
        if self.has(owner):
            return self._by_owner[owner]
        before = self._by_owner.pop(owner, None)
        if owner.begun.pop(self._entry.name, None) is not None:
            # Lost while no call was under way. In a new session, the program would miss what it left in the old one.
            raise self._state_lost(before.problem if before is not None else "its entry in servers.json has changed")
        if self._over:
            raise TransportFailed(_DISCONNECTED)
        own = self._by_owner[owner] = OwnSession(owner, self._entry, self._make_transport, self._relist)
        task = own.start(self._connect_seconds)
        self._tasks[task] = own
        task.add_done_callback(self._tasks.pop)
        owner.when_ended(partial(self._leave, own))
        return own

    def loss(self, own: OwnSession, failure: TransportFailed) -> StateLost | None:
        """Return what to say of a call that failed, if the session failed with it; the next call begins a new one."""
        if not own.was_opened or not (own.over or isinstance(failure, SessionLost | Severed)):
            return None
        own.lose(failure)
        if own.owner.begun.get(self._entry.name) is own:  # and not one that another call has begun meanwhile
            del own.owner.begun[self._entry.name]
        return self._state_lost(failure.problem)

    async def close(self) -> None:
        """End every session, and return when the server has been told so, or its processes have ended."""
        self._over = True
        for own in self._tasks.values():
            own.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self, own: OwnSession) -> None:
        own.close()
        if self._by_owner.get(own.owner) is own:
            del self._by_owner[own.owner]

    def _state_lost(self, problem: str) -> StateLost:
        name = self._entry.name
        return StateLost(f"The server {name} no longer has this execution's session, so its state is gone: {problem}.")
