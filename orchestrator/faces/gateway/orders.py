"""What a program may ask of the gateway, read from the body of a request."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from orchestrator.catalog.disclosure import Detail
from orchestrator.domain.errors import InvalidArguments, LimitExceeded
from orchestrator.domain.json_text import (
    MAX_INTRICATE_PARTS,
    JsonObject,
    JsonScan,
    Span,
    Text,
    TooIntricate,
)
from orchestrator.service.complaints import complaints

B = TypeVar("B", bound=BaseModel)

# Decoded, an order may take thirty times as much memory, for as long as it waits; larger ones stay text.
DECODED_BYTES = 4 * 1024
# Of everything but the arguments of a call and the data of a picture.
MAX_MEMBER_BYTES = 256 * 1024
# Of what a skill hands back: its result, and the files that it leaves.
MAX_RETURNED_BYTES = 1024 * 1024
MAX_LEFT_BYTES = 768 * 1024  # of all files together
MAX_FILES_LEFT = 100
MAX_PATH_CHARACTERS = 255
MOST_RETURNED = {"value": MAX_RETURNED_BYTES, "files": 2 * MAX_LEFT_BYTES}  # as JSON
_QUICKLY_READ_PARTS = 1000

Order = Mapping[str, Any]
Names = tuple[str, ...]


class SearchOrder(BaseModel):
    query: str | list[str]
    server: str | None = Field(None, max_length=256)
    detail: Detail = Detail.DESCRIPTION
    limit: int = Field(10, ge=1, le=50)


class InfoOrder(BaseModel):
    server: str = Field(min_length=1, max_length=256)
    tool: str = Field(min_length=1, max_length=256)


class UsedOrder(BaseModel):
    skill: str = Field(min_length=1, max_length=256)
    failed: bool = False


def files_left(files: object) -> Mapping[str, str]:
    """Read the files that a skill leaves to the program that called it, as base64 by their path in /workspace/out."""
    if not isinstance(files, dict):
        raise InvalidArguments("`files` must be an object.")
    size = 0
    for path, content in files.items():
        parts = path.split("/")
        if not all(parts) or {".", ".."} & {*parts} or any(ord(each) < 32 or each in "\x7f\\" for each in path):
            raise InvalidArguments("`files` must have paths within /workspace/out.")
        try:
            path.encode()
            size += len(b64decode(content, validate=True))
        except (TypeError, ValueError):
            raise InvalidArguments("`files` must have names in Unicode and contents as base64.") from None
    if len(files) > MAX_FILES_LEFT or size > MAX_LEFT_BYTES or any(len(path) > MAX_PATH_CHARACTERS for path in files):
        raise LimitExceeded(
            f"A skill must leave at most {MAX_FILES_LEFT} files with {MAX_LEFT_BYTES // 1024} KiB in all, and names of "
            f"at most {MAX_PATH_CHARACTERS} characters."
        )
    return files


def read_order(body: Text, names: Names) -> Order:
    """Read what is asked for of a body; of a large one, the arguments stay as they are. It may use up the body."""
    return _read(body, names, MAX_INTRICATE_PARTS)


def read_order_quickly(body: Text, names: Names) -> Order | None:
    """Do the same, unless it could not be done within a few milliseconds."""
    try:
        return _read(body, names, _QUICKLY_READ_PARTS)
    except TooIntricate:
        return None


def _read(body: Text, names: Names, max_intricate_parts: int) -> Order:
    try:
        is_small = len(body) <= DECODED_BYTES
        order = json.loads(body) if is_small else _scanned(JsonScan(body, max_intricate_parts), names)
    except TooIntricate:
        if max_intricate_parts < MAX_INTRICATE_PARTS:
            raise
        raise InvalidArguments("The body must not have so many parts that are nested so deeply.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArguments("The body must be JSON.") from error
    if not isinstance(order, Mapping):
        raise InvalidArguments("The body must be an object.")
    return order


def validated(kind: type[B], order: Order) -> B:
    try:
        return kind.model_validate(order)
    except ValidationError as error:
        raise InvalidArguments(complaints(error, kind, "body")) from error


def _scanned(scan: JsonScan, names: Names) -> Order | None:
    if not scan.is_object(scan.start):
        scan.finish(scan.value(scan.start))
        return None
    spans: dict[str, Span] = {}

    def noting(name: str) -> Any:
        def note(start: int) -> int:
            spans[name] = Span(start, scan.value(start))
            return spans[name].end

        return note

    scan.finish(scan.members(scan.start, {name: noting(name) for name in names}))
    arguments = spans.pop("arguments", None)
    order = {name: _decoded(scan, name, span) for name, span in spans.items()}
    if arguments is not None:
        order["arguments"] = _arguments(scan, arguments)
    return order


def _decoded(scan: JsonScan, name: str, span: Span) -> Any:
    text = scan.text[span.start : span.end]
    if name == "data":
        if not text.startswith(b'"'):
            return None  # no picture; decoded, it could be many times as large
        return json.loads(text) if b"\\" in text else text[1:-1].decode()
    if name in MOST_RETURNED and len(text) > MOST_RETURNED[name]:
        what = "The result" if name == "value" else "The names and contents of the files"
        raise LimitExceeded(f"{what} of a skill must have at most {MOST_RETURNED[name]} bytes as JSON.")
    if name not in MOST_RETURNED and len(text) > MAX_MEMBER_BYTES:
        raise InvalidArguments(f"`{name}` must have at most {MAX_MEMBER_BYTES} bytes.")
    # The parser gives way to other threads only where it has Python to run: the hook that changes nothing.
    return json.loads(text, object_hook=lambda value: value)


def _arguments(scan: JsonScan, span: Span) -> JsonObject | None:
    if not scan.is_object(span.start):
        return None
    if not scan.is_finite(span):
        raise InvalidArguments("The arguments must be values that JSON can represent; NaN and infinity are not.")
    return JsonObject(scan.take(span))
