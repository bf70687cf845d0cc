"""The messages of a tool call, of which arguments and results that are large stay the text that they are."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from orchestrator.domain.json_text import JsonObject, JsonScan, NotJsonText, Span, Text, Visit
from orchestrator.domain.upstream import LargeResult
from orchestrator.upstreams.faults import NotJson, ResultTooLarge
from orchestrator.upstreams.jsonrpc import Message, decode, encode, parse
from orchestrator.upstreams.room import FREE_BYTES, Room

_MAX_ERROR_BYTES = 1024 * 1024
_MAX_SMALL_BYTES = 200
_MAX_IMAGES = 10
_MAX_IMAGES_BYTES = 6 * 1024 * 1024


def encode_call(message: Message) -> bytes:
    """Write a message like any other, with its arguments as they are if they are text."""
    arguments = message.get("params", {}).get("arguments")
    if not isinstance(arguments, JsonObject):
        return encode(message)
    around = encode({**message, "params": {**message["params"], "arguments": None}})
    before, name, after = around.partition(b'"arguments":')
    text = arguments.text
    # Strings hold no line breaks that are not escaped, so there are only those of the layout. Either character goes:
    # many servers read lines that end in CR too, and what follows it would be a message that the program wrote.
    if b"\n" in text or b"\r" in text:
        text = text.translate(None, b"\r\n")
    return b"".join((before, name, text, after.removeprefix(b"null")))


async def decode_reply(raw: Text, room: Room | None) -> list[Message]:
    """Read a message like any other; with a room, which a tool call has, a large result stays text."""
    if room is None or len(raw) <= FREE_BYTES:
        return await decode(raw)
    return await room.in_turn(partial(_read_large, raw))


def _read_large(raw: Text) -> list[Message]:
    try:
        scan = JsonScan(raw)
        return [_read_large_reply(scan)] if scan.is_object(scan.start) else parse(raw)
    except NotJsonText:
        raise NotJson from None


def _read_large_reply(scan: JsonScan) -> Message:
    """Return the message, its result as a LargeResult; raise NotJsonText or ResultTooLarge. It uses up the scan."""
    message, result, images = _Members(scan), _Members(scan), list[str]()

    def read_content(start: int) -> int:
        content = _Members(scan)
        end = content.read(start, type=scan.value, data=scan.value)
        room = _MAX_IMAGES_BYTES - sum(map(len, images))
        if content.text("type") == b'"image"' and content.size("data") <= room and len(images) < _MAX_IMAGES:
            images.append(content.string("data"))
        return end

    def read_contents(start: int) -> int:
        images.clear()
        return scan.items(start, read_content) if scan.is_array(start) else scan.value(start)

    def read_result(start: int) -> int:
        result.forget()
        return result.read(start, isError=scan.value, content=read_contents)

    value = scan.value
    scan.finish(message.read(scan.start, id=value, method=value, error=value, result=read_result))
    if message.size("error") > _MAX_ERROR_BYTES:
        raise ResultTooLarge(_MAX_ERROR_BYTES)
    known = {name: message.decoded(name) for name in ("id", "method", "error") if name in message}
    if "result" not in message:
        return known
    # What has so many bytes is neither false nor 0.
    failed = result.size("isError") > _MAX_SMALL_BYTES or ("isError" in result and bool(result.decoded("isError")))
    if not scan.is_object(message["result"].start):
        return {**known, "result": None}
    return {**known, "result": LargeResult(scan.take(message["result"]), failed=failed, images=tuple(images))}


class _Members:
    """Where those members of an object are that somebody wants to know of."""

    def __init__(self, scan: JsonScan) -> None:
        self._scan = scan
        self._spans: dict[str, Span] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def __getitem__(self, name: str) -> Span:
        return self._spans[name]

    def read(self, start: int, **visits: Visit) -> int:
        """Walk through a value, if it is an object with these visits, and return where it ends."""
        if not self._scan.is_object(start):
            return self._scan.value(start)
        return self._scan.members(start, {name: self._noting(name, visit) for name, visit in visits.items()})

    def forget(self) -> None:
        self._spans.clear()

    def size(self, name: str) -> int:
        start, end = self._spans.get(name, (0, 0))
        return end - start

    def text(self, name: str) -> bytes:
        start, end = self._spans.get(name, (0, 0))
        return bytes(self._scan.text[start : min(end, start + _MAX_SMALL_BYTES)])

    def string(self, name: str) -> str:
        """Return a string of any length; what is none is an empty one."""
        start, end = self._spans.get(name, (0, 0))
        text = self._scan.text[start:end]
        if not text.startswith(b'"'):
            return ""
        return str(json.loads(text)) if b"\\" in text else text[1:-1].decode()

    def decoded(self, name: str) -> Any:
        start, end = self._spans[name]
        if name != "error" and end - start > _MAX_SMALL_BYTES:
            raise NotJsonText(f"its {name} is too long")
        return json.loads(self._scan.text[start:end], parse_constant=lambda _: None)

    def _noting(self, name: str, visit: Visit) -> Visit:
        def note(start: int) -> int:
            end = visit(start)
            self._spans[name] = Span(start, end)
            return end

        return note
