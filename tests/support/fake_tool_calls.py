"""Tool calls without tools, for the service's unit tests."""

from __future__ import annotations

from typing import ClassVar

from orchestrator.domain.execution import Image, Recipe
from orchestrator.domain.ledger import ToolCall


class FakeGrant:
    def __init__(self, sandbox_id: str) -> None:
        self.sandbox_id = sandbox_id
        self.open = True

    environment: ClassVar[dict[str, str]] = {}

    def revoke(self) -> None:
        self.open = False

    def calls(self) -> tuple[ToolCall, ...]:
        return ()

    def images(self) -> tuple[Image, ...]:
        return ()


class FakeToolCalls:
    def __init__(self) -> None:
        self.grants: list[FakeGrant] = []

    def open(self, caller, execution_id, notify, sandbox_id=None) -> FakeGrant:
        assert all(not grant.open for grant in self.grants if grant.sandbox_id == sandbox_id)
        grant = FakeGrant(sandbox_id)
        self.grants.append(grant)
        return grant


class FakeProvisions:
    def for_role(self, role, language) -> tuple[Recipe, dict[str, str]]:
        return Recipe(language), {}
