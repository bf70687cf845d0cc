"""What the daemon refuses, told to somebody at a command line: with commands and options, not routes and fields."""

from __future__ import annotations

import re

# Instead of the daemon's hint, by the code of the error; where there is none, the message says all.
HINTS = {
    "invalid_request": "",
    "code_too_large": "Make the program shorter, and give it large files with --in.",
    "unauthenticated": "Set CODE_EXECUTOR_KEY to a key that the daemon knows. 'code-executor keys ensure' makes "
    "missing key files.",
    "already_finished": "'code-executor show ID' shows how it ended.",
    "already_interrupted": "'code-executor show ID' shows what it did.",
    "not_ready": "Try again in a moment. 'code-executor doctor' finds what is missing.",
    "file_not_found": "'code-executor files ID', 'code-executor uploads' and 'code-executor workspaces show NAME' list "
    "what there is. Files are not kept for ever.",
    "workspace_not_found": "'code-executor workspaces' lists yours. One begins to exist when a program that "
    "names it completes.",
    "workspace_busy": "Try again when the other execution has ended. Without --no-wait, 'code-executor run' waits for "
    "it.",
    "quota_exceeded": "Delete what you no longer need with 'code-executor uploads --delete SHA256' or 'code-executor "
    "workspaces delete NAME', or raise CODE_EXECUTOR_MAX_STORED_BYTES_PER_CALLER.",
    "too_many_uploads": "'code-executor uploads' lists them. Delete some with --delete SHA256, or raise "
    "CODE_EXECUTOR_MAX_UPLOADS_PER_CALLER.",
    "too_many_workspaces": "Delete one with 'code-executor workspaces delete NAME', use one that is there, or raise "
    "CODE_EXECUTOR_MAX_WORKSPACES_PER_CALLER.",
    "too_many_in_background": "Wait until one of them has ended, cancel one with 'code-executor cancel ID', or raise "
    "CODE_EXECUTOR_MAX_BACKGROUND or the same _PER_CALLER.",
    "program_not_kept": "'code-executor show ID' shows its hash. Programs of up to 256 KiB are kept where "
    "CODE_EXECUTOR_JOURNAL_PROGRAMS is keep, for CODE_EXECUTOR_PROGRAM_TTL_SECONDS.",
    "skill_not_found": "'code-executor skills' lists those that you may use. One that calls a tool which your role may "
    "not call is not shown.",
    "skill_not_proven": "Only a skill that is proven, and that uses only what is approved, can be approved. "
    "'code-executor skills show NAME' says what its proof found.",
    "too_many_skills": "Retire skills that you no longer need with 'code-executor skills retire NAME', or raise "
    "CODE_EXECUTOR_MAX_SKILLS_PER_AUTHOR.",
    "tool_denied": "'code-executor tools' lists those that you may use. An operator can extend the role in roles.json.",
    "tool_not_found": "Search for it with 'code-executor tools'. Names are compared exactly.",
}
# What the user gave, by the field or parameter that it went into.
GIVEN = {
    "background": "--background",
    "caller": "--caller",
    "check": "--check",
    "code": "The program",
    "files": "The files of --in",
    "keep": "--keep",
    "kind": "--kind",
    "language": "--language",
    "limit": "--limit",
    "outcome": "--outcome",
    "q": "The query",
    "server": "--server",
    "since": "--since",
    "state": "--state",
    "timeoutSeconds": "--timeout",
    "tool": "--tool",
    "until": "--until",
    "version": "The version",
    "workspace": "A workspace's name",
}
_FIELD = re.compile(r"`(\w+)`")


def in_own_words(detail: str, hint: str, code: str) -> str:
    """Say what was refused and what to do about it, with the code to look it up by."""
    told = _FIELD.sub(lambda field: GIVEN.get(field[1], field[0]), detail)
    return " ".join(part for part in (told, HINTS.get(code, hint), f"({code})") if part)
