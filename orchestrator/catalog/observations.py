"""Remembers the shape of what tools without an output schema returned. Never a value."""

from __future__ import annotations

import time
from collections.abc import Mapping

from orchestrator.domain.access import Role
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult
from orchestrator.wrappers import Shape, learned, observe

# A new shape makes new wrappers, and those retire warm sandboxes: not more often than this.
PUBLISH_EVERY_SECONDS = 60.0
MAX_TOOLS_OF_A_ROLE = 2_000


class Observations:
    """Kept for each role, by its name: what one has seen is not for others, not even the names of fields."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Shape]] = {}
        self._published: Mapping[str, Mapping[str, Shape]] = {}
        self._published_at = 0.0
        self._learned = False
        self.version = 0

    def note(self, role: Role, tool: Tool, result: CallResult) -> None:
        known = self._known.setdefault(role.name, {})
        if tool.output_schema is not None or (len(known) >= MAX_TOOLS_OF_A_ROLE and tool.path not in known):
            return
        seen, before = observe(result, lists_contents=tool.lists_contents), known.get(tool.path)
        if seen is None:
            return
        shape = seen if before is None else learned(before, seen)
        if shape != before:
            known[tool.path] = shape
            self._learned = True

    def publish(self) -> bool:
        """Take what was learned into `shapes`, if it is time; return whether there was anything."""
        is_due = time.monotonic() - self._published_at >= PUBLISH_EVERY_SECONDS
        if not (is_due and self._learned):
            return False
        # Threads may note something meanwhile; each copy is made at once.
        self._learned = False
        self._published = {role: dict(shapes) for role, shapes in list(self._known.items())}
        self._published_at = time.monotonic()
        self.version += 1
        return True

    def shapes(self, role: str) -> Mapping[str, Shape]:
        """Return what was published for a role, by the tools' paths."""
        return self._published.get(role, {})

    def of(self, role: Role, tool: Tool) -> Shape | None:
        return self._known.get(role.name, {}).get(tool.path)
