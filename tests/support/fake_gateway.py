"""A gateway without tools, for the service's unit tests."""

from __future__ import annotations

from typing import ClassVar

from orchestrator.domain.execution import Image, Recipe
from orchestrator.domain.ledger import ToolCall


class FakeGrant:
    def __init__(self, slot_id: str) -> None:
        self.slot_id = slot_id
        self.open = True

    environment: ClassVar[dict[str, str]] = {}

    def revoke(self) -> None:
        self.open = False

    def calls(self) -> tuple[ToolCall, ...]:
        return ()

    def images(self) -> tuple[Image, ...]:
        return ()


class FakeGateway:
    def __init__(self) -> None:
        self.grants: list[FakeGrant] = []

    def open(self, caller, execution_id, slot_id, notify) -> FakeGrant:
        assert all(not grant.open for grant in self.grants if grant.slot_id == slot_id)
        grant = FakeGrant(slot_id)
        self.grants.append(grant)
        return grant


class FakeWorkspaces:
    def for_role(self, role, language) -> tuple[Recipe, dict[str, str]]:
        return Recipe(language), {}
