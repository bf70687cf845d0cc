"""The files of an execution as a model reads them: what was kept, what was not and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.domain.execution import ExecutionRecord, FileRules
from orchestrator.domain.file_words import count_in_words, size_in_words, why_in_words
from orchestrator.domain.files import File, FileLimits, LeftOut, WorkspaceEnd
from orchestrator.faces.mcp.excerpts import Room
from orchestrator.faces.mcp.models import FileEntry

MAX_LISTED_FILES = 20
MAX_LEFT_OUT = 5
MAX_LEFT_OUT_CHARACTERS = 100


def file_lines(
    record: ExecutionRecord, room: Room, rules: FileRules | None = None, *, in_new_workspace: bool = False
) -> list[str]:
    """Write a line for each file, one for those that were not kept, and one or two for the workspace."""
    after = []
    if record.left_out_count:
        outputs = rules.outputs if rules is not None else None
        after.append(f"Not kept: {_left_out(record.left_out, record.left_out_count, outputs)}.")
    if record.workspace is not None:
        limits = rules.workspace if rules is not None else None
        after += _workspace_lines(record.id, record.workspace, limits, is_new=in_new_workspace)
    kept = listed(record.files, room.without("\n".join(after))) if record.files else []
    return [*(["Files, which get_execution reads:", *kept] if kept else []), *after]


def listed(files: Sequence[File], room: Room) -> list[str]:
    """Write a line for each of the first files for which there is room, and say how many more there are."""
    lines: list[str] = []
    for file in files[:MAX_LISTED_FILES]:
        line = f"- {file.name}, {size_in_words(file.bytes)}"
        if room.excess(line) > 1:
            break
        room = room.without(line)
        lines.append(line)
    more = len(files) - len(lines)
    return [*lines, f"- and {more} more"] if more else lines


def entry(file: File) -> FileEntry:
    return FileEntry(name=file.name, bytes=file.bytes, media_type=file.media_type)


def _workspace_lines(execution_id: str, end: WorkspaceEnd, limits: FileLimits | None, *, is_new: bool) -> list[str]:
    """Say what the workspace holds now, or why it does not hold what the program left."""
    if not end.kept:
        fate = "created" if end.version is None else "changed"
        return [f"The workspace {end.name} was not {fate}. {end.why_not or ''}".rstrip()]
    name = f"Workspace {end.name}{' (new)' if is_new else ''}"
    if not end.files:
        lines = [f"{name}: empty. It keeps what is in /workspace/files."]
    else:
        unchanged = ", unchanged" if end.version != execution_id else ""
        lines = [f"{name}: {count_in_words(end.files)}, {size_in_words(end.bytes)}{unchanged}"]
    if end.left_out:
        count = max(end.left_out_count, len(end.left_out))  # records of before this was counted have none
        lines.append(f"Not in the workspace: {_left_out(end.left_out, count, limits)}.")
    return lines


def _left_out(files: Sequence[LeftOut], count: int, limits: FileLimits | None) -> str:
    told = [f"{each.name[:MAX_LEFT_OUT_CHARACTERS]} ({why_in_words(each, limits)})" for each in files[:MAX_LEFT_OUT]]
    return ", ".join([*told, *([f"and {count - len(told)} more"] if count > len(told) else [])])
