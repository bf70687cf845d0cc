"""What get_execution shows of a stored output, as a model reads it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.domain.execution import Outcome, State, Stream
from orchestrator.faces.mcp.excerpts import as_line
from orchestrator.faces.mcp.models import ExecutionPage


def page_text(page: ExecutionPage, notes: Sequence[str] = ()) -> str:
    first, text = page.offset or 0, page.text or ""
    last = page.total_bytes if page.next_offset is None else page.next_offset
    shown = f"bytes {first} to {last} of {page.total_bytes}" if text else f"nothing; it has {page.total_bytes} bytes"
    said = "\n".join([_headline(page, shown), *notes])
    return f"{said}\n\n{text}".rstrip("\n")


def matches_text(page: ExecutionPage, wanted: str, notes: Sequence[str] = ()) -> str:
    matches = page.matches or []
    headline = _headline(page, f"{len(matches)} of {page.match_count} lines with {wanted!r}")
    return "\n".join([headline, *notes, *map(as_line, matches)])


def _headline(page: ExecutionPage, shown: str) -> str:
    state: str = page.state
    if page.state is State.FINISHED and page.outcome is not None:
        state = f"failed with exit code {page.exit_code}" if page.outcome is Outcome.FAILED else page.outcome
    more = f'; go on with "offset": {page.next_offset}' if page.next_offset is not None else ""
    if more and page.state in (State.QUEUED, State.RUNNING):
        more = f'{more}, "waitSeconds": 30'
    if page.stderr_bytes and page.stream is Stream.STDOUT:
        more = f'{more}; "stream": "stderr" has {page.stderr_bytes} bytes'
    return f"{page.file or page.stream} of {page.execution_id} ({state}): {shown}{more}"
