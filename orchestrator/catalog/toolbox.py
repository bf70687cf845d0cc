"""What a role may know of the tools: lists, search and one tool's details, each with what it costs in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.disclosure import Detail, definition, grouped, ranked
from orchestrator.catalog.observations import Observations
from orchestrator.domain.access import Role
from orchestrator.domain.errors import ToolDenied, ToolNotFound
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import BACKENDS, Contract

Json = dict[str, Any]


class Toolbox:
    def __init__(self, catalog: Catalog, observations: Observations) -> None:
        self._catalog = catalog
        self._observations = observations

    def servers(self, role: Role) -> list[Json]:
        return [
            {"server": status.server, "state": status.state, "tools": status.tools, "problem": status.problem}
            for status in self._catalog.statuses()
            if role.sees_server(status.server)
        ]

    def listing(self, role: Role, detail: Detail, server: str | None = None) -> Json:
        tools = [tool for tool in self._catalog.visible(role) if server in (None, tool.server)]
        problems = {seen["server"]: seen["problem"] for seen in self.servers(role) if seen["problem"]}
        reply: Json = {"tools": grouped(tools, detail)}
        return self._counted(role, {**reply, "problems": problems} if problems else reply)

    def search(self, role: Role, queries: Sequence[str], detail: Detail, *, server: str | None, limit: int) -> Json:
        hits = self._catalog.search(role, queries, server=server, limit=limit)
        return self._counted(role, {"tools": ranked([hit.tool for hit in hits], detail)})

    def info(self, role: Role, server: str, name: str) -> Json:
        tool = self.callable_tool(role, server, name)
        shape = self._observations.of(tool)
        contract = Contract.of(tool, shape)
        return self._counted(
            role,
            {
                "server": tool.server,
                **definition(tool),
                **{
                    language.value: {
                        "import": backend.import_line(contract),
                        "signature": backend.signature(contract),
                        "example": backend.example_call(contract),
                    }
                    for language, backend in BACKENDS.items()
                },
                "resultShape": "declared" if tool.output_schema else ("observed" if shape else "unknown"),
            },
        )

    def callable_tool(self, role: Role, server: str, name: str) -> Tool:
        decision = role.decide(server, name)
        if not decision.allowed:
            raise ToolDenied(f"Role {role.name} may not call {server}/{name}: {decision.rule}.")
        tool = self._catalog.find(server, name)
        if tool is None:
            raise ToolNotFound(f"There is no tool {server}/{name}.")
        return tool

    def _counted(self, role: Role, reply: Json) -> Json:
        disclosure = self._catalog.disclosure
        full = disclosure.full_tokens(lambda tool: role.may_call(tool.server, tool.name))
        return disclosure.with_metrics(reply, full)
