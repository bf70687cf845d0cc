"""JSON-RPC messages: made, read, and interpreted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.domain.errors import InvalidArguments
from orchestrator.upstreams.faults import RpcError, TransportFailed

_PARSED_ON_THE_LOOP_BYTES = 256 * 1024
_MOST_IN_A_BATCH = 1000
# Where serialisers put the id: first (Python, Go) or last (the TypeScript SDK).
_ID_AT_THE_HEAD = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_ID_AT_THE_TAIL = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

Params = Mapping[str, Any]
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class NotJson(TransportFailed):
    def __init__(self) -> None:
        super().__init__("it answers something that is not JSON-RPC")


def encode_request(request_id: int, method: str, params: Params) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def encode_notification(method: str, params: Params) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def encode_answer(request: Mapping[str, Any]) -> bytes:
    """To what a server may ask of us: only whether we are there."""
    if request["method"] == "ping":
        return _encode({"jsonrpc": "2.0", "id": request["id"], "result": {}})
    error = {"code": METHOD_NOT_FOUND, "message": "This client has no such capability."}
    return _encode({"jsonrpc": "2.0", "id": request["id"], "error": error})


def _encode(message: Mapping[str, Any]) -> bytes:
    try:
        return _written(message)
    except (TypeError, ValueError, RecursionError):
        raise InvalidArguments("The arguments hold something that JSON has no form for.") from None


def _written(message: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(message, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate has only its escape
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


async def decode(raw: bytes) -> list[Mapping[str, Any]]:
    """The message, or the messages of a batch."""
    try:
        if len(raw) <= _PARSED_ON_THE_LOOP_BYTES:
            return _messages(_parse(raw))
        return _messages(await asyncio.to_thread(_parse_politely, raw))
    except (ValueError, RecursionError):
        raise NotJson from None


def _parse(raw: bytes) -> Any:
    # NaN and the infinities are not JSON, though Python's servers write them; like JavaScript's writer, say null.
    return json.loads(raw, parse_constant=_null)


def _parse_politely(raw: bytes) -> Any:
    # The C parser holds the interpreter lock to its end, from a thread too, unless it has Python to run in between.
    return json.loads(raw, parse_constant=_null, object_hook=_same)


def _null(_: str) -> None:
    return None


def _same(value: Any) -> Any:
    return value


def _messages(parsed: Any) -> list[Mapping[str, Any]]:
    messages = parsed if isinstance(parsed, list) else [parsed]
    if len(messages) > _MOST_IN_A_BATCH:
        raise NotJson
    if not all(isinstance(message, dict) for message in messages):
        raise NotJson
    return messages


def is_reply(message: Mapping[str, Any]) -> bool:
    return "method" not in message and ("result" in message or "error" in message)


def is_request(message: Mapping[str, Any]) -> bool:
    return "method" in message and message.get("id") is not None


def result_of(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    error = reply.get("error")
    if error is not None:
        raise _rpc_error(error)
    result = reply.get("result")
    if not isinstance(result, dict):
        raise NotJson
    return result


def _rpc_error(error: Any) -> RpcError:
    if not isinstance(error, dict):
        return RpcError(INTERNAL_ERROR, str(error))
    code, message = error.get("code"), error.get("message")
    return RpcError(code if isinstance(code, int) else INTERNAL_ERROR, message if isinstance(message, str) else "")


def id_in(head: bytes, tail: bytes) -> int | None:
    """Of a message that was too large to keep."""
    found = _ID_AT_THE_HEAD.search(head) or _ID_AT_THE_TAIL.search(tail)
    return int(found.group(1)) if found else None
