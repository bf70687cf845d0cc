"""What skills call, themselves and through the skills that they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from orchestrator.domain.access import SKILLS, Paths, Role
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.json_schema import without_prose
from orchestrator.domain.skills import MAX_DEPTH, OBSERVED, SkillContent, SkillState, SkillVersion, canonical_json
from orchestrator.domain.tools import SkillTraits, Tool

Listed = Mapping[str, tuple[Tool, ...]]


@dataclass(frozen=True, slots=True)
class Touched:
    """A tool that a skill calls, as an approver has to know it."""

    path: str
    read_only: bool | None  # None if its server does not say
    is_there: bool


def tool_digest(tool: Tool) -> str:
    """Name a tool by what a program depends on: its name and its schemas, without what is only for readers."""
    schemas = [without_prose(schema) for schema in (tool.input_schema, tool.output_schema or {})]
    # A skill with the same schemas may do other things.
    version = [tool.skill.version] if tool.skill is not None else []
    return sha256(canonical_json([tool.path, *schemas, *version])).hexdigest()


class SkillReach:
    """Follows what skills call, through the skills and the tools that there are now."""

    def __init__(
        self, approved: Callable[[str], SkillVersion | None], own_of: Callable[[str], Mapping[str, SkillVersion]]
    ) -> None:
        self._approved = approved
        self._own_of = own_of
        self._tools: Mapping[str, Tool] = {}  # replaced, never changed: threads read it
        self._servers: frozenset[str] = frozenset()
        self._digests: dict[str, tuple[Tool, str]] = {}

    def take_up(self, listed: Listed) -> None:
        """Follow these tools from now on."""
        self._tools = {tool.path: tool for tools in listed.values() for tool in tools}
        self._servers = frozenset(server for server, tools in listed.items() if tools)

    @property
    def servers(self) -> frozenset[str]:
        """Return whose tools are known: a server may be connected before its tools have been taken up."""
        return self._servers

    def version(self, name: str, own: Mapping[str, SkillVersion] | None = None) -> SkillVersion | None:
        """Return the version that a name stands for: one's own, or else the approved one."""
        return (own or {}).get(name) or self._approved(name)

    def beside(self, skill: SkillVersion) -> Mapping[str, SkillVersion]:
        """Return the author's own skills, which one that is not approved may use, too; an approved one must not."""
        return {} if skill.state is SkillState.APPROVED else self._own_of(skill.author)

    def is_for(self, role: Role, skill: SkillVersion) -> bool:
        return role.may_call(SKILLS, skill.name, self.requires(skill.content, self.beside(skill)))

    def requires(self, content: SkillContent, own: Mapping[str, SkillVersion] | None = None) -> Paths:
        """Return every tool and every skill that a skill calls, also through the skills that it uses."""
        paths = _paths_of(content, self.used_by(content, own))
        return tuple((server, tool) for server, _, tool in (path.partition("/") for path in paths))

    def _tools_of(self, content: SkillContent, own: Mapping[str, SkillVersion] | None = None) -> Sequence[str]:
        """Return the paths of the tools that a skill calls, itself or through others, and of missing skills."""
        used = self.used_by(content, own)
        there = {f"{SKILLS}/{name}" for name in used}
        return [path for path in _paths_of(content, used) if path not in there]

    def used_by(
        self, content: SkillContent, own: Mapping[str, SkillVersion] | None = None
    ) -> Mapping[str, SkillVersion]:
        """Return the skills that one uses, also through others, by name, as far as they are there."""
        found: dict[str, SkillVersion] = {}
        waiting = list(content.uses)
        while waiting:
            name = waiting.pop(0)
            used = self.version(name, own)
            if used is not None and name not in found:
                found[name] = used
                waiting += used.content.uses
        return found

    def of(self, skill: SkillVersion) -> frozenset[str]:
        """Return the paths of all tools and skills that a skill may call, itself or through the skills that it uses."""
        return frozenset(_paths_of(skill.content, self.used_by(skill.content, self.beside(skill))))

    def require_end(self, content: SkillContent, own: Mapping[str, SkillVersion]) -> None:
        """Refuse a skill that would call itself, or through too many others."""

        def follow(each: SkillContent, way: tuple[str, ...]) -> None:
            if each.name in way:
                raise InvalidRequest(f"Skills must not call themselves: {' → '.join((*way, each.name))}.")
            way = (*way, each.name)
            if len(way) > MAX_DEPTH:
                raise InvalidRequest(f"Skills may be at most {MAX_DEPTH} deep: {' → '.join(way)}.")
            for name in each.uses:
                if name == content.name:
                    follow(content, way)
                elif (used := self.version(name, own)) is not None:
                    follow(used.content, way)

        follow(content, ())

    def tool(self, path: str, own: Mapping[str, SkillVersion] | None = None) -> Tool | None:
        """Return a tool, or a skill as a tool, as it is now."""
        server, _, name = path.partition("/")
        if server != SKILLS:
            return self._tools.get(path)
        skill = self.version(name, own)
        return self.as_tool(skill, own) if skill is not None and not skill.drift else None

    def as_tool(self, skill: SkillVersion, own: Mapping[str, SkillVersion] | None = None) -> Tool:
        known = [self._tools.get(path) for path in self._tools_of(skill.content, own)]
        # What declares nothing is not said to only read: in a program's own process it may call what that may.
        only_reads = bool(known) and all(
            tool is not None and tool.annotations.get("readOnlyHint") is True for tool in known
        )
        return Tool(
            server=SKILLS,
            name=skill.name,
            description=skill.content.description,
            input_schema=skill.content.input,
            output_schema=skill.content.output or None,
            annotations={"readOnlyHint": True} if only_reads else {},
            skill=SkillTraits(
                skill.version,
                skill.content.language,
                self.requires(skill.content, own),
                skill.drift,
                is_output_observed=skill.content.output.get(OBSERVED) is True,
            ),
        )

    def can_be_offered(self, skill: SkillVersion) -> bool:
        """Tell whether what a skill calls is as it was proven with; a stale one is offered to say that it is."""
        if skill.drift:
            return True
        digests = self.digests(skill.content, self.beside(skill))
        is_draft = skill.state is SkillState.DRAFT  # which its author may try as it is
        return digests is not None and (is_draft or (skill.proof is not None and digests == skill.proof.digests))

    def has_its_tools(self, skill: SkillVersion) -> bool:
        """Tell whether every tool that a skill calls is there, changed or not."""
        return all(path in self._tools for path in self._tools_of(skill.content))

    def needs(self, content: SkillContent, own: Mapping[str, SkillVersion]) -> tuple[tuple[Tool, ...], dict[str, str]]:
        """Return what the skills that it uses call in turn, and the code of all those skills by version."""
        needed: dict[str, Tool] = {}
        codes: dict[str, str] = {}

        def add(each: SkillContent) -> None:
            for path in each.tools:
                tool = self.tool(path, own)
                if tool is None:
                    continue
                if each is not content:
                    needed[path] = tool
                if tool.skill is not None and tool.skill.version not in codes:
                    used = self.version(tool.name, own)
                    if used is not None:
                        codes[tool.skill.version] = used.content.code
                        add(used.content)

        add(content)
        return tuple(tool for path, tool in needed.items() if path not in content.tools), codes

    def digests(self, content: SkillContent, own: Mapping[str, SkillVersion] | None = None) -> dict[str, str] | None:
        """Return the digest of each tool that a skill calls as it is now, itself or through the skills that it uses.

        None if one of them is not there.
        """
        digests = {}
        for path in _paths_of(content, self.used_by(content, own)):
            tool = self.tool(path, own)
            if tool is None:
                return None
            digests[path] = self._digest(tool)
        return digests

    def _digest(self, tool: Tool) -> str:
        known = self._digests.get(tool.path)
        if known is None or known[0] is not tool:
            known = self._digests[tool.path] = tool, tool_digest(tool)
        return known[1]

    def touched(self, skill: SkillVersion) -> list[Touched]:
        """Return the tools and skills that a skill calls, itself or through others."""
        found = []
        for path in self._tools_of(skill.content, self.beside(skill)):
            tool = self._tools.get(path)
            hint = tool.annotations.get("readOnlyHint") if tool is not None else None
            found.append(Touched(path, hint if isinstance(hint, bool) else None, tool is not None))
        for name, used in self.used_by(skill.content, self.beside(skill)).items():
            path = f"{SKILLS}/{name}"
            only_reads = self.as_tool(used, self.beside(used)).annotations.get("readOnlyHint")
            found.append(Touched(path, only_reads, not used.drift))
        return found


def _paths_of(content: SkillContent, used: Mapping[str, SkillVersion]) -> Sequence[str]:
    """Return the paths of all that a skill and those that it uses declare, each once."""
    return tuple(
        dict.fromkeys(path for each in (content, *(skill.content for skill in used.values())) for path in each.tools)
    )
