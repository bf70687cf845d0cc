"""What the daemon holds of its settings and files, for those who see everything else too."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from pydantic import Field

from orchestrator.domain.access import Role
from orchestrator.domain.configuration import FileInForce, HeldConfiguration
from orchestrator.domain.errors import NotForYourRole
from orchestrator.faces.bodies import Body
from orchestrator.faces.context import CALLER, SERVICES
from orchestrator.faces.http.requests import Query
from orchestrator.faces.http.route import json_reply


class SettingBody(Body):
    """A setting in effect."""

    value: Any = Field(description="As the setting is written in JSON; `********` for a secret.")
    given: bool = Field(description="Whether the daemon was given it; else it is the default.")


class FileInForceBody(Body):
    """What was last taken up of a file."""

    sha256: str | None = Field(description="SHA-256 of the content in force; null if there was no file.")
    problem: str | None = Field(description="Why a newer content was not taken up.")

    @classmethod
    def of(cls, file: FileInForce) -> FileInForceBody:
        return cls(sha256=file.sha256, problem=file.problem)


class RuleBody(Body):
    """Patterns of tools, as SERVER/TOOL."""

    allow: list[str]
    deny: list[str]


class RoleLimitsBody(Body):
    """What a role has in place of the daemon's limits; null where it has nothing of its own."""

    timeout_seconds: float | None
    max_tool_calls: int | None


class RoleBody(Body):
    """A role, in the form that it has in roles.json."""

    servers: list[str]
    tools: RuleBody
    limits: RoleLimitsBody
    sees_all_executions: bool
    chat_rooms: list[str]
    shared_workspaces: list[str]
    approves_skills: bool
    keys: list[str] = Field(description="Names of the role's keys.")

    @classmethod
    def of(cls, role: Role, keys: tuple[str, ...]) -> RoleBody:
        return cls(
            servers=sorted(role.servers),
            tools=RuleBody(allow=list(role.allowed_tools), deny=list(role.denied_tools)),
            limits=RoleLimitsBody(timeout_seconds=role.max_timeout_seconds, max_tool_calls=role.max_tool_calls),
            sees_all_executions=role.sees_all_executions,
            chat_rooms=sorted(role.chat_rooms),
            shared_workspaces=list(role.shared_workspaces),
            approves_skills=role.approves_skills,
            keys=list(keys),
        )


class Configuration(Body):
    """What the daemon holds; no secret is among it."""

    version: str
    started_in: str | None = Field(description="Directory of the `make up` that started the daemon.")
    settings: dict[str, SettingBody] = Field(description="By name, without the prefix, in lower case.")
    roles_file: FileInForceBody
    roles: dict[str, RoleBody]
    servers_file: FileInForceBody
    servers: list[str] = Field(description="Names of the servers in force.")

    @classmethod
    def of(cls, held: HeldConfiguration, version: str) -> Configuration:
        return cls(
            version=version,
            started_in=held.started_in,
            settings={
                name: SettingBody(value=setting.value, given=setting.is_given)
                for name, setting in held.settings.items()
            },
            roles_file=FileInForceBody.of(held.roles_file),
            roles={name: RoleBody.of(role, held.book.keys_of(name)) for name, role in held.book.roles.items()},
            servers_file=FileInForceBody.of(held.servers_file),
            servers=sorted(held.servers),
        )


async def configuration(request: web.Request, query: Query) -> web.Response:
    services, caller = request.app[SERVICES], request[CALLER]
    if not caller.role.sees_all_executions:
        raise NotForYourRole(f"The role {caller.role.name} may not see the daemon's configuration.")
    return json_reply(Configuration.of(services.held_configuration(), services.version))
