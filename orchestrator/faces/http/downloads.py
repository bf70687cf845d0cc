"""Sends a file that a program made to whoever may have it, in such a way that no browser runs any of it."""

from __future__ import annotations

import re
from urllib.parse import quote

import structlog
from aiohttp import web

from orchestrator.domain.errors import OrchestratorError, RangeNotSatisfiable
from orchestrator.domain.files import OCTETS
from orchestrator.faces.http.connection import connection_of
from orchestrator.faces.http.problems import problem_of
from orchestrator.service.files import StoredFile

log = structlog.get_logger()

PIECE_BYTES = 256 * 1024
# What no browser acts on. Everything else, and above all HTML, SVG, XML, JavaScript and PDF, is sent as mere bytes.
HARMLESS = {
    "application/json": "application/json",
    "image/gif": "image/gif",
    "image/jpeg": "image/jpeg",
    "image/png": "image/png",
    "image/webp": "image/webp",
    # With its encoding: a browser that guesses it could find markup in another one.
    "text/csv": "text/csv; charset=utf-8",
    "text/markdown": "text/markdown; charset=utf-8",
    "text/plain": "text/plain; charset=utf-8",
}
PROTECTION = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private",
}
# So many digits that any number is understood, and not so many that int() would refuse them.
_RANGE = re.compile(r"bytes=(\d{0,4000})-(\d{0,4000})", re.ASCII | re.IGNORECASE)
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
_ATTRIBUTE_CHARACTERS = "!#$&+-.^_`|~"  # that RFC 8187 lets stand besides letters and digits


def disposition(name: str) -> str:
    """Say under which name a file is saved, whatever characters it has; folders are left out."""
    last = name.rpartition("/")[2]
    plain = _NOT_PLAIN.sub("_", last)
    value = f'attachment; filename="{plain}"'
    return value if plain == last else f"{value}; filename*=UTF-8''{quote(last, safe=_ATTRIBUTE_CHARACTERS)}"


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte and the number of bytes that a Range header asks for.

    None stands for all: as RFC 9110 says, a header is ignored that is invalid, asks for several ranges, or has another
    unit. One that begins after the end is RangeNotSatisfiable.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or not (found[1] or found[2]) or (found[1] and found[2] and int(found[2]) < int(found[1])):
        return None
    if not found[1]:
        first, end = max(0, size - int(found[2])), size
    else:
        first, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if first >= end:
        raise RangeNotSatisfiable(f"The range must begin within the {size} bytes that there are.")
    return first, end - first


def range_refused(refusal: RangeNotSatisfiable, size: int) -> web.Response:
    response = problem_of(refusal, None)
    response.headers["Content-Range"] = f"bytes */{size}"
    return response


async def send_file(request: web.Request, stored: StoredFile) -> web.StreamResponse:
    """Send a file whole, by range, or not at all if the client has it; never more than a piece is held of it."""
    file = stored.file
    tag = f'"{file.sha256}"'
    headers = {**PROTECTION, "ETag": tag, "Accept-Ranges": "bytes"}
    if any(each.value in (file.sha256, "*") for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    status, first, length = 200, 0, file.bytes
    try:
        asked = byte_range(_range_asked(request, tag), file.bytes)
    except RangeNotSatisfiable as refusal:
        return range_refused(refusal, file.bytes)
    if asked is not None:
        status, (first, length) = 206, asked
        headers["Content-Range"] = f"bytes {first}-{first + length - 1}/{file.bytes}"
    headers |= {
        "Content-Type": HARMLESS.get(file.media_type, OCTETS),
        "Content-Disposition": disposition(file.name),
        "Content-Length": str(length),
    }
    response = web.StreamResponse(status=status, headers=headers)
    if request.method == "HEAD":
        return response
    piece = await stored.read(first, min(PIECE_BYTES, length))  # what cannot be read at all is still a proper refusal
    await response.prepare(request)
    await response.write(piece)
    position, end = first + len(piece), first + length
    while position < end:
        try:
            piece = await stored.read(position, min(PIECE_BYTES, end - position))
        except OrchestratorError as error:
            log.warning("download.broken", error=error.message)
            piece = b""
        if not piece:  # deleted meanwhile; the client must not take what it has for all of it
            connection_of(request).cut()
            return response
        await response.write(piece)
        position += len(piece)
    await response.write_eof()
    return response


def _range_asked(request: web.Request, tag: str) -> str | None:
    asked = request.headers.get("Range")
    if request.method != "GET":
        return None
    # The rest of another file is of no use: a client that continues a download gets all of the new one.
    condition = request.headers.get("If-Range")
    return asked if condition is None or condition.strip() == tag else None
