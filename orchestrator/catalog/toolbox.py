"""What a role may know of the tools: lists, search and one tool's details, each with what it costs in tokens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.disclosure import Detail, R, definition, grouped, ranked
from orchestrator.catalog.observations import Observations
from orchestrator.catalog.queries import meaningful
from orchestrator.catalog.replies import (
    FoundTools,
    LevelTokens,
    ResultShape,
    ServerCosts,
    ServerEntry,
    ToolCosts,
    ToolEntry,
    ToolInfo,
    ToolListing,
    Usage,
)
from orchestrator.catalog.search import Hit, SearchIndex
from orchestrator.domain.access import SKILLS, Role
from orchestrator.domain.errors import ToolDenied, ToolNotFound
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import BACKENDS, Contract


class Toolbox:
    """What may take long is done in a thread: there may be many tools, and large ones."""

    def __init__(self, catalog: Catalog, observations: Observations) -> None:
        self._catalog = catalog
        self._observations = observations

    def servers(self, role: Role) -> list[ServerEntry]:
        return [
            ServerEntry(server=status.server, state=status.state, tools=status.tools, problem=status.problem)
            for status in self._catalog.statuses()
            if role.sees_server(status.server)
        ]

    async def listing(
        self, role: Role, detail: Detail, server: str | None = None, own: Sequence[Tool] = ()
    ) -> ToolListing:
        """List what a role may use and, to their author, its `own` skills in place of others of their names."""
        return await asyncio.to_thread(self._listing, role, detail, server, own)

    def _listing(self, role: Role, detail: Detail, server: str | None, own: Sequence[Tool]) -> ToolListing:
        visible = {tool.path: tool for tool in (*self._catalog.visible(role), *own)}
        tools = grouped((tool for tool in visible.values() if server in (None, tool.server)), detail)
        problems = {entry.server: entry.problem for entry in self.servers(role) if entry.problem}
        reply = ToolListing(tools=tools, problems=problems) if problems else ToolListing(tools=tools)
        return self._counted(role, reply)

    async def search(
        self,
        role: Role,
        queries: Sequence[str],
        detail: Detail,
        *,
        server: str | None,
        limit: int,
        with_scores: bool = False,
        own: Sequence[Tool] = (),
    ) -> FoundTools:
        wanted = meaningful(queries)

        def search() -> FoundTools:
            hits = self._catalog.search(role, wanted, server=server, limit=limit)
            if own and server in (None, SKILLS):
                hits = _merged(hits, own, wanted)[:limit]
            found = ranked([hit.tool for hit in hits], detail)
            if with_scores:
                found = [
                    entry.model_copy(update={"score": round(hit.score, 3)})
                    for entry, hit in zip(found, hits, strict=True)
                ]
            return self._counted(role, FoundTools(tools=found))

        return await asyncio.to_thread(search)

    async def costs(self, role: Role, here: int) -> ToolCosts:
        """Tell what the tools of each server cost a client that loads them."""
        return await asyncio.to_thread(self._costs, role, here)

    def _costs(self, role: Role, here: int) -> ToolCosts:
        usable = Counter(tool.server for tool in self._catalog.visible(role))
        servers = [
            ServerCosts(
                server=entry.server,
                state=entry.state,
                tools=usable[entry.server],
                problem=entry.problem,
                tokens=self._catalog.level_tokens(role, entry.server),
            )
            for entry in self.servers(role)
        ]
        sums = {
            level: sum(getattr(each.tokens, level) for each in servers) for level in ("name", "description", "full")
        }
        return ToolCosts(servers=servers, total=LevelTokens(**sums), here=here)

    async def info(self, role: Role, server: str, name: str, own: Sequence[Tool] = ()) -> ToolEntry:
        try:
            tool = self.callable_tool(role, server, name, own)
        except ToolNotFound as error:
            meant = await asyncio.to_thread(self._meant, role, f"{server}/{name}")
            raise ToolNotFound(f"{error.message}{meant}") from None
        return await asyncio.to_thread(self._info, role, tool)

    def _meant(self, role: Role, path: str) -> str:
        """Ask for the tool that is most like one that is not there, among those that the role may know."""
        paths = {tool.path.lower(): tool.path for tool in self._catalog.visible(role)}
        found = get_close_matches(path.lower(), paths, n=1)
        return f" Did you mean {paths[found[0]]}?" if found else ""

    def _info(self, role: Role, tool: Tool) -> ToolEntry:
        shape = self._observations.of(role, tool)
        contract = Contract.of(tool, shape)
        usages = {}
        for language, backend in BACKENDS.items():
            usages[language.value] = Usage(
                import_line=backend.import_line(contract),
                signature=backend.signature(contract),
                example=backend.example_call(contract),
            )
        known = ResultShape.DECLARED if tool.output_schema else ResultShape.OBSERVED if shape else ResultShape.UNKNOWN
        if tool.skill is not None:
            known = ResultShape.OBSERVED if tool.skill.is_output_observed else ResultShape.DECLARED
        told = definition(tool, with_server=True)
        return self._counted(role, ToolInfo(**told.given(), **usages, result_shape=known))

    def callable_tool(self, role: Role, server: str, name: str, own: Sequence[Tool] = ()) -> Tool:
        """Return the tool if the role may call it; raise ToolDenied or ToolNotFound otherwise.

        A skill that is not for the role is as if it were not there; its author's `own` comes before an approved one.
        """
        if server == SKILLS:
            return self._callable_skill(role, name, own)
        decision = role.decide(server, name)
        if not decision.allowed:
            raise ToolDenied(f"Role {role.name} may not call {server}/{name}: {decision.rule}.")
        tool = self._catalog.find(server, name)
        if tool is None:
            raise ToolNotFound(f"There is no tool {server}/{name}.")
        return tool

    def _callable_skill(self, role: Role, name: str, own: Sequence[Tool]) -> Tool:
        found = next((skill for skill in own if skill.name == name), None) or self._catalog.find(SKILLS, name)
        if found is None or not found.is_for(role):
            raise ToolNotFound(f"There is no skill {name}.")
        return found

    def _counted(self, role: Role, reply: R) -> R:
        return self._catalog.disclosure.with_metrics(reply, self._catalog.full_tokens(role))


def _merged(hits: Sequence[Hit], own: Sequence[Tool], wanted: Sequence[str]) -> list[Hit]:
    """Put an author's own skills among what was found, in place of those with their names.

    Where each belongs tells an index of both: how rare a word is depends on what else there is.
    """
    replaced = {skill.path for skill in own}
    found = [hit for hit in hits if hit.tool.path not in replaced]
    both = SearchIndex([*own, *(hit.tool for hit in found)]).search(wanted, limit=len(own) + len(found))
    score_of = {hit.tool.path: hit.score for hit in both}
    for skill in (hit.tool for hit in both if hit.tool.path in replaced):
        at = next((at for at, hit in enumerate(found) if score_of.get(hit.tool.path, 0.0) < score_of[skill.path]), None)
        near = found[-1 if at is None else at].score if found else score_of[skill.path]
        found.insert(len(found) if at is None else at, Hit(skill, near))
    return found
