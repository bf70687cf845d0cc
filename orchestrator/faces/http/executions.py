"""GET and DELETE /executions: what ran, what it printed, and ending it."""

from __future__ import annotations

import re

from aiohttp import web

from orchestrator.domain.errors import InvalidRequest, NotFound, RangeNotSatisfiable
from orchestrator.domain.execution import ExecutionRecord, Page, Stream
from orchestrator.faces.http.context import API, CALLER
from orchestrator.faces.http.rendering import detail, reply, summary
from orchestrator.faces.http.schemas import Body, ExecutionList
from orchestrator.service.running import RunningExecution

DEFAULT_PAGE = 50
LARGEST_PAGE = 500
LARGEST_SEQUENCE = 2**62
LARGEST_SLICE = 1024 * 1024
BYTE_RANGE = re.compile(r"bytes=(\d{1,12})?-(\d{1,12})?$")


async def list_executions(request: web.Request) -> web.Response:
    caller = request[CALLER]
    records = await request.app[API].journal.newest(
        caller=None if caller.role.sees_all_executions else caller.key_name,
        limit=(limit := number(request, "limit", DEFAULT_PAGE, 1, LARGEST_PAGE)),
        before=number(request, "before", LARGEST_SEQUENCE, 0, LARGEST_SEQUENCE),
    )
    following = records[-1].sequence if len(records) == limit else None
    return _json(ExecutionList(executions=[summary(record) for record in records], next=following))


async def get_execution(request: web.Request) -> web.Response:
    record = await _visible_record(request)
    offset = number(request, "offset", 0, 0, LARGEST_SEQUENCE)
    length = number(request, "length", LARGEST_SLICE, 1, LARGEST_SLICE)
    stdout = await _page(request, record, Stream.STDOUT, offset, length)
    stderr = await _page(request, record, Stream.STDERR, offset, length)
    return _json(detail(record, stdout, stderr, offset))


async def get_output(request: web.Request) -> web.Response:
    """The raw bytes of one stream, whole or by HTTP range."""
    record = await _visible_record(request)
    stream = _stream(request.query.get("stream", Stream.STDOUT))
    total = (await _page(request, record, stream, 0, 1)).total_bytes
    start, length = _byte_range(request.headers.get("Range"), total)
    page = await _page(request, record, stream, start, length)
    headers = {"Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff"}
    if "Range" not in request.headers:
        return web.Response(body=page.data, content_type="application/octet-stream", headers=headers)
    if not page.data:
        raise RangeNotSatisfiable(f"The output has {page.total_bytes} bytes.")
    headers["Content-Range"] = f"bytes {start}-{start + len(page.data) - 1}/{page.total_bytes}"
    return web.Response(status=206, body=page.data, content_type="application/octet-stream", headers=headers)


async def cancel_execution(request: web.Request) -> web.Response:
    api = request.app[API]
    result = await api.executor.cancel(request[CALLER], request.match_info["id"])
    return _json(reply(result, api.tokens))


async def _visible_record(request: web.Request) -> ExecutionRecord:
    execution_id = request.match_info["id"]
    record = await request.app[API].journal.find(execution_id)
    if record is None or not request[CALLER].may_see(record.caller):
        raise NotFound(f"No execution {execution_id}.")
    return record


async def _page(request: web.Request, record: ExecutionRecord, stream: Stream, start: int, length: int) -> Page:
    api = request.app[API]
    if running := api.executor.find_running(record.id):
        return _page_so_far(running, stream, start, length)
    return await api.journal.output(record.id, stream, start, length) or Page(b"", 0)


def _page_so_far(running: RunningExecution, stream: Stream, start: int, length: int) -> Page:
    output = running.output(stream)
    return Page(output[start : start + length], len(output))


def _byte_range(header: str | None, total: int) -> tuple[int, int]:
    if header is None:
        return 0, total
    found = BYTE_RANGE.match(header.strip())
    if found is None or not (found[1] or found[2]):
        raise RangeNotSatisfiable("The Range header is not of the form bytes=FIRST-LAST.")
    if not found[1]:
        return max(0, total - int(found[2])), int(found[2])
    first, last = int(found[1]), int(found[2]) if found[2] else None
    if last is None:
        return first, LARGEST_SLICE
    if last < first:
        raise RangeNotSatisfiable("The range ends before it begins.")
    return first, last - first + 1


def _stream(name: str) -> Stream:
    try:
        return Stream(name)
    except ValueError as error:
        raise InvalidRequest("stream: it is stdout or stderr.") from error


def number(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,19}", text) or not least <= int(text) <= most:
        raise InvalidRequest(f"{name}: it is a whole number from {least} to {most}.")
    return int(text)


def _json(body: Body) -> web.Response:
    return web.Response(text=body.model_dump_json(by_alias=True), content_type="application/json")
