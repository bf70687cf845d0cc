"""The exceptions that a call of a tool raises."""

from __future__ import annotations


class ToolError(Exception):
    """The tool failed; the message is the server's own."""

    def __init__(
        self, message: str, *, server: str = "", tool: str = "", code: str = "tool_error", hint: str | None = None
    ) -> None:
        name = f"{server}/{tool}: " if tool else ""
        super().__init__(f"{name}{message}" + (f"\n{hint}" if hint else ""))
        self.server = server
        self.tool = tool
        self.code = code
        self.hint = hint


class ToolDenied(ToolError):
    """The role of this execution may not call the tool."""


class ToolUnavailable(ToolError):
    """The server, or the gateway to it, cannot be reached."""


class InvalidArguments(ToolError):
    """The arguments do not fit the tool."""


class ToolLimitExceeded(ToolError):
    """Too many calls, too many at once, or too many bytes."""


class SkillError(ToolError):
    """A skill was used in a way that has no end, or returned what is not JSON."""


class SkillStale(SkillError):
    """A tool changed under the skill, and it was not proven with the new one."""
