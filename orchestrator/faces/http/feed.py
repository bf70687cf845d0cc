"""What happens in the daemon, as server-sent events: executions, tool calls, servers and the load."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

from aiohttp import web
from pydantic import Field

from orchestrator.domain.access import Caller
from orchestrator.domain.counts import count_down
from orchestrator.domain.errors import InvalidRequest, TooManyStreams, Unauthenticated
from orchestrator.domain.events import Event, Gap, Load
from orchestrator.domain.execution import ExecutionRecord
from orchestrator.domain.ledger import CallRecord
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from orchestrator.faces.bodies import Body, ExecutionSummary, ToolCallBody, shown_as
from orchestrator.faces.context import CALLER, SERVICES, Services
from orchestrator.faces.http.events import HEADERS, LOOK_EVERY_SECONDS, EventsQuery
from orchestrator.service.events import MOST_AT_ONCE

# Between two deliveries: what happens meanwhile comes together.
PAUSE_SECONDS = 0.05
MOST_OF_A_CALLER = 16
MOST_WRITTEN = 4096
RETRY_AFTER_SECONDS = 5
EVENT_ID = re.compile(r"([0-9a-f]{8})-([0-9]{1,15})")


class LoadBody(Body):
    """How busy the daemon is, and whether an execution would work now."""

    running: int
    waiting: int
    warm: int = Field(description="Sandboxes that wait for a program.")
    sandboxes: int = Field(description="Sandboxes that exist.")
    ready: bool
    problem: str | None = Field(description="What keeps executions from working.")


class CallEvent(ToolCallBody):
    """A tool call that began or ended; the same number is the same call."""

    execution_id: str
    number: int = Field(description="Its place among the calls of its execution, from 0 on.")

    @classmethod
    def of_record(cls, record: CallRecord) -> CallEvent:
        told = {name: getattr(record.call, name) for name in ToolCallBody.model_fields}
        return cls.model_construct(**told, execution_id=record.execution_id, number=record.number)


class ServerEvent(Body):
    """A server as it is now."""

    server: str
    state: UpstreamState
    tools: int
    problem: str | None


class GapEvent(Body):
    """Events were missed, because the client was too slow or the daemon was restarted: read the lists again."""


class QuietEvent(Body):
    """Nothing happened for a while."""


EVENTS: dict[str, type[Body]] = {
    "load": LoadBody,
    "server": ServerEvent,
    "execution": ExecutionSummary,
    "tool_call": CallEvent,
    "gap": GapEvent,
    "heartbeat": QuietEvent,
}


class Watchers:
    """How many watch for each caller, and what was written for one of them, which is the same for all."""

    def __init__(self) -> None:
        self._of_caller: Counter[str] = Counter()
        self._written: OrderedDict[int, bytes] = OrderedDict()

    @contextmanager
    def one_more(self, caller: str) -> Iterator[None]:
        if self._of_caller[caller] >= MOST_OF_A_CALLER:
            message = f"You already have {MOST_OF_A_CALLER} event streams open."
            raise TooManyStreams(message, retry_after_seconds=RETRY_AFTER_SECONDS)
        self._of_caller[caller] += 1
        try:
            yield
        finally:
            count_down(self._of_caller, caller)

    def block(self, epoch: str, event: Event) -> bytes:
        """Return an event as it is sent. A gap has the number of an event that it stands for."""
        if isinstance(event.subject, Gap):
            return _block(epoch, event.number, *_body(event))
        written = self._written.get(event.number)
        if written is None:
            written = self._written[event.number] = _block(epoch, event.number, *_body(event))
            if len(self._written) > MOST_WRITTEN:
                self._written.popitem(last=False)
        return written


WATCHERS = web.AppKey("watchers", Watchers)


class Feed:
    """One client that watches the daemon."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._services: Services = request.app[SERVICES]
        self._watchers = request.app[WATCHERS]
        self._events = self._services.events
        self._response = web.StreamResponse(headers=HEADERS)

    async def open(self) -> web.StreamResponse:
        await self._response.prepare(self._request)
        return self._response

    async def follow(self, after: str | None) -> web.StreamResponse:
        """Send what the caller may see, from now on or from an event on, until the client leaves or its key is gone."""
        number = await self._begin(after)
        told_at = time.monotonic()
        while (caller := self._still_known()) is not None:
            newest = self._events.number
            happened = self._events.since(caller, number)
            if happened:
                await self._response.write(b"".join(map(self._written, happened)))
                number, told_at = happened[-1].number, time.monotonic()
            if len(happened) < MOST_AT_ONCE and not any(isinstance(event.subject, Gap) for event in happened):
                number = max(number, newest)  # what came besides is not for this caller
            if time.monotonic() - told_at >= self._services.heartbeat_seconds:
                told_at = time.monotonic()
                await self._response.write(_block(self._events.epoch, number, "heartbeat", QuietEvent()))
            await self._events.wait(number, LOOK_EVERY_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)
        await self._response.write_eof()
        return self._response

    async def _begin(self, after: str | None) -> int:
        """Tell how things are, unless the client has seen it, and return the number of the event to go on after."""
        found = EVENT_ID.fullmatch(after) if after else None
        if after and found is None:
            raise InvalidRequest("`Last-Event-ID` must be the id of an event of this stream, such as 0a1b2c3d-120.")
        await self.open()
        epoch, number = self._events.epoch, self._events.number
        if found and found[1] == epoch and int(found[2]) <= number:
            return int(found[2])
        if found:
            await self._response.write(_block(epoch, number, "gap", GapEvent()))
        for event in self._events.state(self._request[CALLER]):
            await self._response.write(_block(epoch, number, *_body(event)))
        return number

    def _still_known(self) -> Caller | None:
        """Return the caller with the role that it has now; None if its key is gone, or its session has ended."""
        try:
            return self._services.authenticator.authenticate(self._request.headers)
        except Unauthenticated:
            return None

    def _written(self, event: Event) -> bytes:
        return self._watchers.block(self._events.epoch, event)


def _body(event: Event) -> tuple[str, Body]:
    match event.subject:
        case ExecutionRecord() as record:
            return "execution", ExecutionSummary.of(record)
        case CallRecord() as call:
            return "tool_call", CallEvent.of_record(call)
        case UpstreamStatus() as status:
            return "server", shown_as(ServerEvent, status)
        case Load() as load:
            return "load", shown_as(LoadBody, load)
        case Gap():
            return "gap", GapEvent()
        case unknown:
            assert_never(unknown)


def _block(epoch: str, number: int, name: str, body: Body) -> bytes:
    return f"id: {epoch}-{number}\nevent: {name}\ndata: {body.model_dump_json(by_alias=True)}\n\n".encode()


async def watch(request: web.Request, query: EventsQuery) -> web.StreamResponse:
    """Stream what happens, to whoever may see it."""
    feed = Feed(request)
    if request.method == "HEAD":
        return await feed.open()
    with request.app[WATCHERS].one_more(request[CALLER].key_name):
        return await feed.follow(request.headers.get("Last-Event-ID", query.last_event_id))
