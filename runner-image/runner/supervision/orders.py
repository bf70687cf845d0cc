"""What the orchestrator asks for, validated."""

from __future__ import annotations

import json
import math
import os

from supervision.frames import ProtocolError


class Prepare:
    __slots__ = ("files",)

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files


class Run:
    """`payload` is the message as it came; the language runtime takes the code and environment from it."""

    __slots__ = ("max_stderr_bytes", "max_stdout_bytes", "payload", "timeout_seconds")

    def __init__(self, payload: bytes, timeout_seconds: float, max_stdout_bytes: int, max_stderr_bytes: int) -> None:
        self.payload = payload
        self.timeout_seconds = timeout_seconds
        self.max_stdout_bytes = max_stdout_bytes
        self.max_stderr_bytes = max_stderr_bytes


def parse(payload: bytes) -> Prepare | Run:
    message = _json_object(payload)
    match message.get("type"):
        case "prepare":
            return Prepare(_texts_by_name(message, "files"))
        case "run":
            return _run(message, payload)
        case other:
            raise ProtocolError(f"unknown message type {other!r}")


def _json_object(payload: bytes) -> dict[str, object]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        raise ProtocolError("the message is not JSON") from None
    if not isinstance(message, dict):
        raise ProtocolError("the message is not a JSON object")
    return message


def _run(message: dict[str, object], payload: bytes) -> Run:
    if not isinstance(message.get("code"), str):
        raise ProtocolError("run: code must be a string")
    for name, text in _texts_by_name(message, "environment").items():
        if not name or "=" in name or "\0" in name + text:
            raise ProtocolError(f"run: {name!r} cannot be set in the environment")
    return Run(
        payload=payload,
        timeout_seconds=_seconds(message, "timeout_seconds"),
        max_stdout_bytes=_count(message, "max_stdout_bytes"),
        max_stderr_bytes=_count(message, "max_stderr_bytes"),
    )


def _texts_by_name(message: dict[str, object], field: str) -> dict[str, str]:
    value = message.get(field)
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ProtocolError(f"{field} must be an object of strings")
    return value


def _seconds(message: dict[str, object], field: str) -> float:
    value = message.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ProtocolError(f"run: {field} must be a positive number")
    return float(value)


def _count(message: dict[str, object], field: str) -> int:
    value = message.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProtocolError(f"run: {field} must be a whole number")
    return value


def write_files(workspace: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = os.path.join(workspace, _checked_name(name))
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(text.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise ProtocolError(f"prepare: cannot write {name!r}: {error.strerror}") from None


def _checked_name(name: str) -> str:
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise ProtocolError(f"prepare: {name!r} is not a path below the workspace")
    return name
