"""What the daemon says of skills."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from orchestrator.commands.client import CallFailed
from orchestrator.commands.terminal import Json, ask_daemon, fail_to_call
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Language
from orchestrator.domain.skill_folders import Usage
from orchestrator.domain.skills import SkillContent, SkillState, SkillVersion, require_skill_name

# Each example runs for real and is replayed, and each may wait for a sandbox.
PROVING_SECONDS = 1800.0


def path_of(name: str) -> str:
    return f"/skills/{quote(name, safe='')}"


def asked(name: str, version: str | None = None) -> Json:
    """Return everything about a version, or about the one that the caller would use; its name vouches for it."""
    found = ask_daemon(path_of(name), [("version", version)] if version is not None else None)
    try:
        content_of(found)
    except CallFailed as error:
        fail_to_call(error)
    return found


def others_of(name: str) -> list[Json]:
    """Return the versions of a skill that are listed without being in use by all, newest first."""
    listed = ask_daemon("/skills")["skills"]
    found = [each for each in listed if each["name"] == name and each["state"] in (SkillState.PROVEN, SkillState.DRAFT)]
    return sorted(found, key=lambda each: str(each["createdAt"]), reverse=True)


def content_of(found: Json) -> SkillContent:
    """Return what a version consists of; raise CallFailed if that is not what its name vouches for."""
    try:
        content = SkillContent.from_document(found)
        require_skill_name(content.name)
        is_whole = content.version == found["version"]
    except (InvalidRequest, KeyError, TypeError, ValueError) as error:
        raise CallFailed("The daemon sent a skill that this command cannot read; it may be newer.") from error
    if not is_whole:
        raise CallFailed(f"The skill {content.name} did not arrive as it was kept. Try again.")
    return content


def version_of(found: Json) -> SkillVersion:
    return SkillVersion(
        content=content_of(found),
        author=found["author"],
        author_role="",  # which is not told
        state=SkillState(found["state"]),
        created_at=datetime.fromisoformat(found["createdAt"]).timestamp(),
    )


def usages_of(version: SkillVersion) -> dict[Language, Usage]:
    """Return how programs in each language call a skill."""
    from orchestrator.wrappers import skill_usages  # the wrappers take their time to be imported

    return skill_usages.usages_of(version)
