"""The files of an execution as a model reads them: what was kept, what was not and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.domain.execution import ExecutionRecord
from orchestrator.domain.file_words import IN_WORDS, size_in_words
from orchestrator.domain.files import File, LeftOut
from orchestrator.faces.mcp.excerpts import Room
from orchestrator.faces.mcp.models import FileEntry

MAX_LISTED_FILES = 20
MAX_LEFT_OUT = 5
MAX_LEFT_OUT_CHARACTERS = 100


def file_lines(record: ExecutionRecord, room: Room) -> list[str]:
    """Write a line for each file, one for those that were not kept, and one for a workspace that was not changed."""
    after = []
    if record.left_out_count:
        after.append(f"Not kept: {_left_out(record.left_out, record.left_out_count)}.")
    if (workspace := record.workspace) is not None:
        if not workspace.kept:
            after.append(f"The workspace {workspace.name} was not changed. {workspace.why_not or ''}".rstrip())
        elif workspace.left_out:
            after.append(f"Not in the workspace: {_left_out(workspace.left_out, len(workspace.left_out))}.")
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


def _left_out(files: Sequence[LeftOut], count: int) -> str:
    told = [
        f"{each.name[:MAX_LEFT_OUT_CHARACTERS]} ({f'{size_in_words(each.bytes)}, ' if each.bytes else ''}"
        f"{IN_WORDS[each.why]})"
        for each in files[:MAX_LEFT_OUT]
    ]
    return ", ".join([*told, *([f"and {count - len(told)} more"] if count > len(told) else [])])
