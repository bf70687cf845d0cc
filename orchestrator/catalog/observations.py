"""Remembers the shape of what tools without an output schema returned. Never a value."""

from __future__ import annotations

import time
from collections.abc import Mapping

from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult
from orchestrator.wrappers import Shape, learned, observe

# A new shape makes new wrappers, and those retire warm sandboxes: not more often than this.
PUBLISH_EVERY_SECONDS = 60.0
MAX_TOOLS = 10_000


class Observations:
    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}
        self.shapes: Mapping[str, Shape] = {}
        self._published_at = 0.0
        self._learned = False
        self.version = 0

    def note(self, tool: Tool, result: CallResult) -> None:
        if tool.output_schema is not None or len(self._known) >= MAX_TOOLS:
            return
        seen, known = observe(result, lists_contents=tool.lists_contents), self._known.get(tool.path)
        if seen is None:
            return
        shape = seen if known is None else learned(known, seen)
        if shape != known:
            self._known[tool.path] = shape
            self._learned = True

    def publish(self) -> bool:
        """Take what was learned into `shapes`, if it is time; return whether there was anything."""
        is_due = time.monotonic() - self._published_at >= PUBLISH_EVERY_SECONDS
        if not (is_due and self._learned):
            return False
        self.shapes, self._learned = dict(self._known), False
        self._published_at = time.monotonic()
        self.version += 1
        return True

    def of(self, tool: Tool) -> Shape | None:
        return self._known.get(tool.path)
