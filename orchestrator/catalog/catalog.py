"""Every upstream server's tools as they were last listed, and what a role sees of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from orchestrator.catalog.disclosure import Disclosure, TokenCounter, level_tokens
from orchestrator.catalog.replies import LevelTokens
from orchestrator.catalog.search import Hit, SearchIndex
from orchestrator.domain.access import Role
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import UpstreamStatus

Listed = Mapping[str, tuple[Tool, ...]]
OfferSkills = Callable[[Listed], Sequence[Tool]]  # those whose tools are all there


class ToolSource(Protocol):
    def tools(self) -> Listed: ...

    def statuses(self) -> Sequence[UpstreamStatus]: ...


class Edition:
    """What all servers listed at one time, with everything that is made of it. It does not change any more."""

    def __init__(
        self,
        version: int,
        tools: Mapping[tuple[str, str], Tool],
        disclosure: Disclosure,
        stale: tuple[Tool, ...] = (),
    ) -> None:
        self.version = version
        self.tools = tools
        self.stale = stale  # skills that tools changed under: nobody is told of them who does not import them
        self.disclosure = disclosure
        self.index = SearchIndex(tuple(tools.values()))
        self._visible: dict[Role, tuple[Tool, ...]] = {}
        self._full_tokens: dict[Role, int] = {}
        self._level_tokens: dict[tuple[Role, str], LevelTokens] = {}

    def visible(self, role: Role) -> tuple[Tool, ...]:
        if role not in self._visible:
            self._visible[role] = tuple(tool for tool in self.tools.values() if tool.is_for(role))
        return self._visible[role]

    def importable(self, role: Role) -> tuple[Tool, ...]:
        """Return what a program finds: what is visible, and the stale skills, which say so."""
        return (*self.visible(role), *(skill for skill in self.stale if skill.is_for(role)))

    def full_tokens(self, role: Role) -> int:
        """Return what the role's callers would carry without us: the definitions of all tools that it may use."""
        if role not in self._full_tokens:
            tools = (tool for tool in self.visible(role) if tool.skill is None)
            self._full_tokens[role] = sum(map(self.disclosure.definition_tokens, tools))
        return self._full_tokens[role]

    def level_tokens(self, role: Role, server: str, counter: TokenCounter) -> LevelTokens:
        """Return what the tools of a server that a role may use cost, by how much is told of them."""
        if (role, server) not in self._level_tokens:
            tools = [tool for tool in self.visible(role) if tool.server == server]
            full = sum(map(self.disclosure.definition_tokens, tools))
            self._level_tokens[role, server] = level_tokens(tools, counter, full)
        return self._level_tokens[role, server]


class Catalog:
    """An edition is drafted in a thread, for that may take seconds, and then published, which takes no time at all."""

    def __init__(self, source: ToolSource, counter: TokenCounter, skills: OfferSkills = lambda listed: ()) -> None:
        self._source = source
        self._skills = skills
        self._counter = counter
        self._in_force = self.latest = Edition(0, {}, Disclosure((), counter))

    @property
    def disclosure(self) -> Disclosure:
        return self._in_force.disclosure

    def listed(self) -> Listed:
        """Return what the servers list now, to be drafted from."""
        return self._source.tools()

    def draft(self, listed: Listed) -> Edition:
        """Make the edition that `latest` is from now on, if anything has changed since the last one."""
        before = self.latest
        tools = {(tool.server, tool.name): tool for tools in listed.values() for tool in tools}
        skills = self._skills(listed)
        stale = tuple(skill for skill in skills if skill.skill is not None and skill.skill.drift)
        tools |= {(skill.server, skill.name): skill for skill in skills if skill not in stale}
        if (tools, stale) != (before.tools, before.stale):
            disclosure = Disclosure(tools.values(), self._counter, before.disclosure)
            disclosure.count_definitions()
            self.latest = Edition(before.version + 1, tools, disclosure, stale)
        return self.latest

    def publish(self, edition: Edition) -> None:
        self._in_force = edition

    def refresh(self) -> None:
        """Take over at once what the servers list now; for when there is little of it, or no event loop."""
        self.publish(self.draft(self.listed()))

    def find(self, server: str, name: str) -> Tool | None:
        return self._in_force.tools.get((server, name))

    def visible(self, role: Role) -> tuple[Tool, ...]:
        return self._in_force.visible(role)

    def full_tokens(self, role: Role) -> int:
        return self._in_force.full_tokens(role)

    def level_tokens(self, role: Role, server: str) -> LevelTokens:
        return self._in_force.level_tokens(role, server, self._counter)

    def search(self, role: Role, queries: Sequence[str], *, server: str | None, limit: int) -> list[Hit]:
        return self._in_force.index.search(queries, server=server, limit=limit, visible=lambda tool: tool.is_for(role))

    def statuses(self) -> Sequence[UpstreamStatus]:
        return self._source.statuses()

    def tools_by_server(self) -> dict[str, int]:
        """Return how many tools of each server can be called, which may be a moment behind what it lists."""
        counts = Counter(server for server, _ in self._in_force.tools)
        return {server: counts[server] for server in sorted(self._source.tools())}
