"""list_workspaces."""

from __future__ import annotations

from orchestrator.domain.file_words import count_in_words, size_in_words
from orchestrator.domain.files import Version
from orchestrator.faces.bodies import iso
from orchestrator.faces.mcp.file_lines import entry
from orchestrator.faces.mcp.models import ListWorkspaces, WorkspaceEntry, WorkspaceListing
from orchestrator.faces.mcp.tool import READS, Answer, Call, Tool
from orchestrator.service.budget import Budget
from orchestrator.service.workspaces import Workspaces

LIST_WORKSPACES = """\
Lists your workspaces, or the files of one.

Example: {"name": "report"}"""
MAX_WORKSPACES = 50
MAX_FILES = 100


class WorkspaceTools:
    def __init__(self, workspaces: Workspaces, questions: Budget) -> None:
        self._workspaces = workspaces
        self._questions = questions

    @property
    def list_workspaces(self) -> Tool[ListWorkspaces]:
        return Tool(
            "list_workspaces",
            "List workspaces",
            LIST_WORKSPACES,
            ListWorkspaces,
            WorkspaceListing,
            READS,
            self._list,
        )

    async def _list(self, order: ListWorkspaces, call: Call) -> Answer:
        async with self._questions.reserve(call.caller.key_name, 1):  # they are read on a thread
            if order.name is not None:
                return _files_of(*await self._workspaces.versions(call.caller, order.name))
            found = await self._workspaces.newest(call.caller)
        shown = found[:MAX_WORKSPACES]
        lines = [_line(version) for version in shown] or ["You have no workspace."]
        if len(found) > len(shown):
            lines.append(f"and {len(found) - len(shown)} more")
        return Answer(WorkspaceListing(workspaces=[_entry(version) for version in shown]), "\n".join(lines))


def _files_of(newest: Version, *earlier: Version) -> Answer:
    files = newest.files[:MAX_FILES]
    lines = [_line(newest), *(f"- {file.name}, {size_in_words(file.bytes)}" for file in files)]
    if len(newest.files) > len(files):
        lines.append(f"- and {len(newest.files) - len(files)} more")
    if earlier:
        versions = ", ".join(version.execution_id for version in earlier)
        restore = f"`code-executor workspaces restore {newest.workspace} VERSION`"
        lines.append(
            f"Earlier versions: {versions}. `from` of execute_code takes a file of one with `version`; "
            f"a person restores a whole one with {restore}."
        )
    reply = WorkspaceListing(workspaces=[_entry(newest)], files=[entry(file) for file in files])
    return Answer(reply, "\n".join(lines))


def _line(version: Version) -> str:
    held = f"{count_in_words(len(version.files))}, {size_in_words(version.bytes)}"
    return f"{version.workspace}: {held}, as execution {version.execution_id} left it at {iso(version.made_at)[:19]}Z"


def _entry(version: Version) -> WorkspaceEntry:
    return WorkspaceEntry(
        name=version.workspace,
        version=version.execution_id,
        made_at=iso(version.made_at),
        files=len(version.files),
        bytes=version.bytes,
    )
