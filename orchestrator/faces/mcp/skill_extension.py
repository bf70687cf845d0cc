"""The approved skills as Agent Skills, after the extension io.modelcontextprotocol/skills of MCP.

Each file of a skill is a resource as well, skill://weekly-report/SKILL.md, for clients without the extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import BaseModel

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import InvalidRequest, OrchestratorError, SkillNotFound
from orchestrator.domain.execution import Language
from orchestrator.domain.files import media_type_of
from orchestrator.domain.skill_folders import SKILL_FILE, AgentSkill, Usage, agent_skill, agent_skill_name, digest
from orchestrator.domain.skills import MAX_NAME_CHARACTERS, SKILL_NAME, SkillState, SkillVersion

EXTENSION = "io.modelcontextprotocol/skills"
SCHEME = "skill://"
TTL_MS = 30_000
# An entry may have 30 KB, of a skill that calls many tools with long names, and a reply at most 1 MiB.
PAGE_SKILLS = 25
LISTED_SKILLS = 50
MAX_KEPT_FOLDERS = 200
TEMPLATE = types.ResourceTemplate(
    name="skill",
    title="File of a skill",
    uri_template="skill://{skill}/{+file}",
    description="A file of an approved skill: SKILL.md says how to use it, and names the others.",
)

Context = ServerRequestContext[Any, Any]


class SkillShelf(Protocol):
    def approved_for(self, caller: Caller) -> Sequence[SkillVersion]:
        """Return what is approved and the caller may use, one version of each name."""


class SkillResource(BaseModel):
    uri: str
    digest: str
    size: int


class Skill(BaseModel):
    uri: str
    frontmatter: dict[str, Any]
    resources: list[SkillResource]


class ListSkillsResult(types.PaginatedResult, types.CacheableResult):
    skills: list[Skill]
    result_type: Literal["complete"] = "complete"


class GetSkillParams(types.RequestParams):
    uri: str


class GetSkillResult(types.CacheableResult):
    skill: Skill
    result_type: Literal["complete"] = "complete"


class SkillExtension:
    def __init__(
        self, shelf: SkillShelf, usages: Callable[[SkillVersion], Mapping[Language, Usage]] = lambda _: {}
    ) -> None:
        self._shelf = shelf
        self._usages = usages
        # A version never changes, so neither do its files while its state is the same.
        self._folders: dict[tuple[str, SkillState], AgentSkill] = {}

    def listed(self, caller: Caller, cursor: str | None = None) -> ListSkillsResult:
        """Return a page of entries; the cursor is the name of the last skill of the page before."""
        names = self._names(caller)
        if cursor is not None:
            if len(cursor) > MAX_NAME_CHARACTERS or not SKILL_NAME.fullmatch(cursor):
                raise InvalidRequest("`cursor` must be the `nextCursor` of the page before.")
            names = {name: version for name, version in names.items() if name > cursor}
        page = list(names)[:PAGE_SKILLS]
        return ListSkillsResult(
            skills=[_entry(self._folder(names[name])) for name in page],
            next_cursor=page[-1] if len(page) < len(names) else None,
            ttl_ms=TTL_MS,
        )

    def get(self, caller: Caller, uri: str) -> Skill:
        """Return the entry of the skill whose SKILL.md is at an address."""
        folder = self._at(caller, uri)
        if folder is None or uri != _uri(f"{folder.name}/{SKILL_FILE}"):
            raise SkillNotFound(f"No skill is served at {uri[:200]}.")
        return _entry(folder)

    def resources(self, caller: Caller) -> list[types.Resource]:
        """Return the files of the first skills, as any client lists resources; the template stands for the others."""
        found = []
        for version in list(self._names(caller).values())[:LISTED_SKILLS]:
            folder = self._folder(version)
            for path, text in folder.files.items():
                is_skill = path.endswith(f"/{SKILL_FILE}")
                found.append(
                    types.Resource(
                        uri=_uri(path),
                        name=folder.name if is_skill else path,
                        description=version.content.description if is_skill else f"File of the skill {version.name}",
                        mime_type=media_type_of(path),
                        size=len(text.encode()),
                    )
                )
        return found

    def read(self, caller: Caller, uri: str) -> types.TextResourceContents:
        folder = self._at(caller, uri)
        path = uri.removeprefix(SCHEME)
        if folder is None or path not in folder.files:
            raise SkillNotFound(f"No file of a skill is served at {uri[:200]}.")
        return types.TextResourceContents(uri=uri, mime_type=media_type_of(path), text=folder.files[path])

    def register(self, server: Server[Any], caller_of: Callable[[Context], Caller]) -> None:
        """Serve the methods of the extension, and declare it. The server must serve the resources itself."""

        async def list_skills(context: Context, params: types.PaginatedRequestParams) -> ListSkillsResult:
            try:
                return self.listed(caller_of(context), params.cursor)
            except OrchestratorError as error:
                raise MCPError(INVALID_PARAMS, error.message) from error

        async def get_skill(context: Context, params: GetSkillParams) -> GetSkillResult:
            try:
                return GetSkillResult(skill=self.get(caller_of(context), params.uri), ttl_ms=TTL_MS)
            except OrchestratorError as error:
                raise MCPError(INVALID_PARAMS, error.message, {"uri": params.uri[:200]}) from error

        server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)
        server.add_request_handler("skills/get", GetSkillParams, get_skill)
        server.extensions[EXTENSION] = {}

    def _names(self, caller: Caller) -> dict[str, SkillVersion]:
        versions = sorted(self._shelf.approved_for(caller), key=lambda version: version.name)
        return {version.name: version for version in versions}

    def _at(self, caller: Caller, uri: str) -> AgentSkill | None:
        """Find the folder in which an address is, if the caller may see it."""
        if not uri.startswith(SCHEME):
            return None
        name = uri.removeprefix(SCHEME).partition("/")[0]
        for version in self._shelf.approved_for(caller):
            if agent_skill_name(version.name) == name:
                return self._folder(version)
        return None

    def _folder(self, version: SkillVersion) -> AgentSkill:
        key = version.version, version.effective_state
        if key not in self._folders:
            if len(self._folders) >= MAX_KEPT_FOLDERS:
                self._folders.clear()
            self._folders[key] = agent_skill(version, self._usages(version))
        return self._folders[key]


def _entry(folder: AgentSkill) -> Skill:
    resources = [
        SkillResource(uri=_uri(path), digest=digest(text), size=len(text.encode()))
        for path, text in folder.files.items()
    ]
    return Skill(uri=_uri(f"{folder.name}/{SKILL_FILE}"), frontmatter=dict(folder.front_matter), resources=resources)


def _uri(path: str) -> str:
    return f"{SCHEME}{path}"
