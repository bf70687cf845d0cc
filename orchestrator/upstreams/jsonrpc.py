"""JSON-RPC messages as MCP uses them: made, encoded, decoded and told apart."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.upstreams import parsing
from orchestrator.upstreams.faults import NotEncodable, NotJson, RpcError
from orchestrator.upstreams.parsing import Text
from orchestrator.upstreams.room import FREE_BYTES

_MOST_IN_A_BATCH = 1000
# Where serialisers put the id: first (Python, Go) or last (the TypeScript SDK).
_ID_AT_THE_HEAD = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_ID_AT_THE_TAIL = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_METHOD_AT_THE_HEAD = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"\s*:')

Message = Mapping[str, Any]
Params = Mapping[str, Any]
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
INITIALIZE = "initialize"  # the one request that must not be cancelled
CANCELLED = "notifications/cancelled"
LIST_CHANGED = "notifications/tools/list_changed"
INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(request_id: int, method: str, params: Params) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def cancellation(request_id: int) -> Message:
    params = {"requestId": request_id, "reason": "no longer needed"}
    return {"jsonrpc": "2.0", "method": CANCELLED, "params": params}


def answer_to(request: Message) -> Message:
    """Answer what a server asks of us: we have no capability but to say that we are there."""
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] == "ping":
        return {**answer, "result": {}}
    return {**answer, "error": {"code": METHOD_NOT_FOUND, "message": "This client has no such capability."}}


def encode(message: Message) -> bytes:
    """Write a message as UTF-8 text in one line; raise NotEncodable if JSON cannot represent it."""
    try:
        try:
            return json.dumps(message, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
            return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise NotEncodable("The message holds a value that JSON cannot represent.") from None


async def decode(raw: Text) -> list[Message]:
    """Read one message, or those of a batch, without holding up the event loop; raise NotJson."""
    return parse(raw) if len(raw) <= FREE_BYTES else await asyncio.to_thread(parse, raw)


def parse(raw: Text) -> list[Message]:
    """Do the same, for as long as it takes."""
    try:
        parsed = parsing.parse(raw) if len(raw) <= FREE_BYTES else parsing.parse_patiently(raw)
    except parsing.TooManyValues as error:
        raise NotJson(f"its answer holds more than {error.most} values") from None
    except (ValueError, RecursionError):
        raise NotJson from None
    messages = parsed if isinstance(parsed, list) else [parsed]
    if len(messages) > _MOST_IN_A_BATCH or not all(isinstance(message, dict) for message in messages):
        raise NotJson
    return messages


def is_reply(message: Message) -> bool:
    return "method" not in message and ("result" in message or "error" in message)


def is_request(message: Message) -> bool:
    return "method" in message and isinstance(message.get("id"), str | int)


def result_of(reply: Message) -> Mapping[str, Any]:
    """Return the result object; raise RpcError for an error in whatever form, NotJson if there is neither."""
    error, result = reply.get("error"), reply.get("result")
    if isinstance(error, dict):
        code, message = error.get("code"), error.get("message")
        raise RpcError(code if isinstance(code, int) else INTERNAL_ERROR, message if isinstance(message, str) else "")
    if error is not None:
        raise RpcError(INTERNAL_ERROR, str(error))
    if not isinstance(result, Mapping):
        raise NotJson
    return result


def id_in(head: bytes, tail: bytes) -> int | None:
    """Find the id of a message that was too large to keep in its two ends."""
    found = _ID_AT_THE_HEAD.search(head) or _ID_AT_THE_TAIL.search(tail)
    return int(found.group(1)) if found else None


def names_a_method(head: bytes) -> bool:
    """Tell whether a message that was too large to keep is none of the replies."""
    return _METHOD_AT_THE_HEAD.search(head) is not None
