"""Tool calls without tools, for the service's unit tests."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from orchestrator.domain.execution import Image, Recipe
from orchestrator.domain.ledger import ToolCall


class FakeGrant:
    def __init__(self, sandbox_id: str, made: tuple[ToolCall, ...], *, at_once: bool) -> None:
        self.sandbox_id = sandbox_id
        self.made = made
        self.at_once = at_once
        self.open = True
        self.passed = asyncio.Event()

    environment: ClassVar[dict[str, str]] = {}

    def revoke(self) -> None:
        self.open = False

    def calls(self) -> tuple[ToolCall, ...]:
        return self.made

    def images(self) -> tuple[Image, ...]:
        return ()


class FakeToolCalls:
    def __init__(self) -> None:
        self.grants: list[FakeGrant] = []
        self.made: tuple[ToolCall, ...] = ()  # by whatever runs next

    def open(
        self,
        caller,
        execution_id,
        notify,
        sandbox_id=None,
        *,
        at_most_once=False,
        passed=True,
        scope=None,
        deadline=None,
    ) -> FakeGrant:
        assert all(not grant.open for grant in self.grants if grant.sandbox_id == sandbox_id)
        grant = FakeGrant(sandbox_id, self.made, at_once=passed)
        self.grants.append(grant)
        return grant


class FakeProvisions:
    async def for_role(self, role, language) -> tuple[Recipe, dict[str, str]]:
        return Recipe(language), {}

    async def bare(self, language) -> tuple[Recipe, dict[str, str]]:
        return Recipe(language), {}
