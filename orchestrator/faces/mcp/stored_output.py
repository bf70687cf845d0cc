"""What get_execution shows of a stored output, as a model reads it. Pure."""

from __future__ import annotations

from orchestrator.domain.execution import State
from orchestrator.faces.mcp.excerpts import as_line
from orchestrator.faces.mcp.models import ExecutionPage


def page_text(page: ExecutionPage) -> str:
    first, text = page.offset or 0, page.text or ""
    last = page.total_bytes if page.next_offset is None else page.next_offset
    shown = f"bytes {first} to {last} of {page.total_bytes}" if text else f"nothing; it has {page.total_bytes} bytes"
    return f"{_headline(page, shown)}\n\n{text}".rstrip("\n")


def matches_text(page: ExecutionPage, wanted: str) -> str:
    matches = page.matches or []
    return "\n".join(
        [_headline(page, f"{len(matches)} of {page.match_count} lines with {wanted!r}"), *map(as_line, matches)]
    )


def _headline(page: ExecutionPage, shown: str) -> str:
    state = page.outcome if page.state is State.FINISHED else page.state
    more = f'; go on with "offset": {page.next_offset}' if page.next_offset is not None else ""
    return f"{page.stream} of {page.execution_id} ({state}): {shown}{more}"
