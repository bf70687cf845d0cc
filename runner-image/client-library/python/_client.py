"""Calls tools through the gateway, the only address that a sandbox can reach."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ._arguments import Rule, problems, without_absent
from ._http import Connections
from .errors import InvalidArguments, SkillStale, ToolDenied, ToolError, ToolLimitExceeded, ToolUnavailable

_ERRORS: dict[str, type[ToolError]] = {
    "tool_denied": ToolDenied,
    "grant_invalid": ToolDenied,
    "tool_unavailable": ToolUnavailable,
    "invalid_arguments": InvalidArguments,
    "limit_exceeded": ToolLimitExceeded,
    "skill_stale": SkillStale,
}

_connections = Connections()


class Tool:
    """One tool of one server, as its wrapper describes it."""

    def __init__(
        self, *, server: str, name: str, signature: str, rule: Rule, aliases: Mapping[str, str], contents: str = ""
    ) -> None:
        self._about = {"server": server, "tool": name}
        self._signature = signature
        self._rule = rule
        self._aliases = aliases
        self._lists_contents = contents == "list"

    def call(self, arguments: Any, named: Mapping[str, Any]) -> Any:
        """Check the arguments, then call the tool: its result, or in async code an awaitable of it."""
        given = self._checked(arguments, named)
        try:
            body = json.dumps({**self._about, "arguments": given}, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._invalid(f"The arguments cannot be written as JSON: {error}") from None
        return result_or_awaitable(lambda: self._result(body, given))

    def _checked(self, arguments: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as one dict, or raise what is wrong with them."""
        if arguments is not None and not isinstance(arguments, dict):
            raise self._invalid("The arguments must be keywords or one dict.")
        spelled = {self._aliases.get(name, name): value for name, value in named.items()}
        given = without_absent(self._rule, {**(arguments or {}), **spelled})
        if found := problems(self._rule, given):
            raise self._invalid(" ".join(found))
        return given

    def _invalid(self, message: str) -> InvalidArguments:
        hint = f"Usage: {self._signature}"
        return InvalidArguments(message, **self._about, code="invalid_arguments", hint=hint)

    def _result(self, body: str, given: Mapping[str, Any]) -> Any:
        result = self._taken(ask("/call", body, **self._about))
        contents = result.get("content")
        contents = contents if isinstance(contents, list) else []
        if result.get("isError"):
            texts = [
                str(each.get("text", "")) for each in contents if isinstance(each, dict) and each.get("type") == "text"
            ]
            from ._paths import hint_on_paths

            message = "\n".join(texts) or "The tool failed without a message."
            raise ToolError(message, **self._about, hint=hint_on_paths(message, given))
        if result.get("structuredContent") is not None and not self._lists_contents:
            return result["structuredContent"]
        values = [self._value_of(content) for content in contents]
        return values if len(values) > 1 or self._lists_contents else next(iter(values), None)

    def _taken(self, result: dict[str, Any]) -> dict[str, Any]:
        """Do what a result asks for besides being returned."""
        return result

    def _value_of(self, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        if content.get("type") == "text":
            return _parsed_if_json(str(content.get("text", "")))
        from .content import NotBase64, unwrap_content

        try:
            return unwrap_content(content)
        except NotBase64 as error:
            raise ToolError(str(error), **self._about) from None


def result_or_awaitable(call: Callable[[], Any]) -> Any:
    """Return the call's result, or an awaitable of it if an event loop runs in this thread."""
    # A program without asyncio does not wait for it to load.
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return call()
    from ._pending import UnawaitedCall

    return UnawaitedCall(call)


def ask(path: str, body: str, server: str = "", tool: str = "") -> Any:
    """Return the gateway's answer, or raise the ToolError that it stands for."""
    about = {"server": server, "tool": tool}
    gateway, grant = os.environ.get("CODE_EXECUTOR_GATEWAY"), os.environ.get("CODE_EXECUTOR_GRANT")
    if not gateway or not grant:
        message = "Tools can be called only where CODE_EXECUTOR_GATEWAY and CODE_EXECUTOR_GRANT are set."
        raise ToolUnavailable(message, **about, code="tool_unavailable")
    try:
        status, reply = _connections.post(gateway, path, grant, body.encode())
    except OSError as error:
        message = f"The gateway gave no usable answer: {error}"
        raise ToolUnavailable(message, **about, code="tool_unavailable") from None
    try:
        answer = json.loads(reply)
    except (ValueError, RecursionError):
        answer = None
    if status == 200 and answer is not None:
        return answer
    raise _refusal(status, answer if isinstance(answer, dict) else {}, about)


def _refusal(status: int, said: Mapping[str, Any], about: Mapping[str, str]) -> ToolError:
    code = said.get("code", "")
    kind = _ERRORS.get(code) or _error_for(status)
    message = said.get("message") or f"The gateway answered with status {status} and no explanation."
    return kind(message, **about, code=code or "tool_error", hint=said.get("hint"))


def _error_for(status: int) -> type[ToolError]:
    if status in {401, 403}:
        return ToolDenied
    if status in {400, 422}:
        return InvalidArguments
    if status in {413, 429}:
        return ToolLimitExceeded
    return ToolUnavailable if status >= 500 else ToolError


def _parsed_if_json(text: str) -> Any:
    # Only objects and lists are parsed: the text "42" may well be meant as text.
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
