"""Calls tools through the gateway, which is the only address that a sandbox reaches."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ._arguments import Rule, as_json, problems, without_absent
from ._http import Connections
from .errors import InvalidArguments, ToolDenied, ToolError, ToolLimitExceeded, ToolUnavailable

_ERRORS: dict[str, type[ToolError]] = {
    "tool_denied": ToolDenied,
    "grant_invalid": ToolDenied,
    "tool_unavailable": ToolUnavailable,
    "invalid_arguments": InvalidArguments,
    "limit_exceeded": ToolLimitExceeded,
}

_connections = Connections()


class Tool:
    def __init__(self, *, server: str, name: str, signature: str, rule: Rule, aliases: Mapping[str, str]) -> None:
        self._about = {"server": server, "tool": name}
        self._signature = signature
        self._rule = rule
        self._aliases = aliases

    def call(self, arguments: Any, named: Mapping[str, Any]) -> Any:
        given = self._checked(arguments, named)
        names = ", ".join(f"{json.dumps(key)}: {json.dumps(name)}" for key, name in self._about.items())
        body = f'{{{names}, "arguments": {given}}}'
        return now_or_pending(lambda: self._result(body))

    def _checked(self, arguments: Any, named: Mapping[str, Any]) -> str:
        arguments, named = _settled(arguments), _settled(named)
        if arguments is not None and not isinstance(arguments, dict):
            raise self._invalid("the arguments must be keywords or one dict")
        spelled = {self._aliases.get(name, name): value for name, value in named.items()}
        given = without_absent(self._rule, {**(arguments or {}), **spelled})
        if found := problems(self._rule, given):
            raise self._invalid("; ".join(found))
        try:
            return as_json(given)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._invalid(f"the arguments cannot be written as JSON: {error}") from None

    def _invalid(self, message: str) -> InvalidArguments:
        hint = f"Usage: {self._signature}"
        return InvalidArguments(message, **self._about, code="invalid_arguments", hint=hint)

    def _result(self, body: str) -> Any:
        result = ask("/call", body, **self._about)
        if result.get("isError"):
            raise ToolError(_error_message(result), **self._about)
        return _unwrap(result)


def now_or_pending(call: Callable[[], Any]) -> Any:
    if not _is_in_event_loop():
        return call()
    from ._pending import Pending

    return Pending(call)


def _is_in_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _settled(value: Any) -> Any:
    pending = sys.modules.get(f"{__package__}._pending")
    try:
        return pending.settled(value) if pending else value
    except RecursionError:
        return value  # it contains itself, which is told when it is written as JSON


def ask(path: str, body: str, server: str = "", tool: str = "") -> Any:
    about = {"server": server, "tool": tool}
    try:
        status, reply = _exchange(path, body.encode())
    except OSError as error:
        message = f"The gateway cannot be reached: {error}"
        raise ToolUnavailable(message, **about, code="tool_unavailable") from None
    parsed = _parsed(reply)
    if status == 200 and parsed is not None:
        return parsed
    raise _refusal(status, parsed, about)


def _exchange(path: str, body: bytes) -> tuple[int, bytes]:
    gateway, grant = os.environ.get("CODE_EXECUTOR_GATEWAY"), os.environ.get("CODE_EXECUTOR_GRANT")
    if not gateway or not grant:
        raise ConnectionError("there is none here.")
    return _connections.post(gateway, path, grant, body)


def _parsed(reply: bytes) -> Any:
    try:
        return json.loads(reply)
    except ValueError:
        return None


def _error_for(status: int) -> type[ToolError]:
    if status in {401, 403}:
        return ToolDenied
    if status in {400, 422}:
        return InvalidArguments
    if status in {413, 429}:
        return ToolLimitExceeded
    return ToolUnavailable if status >= 500 else ToolError


def _refusal(status: int, parsed: Any, about: Mapping[str, str]) -> ToolError:
    said = parsed if isinstance(parsed, dict) else {}
    code = said.get("code", "")
    kind = _ERRORS.get(code) or _error_for(status)
    message = said.get("message") or f"The gateway answered with status {status} and no explanation."
    return kind(message, **about, code=code or "tool_error", hint=said.get("hint"))


def _contents(result: Mapping[str, Any]) -> list[Any]:
    contents = result.get("content")
    return contents if isinstance(contents, list) else []


def _error_message(result: Mapping[str, Any]) -> str:
    texts = [content["text"] for content in _contents(result) if content.get("type") == "text"]
    return "\n".join(texts) or "The tool failed without a message."


def _unwrap(result: Mapping[str, Any]) -> Any:
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    unwrapped = [_unwrap_content(content) for content in _contents(result)]
    return unwrapped if len(unwrapped) > 1 else next(iter(unwrapped), None)


def _unwrap_content(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    if content.get("type") == "text":
        return _parsed_if_json(str(content.get("text", "")))
    from .content import unwrap_content

    return unwrap_content(content)


def _parsed_if_json(text: str) -> Any:
    """Only objects and lists: the text "42" may well be meant as text."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
