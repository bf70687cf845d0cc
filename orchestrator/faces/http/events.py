"""What happens in an execution, as server-sent events: while it runs, and afterwards from the journal.

Every event has an id that says how much the client has by then, so that a stream can be continued after any of them.
The two sources tell the same things in another order, and an id counts what was told, not when: it holds for both.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import time
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import Field

from orchestrator.domain.errors import InvalidRequest, OrchestratorError
from orchestrator.domain.execution import ExecutionRecord, ExecutionResult, State, Stream
from orchestrator.domain.ledger import CallRecord, ToolCall
from orchestrator.faces.bodies import Body, ExecutionReply, ToolCallBody
from orchestrator.faces.context import CALLER, SERVICES, Services
from orchestrator.faces.http.requests import EXECUTION_ID, Query
from orchestrator.service.records import LARGEST_OUTPUT_BYTES
from orchestrator.service.running import RunningExecution

EVENT_STREAM = "text/event-stream"
HEADERS = {"Content-Type": f"{EVENT_STREAM}; charset=utf-8", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
PIECE_BYTES = 64 * 1024
LOOK_EVERY_SECONDS = 0.5  # how long a key that is gone may still hear
# Bytes of stdout and of stderr, tool calls, and of those the ones that are still missing.
EVENT_ID = re.compile(r"([0-9]{1,12})-([0-9]{1,12})-([0-9]{1,9})((?:\.[0-9]{1,9}){0,1000})(-end)?")


class StartedEvent(Body):
    """The first event: the execution's id, and its place in the queue."""

    execution_id: str
    position: int = Field(description="0 when it runs, 1 when it is next.")


class OutputEvent(Body):
    """Something that the program printed, on the stream that the event is named after."""

    text: str


class HeartbeatEvent(Body):
    """Nothing happened for a while; the execution is under way."""

    state: State
    position: int = Field(description="0 when it runs, 1 when it is next.")


# In the order in which a stream may have them.
EVENTS: dict[str, type[Body]] = {
    "started": StartedEvent,
    "stdout": OutputEvent,
    "stderr": OutputEvent,
    "tool_call": ToolCallBody,
    "heartbeat": HeartbeatEvent,
    "result": ExecutionReply,
}


class EventsQuery(Query):
    last_event_id: str | None = Field(
        None, description="The same as the header `Last-Event-ID`, for clients that cannot set it; the header counts."
    )


@dataclass(frozen=True, slots=True)
class Place:
    """How much of an execution a client has."""

    bytes: dict[Stream, int] = field(default_factory=lambda: dict.fromkeys(Stream, 0))
    calls: int = 0
    missing: frozenset[int] = frozenset()  # of the first `calls`: they took longer than some that began later
    at_end: bool = False

    @classmethod
    def parse(cls, event_id: str | None) -> Place:
        """Read an event's id; without one, begin at the beginning."""
        if not event_id:
            return cls()
        found = EVENT_ID.fullmatch(event_id)
        if found is None:
            raise InvalidRequest("`Last-Event-ID` must be the id of an event of this execution, such as 120-0-3.")
        calls, missing = int(found[3]), frozenset(int(number) for number in found[4].split(".")[1:])
        if missing and max(missing) >= calls:
            raise InvalidRequest("`Last-Event-ID` must be the id of an event of this execution: it names no such call.")
        return cls({Stream.STDOUT: int(found[1]), Stream.STDERR: int(found[2])}, calls, missing, bool(found[5]))

    def require_within(self, stdout_bytes: int, stderr_bytes: int, calls: int) -> None:
        """Refuse the id of another execution, if it shows: no client can have more than there is."""
        has = (self.bytes[Stream.STDOUT], self.bytes[Stream.STDERR], self.calls)
        if any(ours > there for ours, there in zip(has, (stdout_bytes, stderr_bytes, calls), strict=True)):
            raise InvalidRequest(
                f"`Last-Event-ID` must be the id of an event of this execution, which has {stdout_bytes} bytes of "
                f"stdout, {stderr_bytes} of stderr and {calls} tool calls."
            )


class Delivery:
    """What one client has got, and how to go on from there."""

    def __init__(self, after: Place) -> None:
        self._bytes = dict(after.bytes)
        self._calls = after.calls
        self._missing = set(after.missing)
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream}

    @property
    def id(self) -> str:
        """Name the place before any character of which only some bytes have come."""
        sizes = (str(self._bytes[stream] - len(self._decoders[stream].getstate()[0])) for stream in Stream)
        return "-".join((*sizes, ".".join(map(str, (self._calls, *sorted(self._missing))))))

    def offset(self, stream: Stream) -> int:
        return self._bytes[stream]

    def take(self, stream: Stream, start: int, data: bytes) -> str:
        """Return the text of those bytes from `start` on that are new."""
        fresh = data[max(0, self._bytes[stream] - start) :]
        self._bytes[stream] += len(fresh)
        return self._decoders[stream].decode(fresh)

    def take_rest(self, stream: Stream, *, cut: bool) -> str:
        """Return what stands for the bytes of a last character that never became whole, unless we cut it."""
        return self._decoders[stream].decode(b"", final=not cut)

    def take_call(self, number: int) -> bool:
        """Note a call; tell whether it is new."""
        if number < self._calls:
            is_new = number in self._missing
            self._missing.discard(number)
            return is_new
        self._missing.update(range(self._calls, number))
        self._calls = number + 1
        return True


class EventStream:
    """One client that watches one execution. What it does not read, waits: the execution does not."""

    def __init__(
        self, request: web.Request, execution_id: str, after: Place | None = None, *, may_last: bool = False
    ) -> None:
        self._request = request
        self._may_last = may_last
        self._services: Services = request.app[SERVICES]
        self._execution_id = execution_id
        self._delivery = Delivery(after or Place())
        self._response = web.StreamResponse(headers=HEADERS)
        self._checked_at = time.monotonic()

    async def open(self) -> web.StreamResponse:
        await self._response.prepare(self._request)
        return self._response

    async def follow(self, running: RunningExecution) -> web.StreamResponse:
        """Send what happens until it ends, then the result."""
        await self._start(running.position)
        told = dict.fromkeys(Stream, 0)
        told_at = time.monotonic()
        look_every = min(LOOK_EVERY_SECONDS, self._services.heartbeat_seconds)
        async for happening in running.happenings(look_every):
            await asyncio.sleep(0)  # there may be many at once, and nothing else makes this task give way
            self._require_access(running.execution.caller.key_name)
            if happening is None and time.monotonic() - told_at < self._services.heartbeat_seconds:
                continue
            told_at = time.monotonic()
            if happening is None:
                await self._send("heartbeat", HeartbeatEvent(state=running.state, position=running.position))
            elif isinstance(happening, CallRecord):
                await self._send_call(happening.number, happening.call)
            else:
                stream, start = happening.stream, told[happening.stream]
                told[stream] += len(happening.data)
                await self._send_output(stream, self._delivery.take(stream, start, happening.data))
        result = await running.result()
        return await self._end(result.record, await reply_text(self._services, result))

    async def replay(self, record: ExecutionRecord) -> web.StreamResponse:
        """Send what the journal has, as soon as it has the end, then the result."""
        records = self._services.records
        await self._start(0)
        while record.under_way:  # by somebody else than us, or its end could not be recorded yet
            await asyncio.sleep(self._services.heartbeat_seconds)
            self._require_access(record.caller)
            await self._send("heartbeat", HeartbeatEvent(state=record.state, position=0))
            record = await records.visible(self._request[CALLER], record.id)
        for stream in Stream:
            while (piece := await records.output(record, stream, self._delivery.offset(stream), PIECE_BYTES)).data:
                text = self._delivery.take(stream, self._delivery.offset(stream), piece.data)
                await self._send_output(stream, text)
        outputs = [(await records.output(record, stream, 0, LARGEST_OUTPUT_BYTES)).data for stream in Stream]
        return await self._end(record, ExecutionReply.of_stored(record, *outputs).model_dump_json(by_alias=True))

    async def _start(self, position: int) -> None:
        await self.open()
        await self._send("started", StartedEvent(execution_id=self._execution_id, position=position))

    async def _end(self, record: ExecutionRecord, reply: str) -> web.StreamResponse:
        for stream in Stream:
            await self._send_output(stream, self._delivery.take_rest(stream, cut=record.truncated))
        for number, call in enumerate(record.tool_calls):  # those that were still under way
            await self._send_call(number, call)
        await self._send("result", reply, end="-end")
        await self._response.write_eof()
        return self._response

    async def _send_call(self, number: int, call: ToolCall) -> None:
        if self._delivery.take_call(number):
            await self._send("tool_call", ToolCallBody.of(call))

    async def _send_output(self, stream: Stream, text: str) -> None:
        if text:
            await self._send(stream, OutputEvent(text=text))

    async def _send(self, name: str, body: Body | str, end: str = "") -> None:
        text = body if isinstance(body, str) else body.model_dump_json(by_alias=True)
        await self._response.write(f"id: {self._delivery.id}{end}\nevent: {name}\ndata: {text}\n\n".encode())

    def _require_access(self, owner: str) -> None:
        """Look now and then whether the key still holds: an execution may run for a day."""
        if self._may_last and time.monotonic() - self._checked_at >= LOOK_EVERY_SECONDS:
            caller = self._services.authenticator.authenticate(self._request.headers)
            if not caller.may_see(owner):
                raise InvalidRequest("The execution can no longer be seen with this key.")
            self._checked_at = time.monotonic()


async def watch(request: web.Request, query: EventsQuery) -> web.StreamResponse:
    """Stream the events of any execution that the caller may see, from any point; leaving does not end it."""
    services, execution_id = request.app[SERVICES], request.match_info["id"]
    # In this order: what is no longer running when we look has its end in the journal when we look there.
    running = services.executions.find_running(execution_id)
    record = await services.records.visible(request[CALLER], execution_id)
    request[EXECUTION_ID] = execution_id
    place = Place.parse(request.headers.get("Last-Event-ID", query.last_event_id))
    if running is not None:
        sizes = running.size(Stream.STDOUT), running.size(Stream.STDERR)
        place.require_within(*sizes, len(running.calls_so_far()))
    elif record.state is State.FINISHED:  # one that was interrupted has lost its output
        place.require_within(record.stdout_bytes, record.stderr_bytes, len(record.tool_calls))
    if place.at_end and not record.under_way:
        return web.Response(status=204)  # so that a client which reconnects by itself gives up
    stream = EventStream(request, execution_id, place, may_last=True)
    if request.method == "HEAD":
        return await stream.open()
    try:
        return await (stream.follow(running) if running is not None else stream.replay(record))
    except OrchestratorError:
        # The stream has begun, so there is no place for a problem. It ends without a result: a client that goes on
        # after the last event hears why.
        return await stream.open()


async def reply_text(services: Services, result: ExecutionResult) -> str:
    def write() -> str:
        return ExecutionReply.of_result(result, services.tokens.count).model_dump_json(by_alias=True)

    # Pictures may have megabytes; most executions have none, and a thread would take longer than their reply.
    return await asyncio.to_thread(write) if result.images else write()
