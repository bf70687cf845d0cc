"""Faults that are ours or the caller's. A failing program is not one of them: it is an ExecutionResult.

Each class has a stable `code` and a `category`, which every face maps to its own status; its docstring is the hint
that tells the reader what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

_SUMMARY_CHARACTERS = 500


class Category(StrEnum):
    """What kind of fault it is, and so whose turn it is to act."""

    MALFORMED = "malformed"
    INVALID = "invalid"
    UNSUPPORTED = "unsupported"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    OUT_OF_RANGE = "out_of_range"
    UNAUTHENTICATED = "unauthenticated"
    DENIED = "denied"
    MISDIRECTED = "misdirected"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    LIMITED = "limited"
    NOT_CONFIGURED = "not_configured"
    UNAVAILABLE = "unavailable"
    REFUSED_ELSEWHERE = "refused_elsewhere"
    UNCONFIRMED = "unconfirmed"
    INTERNAL = "internal"


class OrchestratorError(Exception):
    """Look at the daemon's log for the cause."""

    code: ClassVar[str] = "internal_error"
    category: ClassVar[Category] = Category.INTERNAL
    # For models, which act with tools instead of the HTTP API; the docstring serves where this is None.
    hint_for_models: ClassVar[str | None] = None

    def __init__(
        self, message: str, *, retry_after_seconds: int | None = None, execution_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.execution_id = execution_id  # of an earlier execution, if it is about one

    @property
    def hint(self) -> str:
        return " ".join((type(self).__doc__ or "").split())

    @property
    def summary(self) -> str:
        """Return what is kept of the message, which may repeat what somebody sent, at any length."""
        cut = self.message[:_SUMMARY_CHARACTERS]
        return cut if cut == self.message else f"{cut}…"


class InvalidRequest(OrchestratorError):
    """Correct the request as the message says, then send it again. Nothing was done."""

    code = "invalid_request"
    category = Category.INVALID


class MalformedJson(OrchestratorError):
    """Send one JSON object as the body, encoded as UTF-8."""

    code = "malformed_json"
    category = Category.MALFORMED


class UnsupportedContentType(OrchestratorError):
    """Send JSON with the header 'Content-Type: application/json', and files as they are, not as a form."""

    code = "unsupported_content_type"
    category = Category.UNSUPPORTED


class CodeTooLarge(OrchestratorError):
    """Send less. Upload large files with POST /files, or let the program create its data or get it from a tool."""

    code = "code_too_large"
    category = Category.TOO_LARGE


class Unauthenticated(OrchestratorError):
    """Send the key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'. Keys are in secrets/*.key."""

    code = "unauthenticated"
    category = Category.UNAUTHENTICATED


class ForeignOrigin(OrchestratorError):
    """Open the console at the daemon's own address. Behind a proxy, list its name in CODE_EXECUTOR_ALLOWED_HOSTS."""

    code = "foreign_origin"
    category = Category.DENIED


class MisdirectedRequest(OrchestratorError):
    """Use the address localhost or 127.0.0.1, or list the name in CODE_EXECUTOR_ALLOWED_HOSTS."""

    code = "misdirected_request"
    category = Category.MISDIRECTED


class NotForYourRole(OrchestratorError):
    """Use the key of a role that has seesAllExecutions in roles.json, such as admin."""

    code = "not_for_your_role"
    category = Category.DENIED


class NotFound(OrchestratorError):
    """Give the whole id, of 32 characters. Most keys see only the executions that were started with them."""

    code = "not_found"
    category = Category.NOT_FOUND
    hint_for_models = "Check the id, and that the execution is yours."


class AlreadyFinished(OrchestratorError):
    """Read its result with GET /executions/{id}."""

    code = "already_finished"
    category = Category.CONFLICT
    hint_for_models = "Read its output with get_execution."


class RangeNotSatisfiable(OrchestratorError):
    """Ask for a range that begins before the end: the header Content-Range of this answer has the size."""

    code = "range_not_satisfiable"
    category = Category.OUT_OF_RANGE


class QueueFull(OrchestratorError):
    """Try again later, or raise CODE_EXECUTOR_MAX_WAITING or CODE_EXECUTOR_MAX_WAITING_PER_CALLER."""

    code = "queue_full"
    category = Category.LIMITED


class IntakeFull(OrchestratorError):
    """Try again later with fewer large requests at once, or raise CODE_EXECUTOR_MAX_INTAKE_BYTES or the same
    _PER_CALLER."""

    code = "intake_full"
    category = Category.LIMITED


class BodyTooSlow(OrchestratorError):
    """Send the body without pauses, or raise CODE_EXECUTOR_BODY_SECONDS."""

    code = "body_too_slow"
    category = Category.TOO_SLOW


class TooManyConnections(OrchestratorError):
    """Close connections that you no longer use, or raise CODE_EXECUTOR_MAX_CONNECTIONS_PER_CALLER."""

    code = "too_many_connections"
    category = Category.LIMITED


class TooManyStreams(OrchestratorError):
    """Close a tab of the console, or another program that watches with your key."""

    code = "too_many_streams"
    category = Category.LIMITED


class ConnectionsFull(OrchestratorError):
    """Try again later, or raise CODE_EXECUTOR_MAX_CONNECTIONS or the same _PER_ADDRESS."""

    code = "connections_full"
    category = Category.UNAVAILABLE


class IdempotencyMismatch(OrchestratorError):
    """Use a new Idempotency-Key for a different program."""

    code = "idempotency_mismatch"
    category = Category.INVALID


class AlreadyInterrupted(OrchestratorError):
    """Read what it did with GET /executions/{id}. To run it again all the same, send it with a new Idempotency-Key."""

    code = "already_interrupted"
    category = Category.CONFLICT


class ShuttingDown(OrchestratorError):
    """Try again when the daemon is back."""

    code = "shutting_down"
    category = Category.UNAVAILABLE


class NotReady(OrchestratorError):
    """Wait until GET /readyz answers 200."""

    code = "not_ready"
    category = Category.UNAVAILABLE


class EngineUnavailable(OrchestratorError):
    """Check the container engine with 'make doctor'. The daemon recovers by itself when the engine is back."""

    code = "engine_unavailable"
    category = Category.UNAVAILABLE


class RunnerImageMissing(OrchestratorError):
    """Build the runner image with 'make image'."""

    code = "runner_image_missing"
    category = Category.UNAVAILABLE


class RuntimeMissing(OrchestratorError):
    """Set CODE_EXECUTOR_RUNTIME to a runtime that the engine has, then run 'make up' again."""

    code = "runtime_missing"
    category = Category.UNAVAILABLE


class LockdownMismatch(OrchestratorError):
    """Look at the log line lockdown.mismatch, which lists what differs. Nothing was run."""

    code = "lockdown_mismatch"
    category = Category.UNAVAILABLE


class SandboxFault(OrchestratorError):
    """Run it again: the sandbox failed, not your program. Look at the daemon's log if it recurs."""

    code = "sandbox_error"
    category = Category.UNAVAILABLE


class JournalUnavailable(OrchestratorError):
    """Free disk space, or make the data directory writable. Nothing is run unrecorded."""

    code = "journal_unavailable"
    category = Category.UNAVAILABLE


class QuestionTooLarge(OrchestratorError):
    """Ask for a shorter time span, or add a filter."""

    code = "question_too_large"
    category = Category.INVALID


class ProgramNotKept(OrchestratorError):
    """Compare `codeSha256`, which is always kept. Programs of up to 256 KiB are kept where
    CODE_EXECUTOR_JOURNAL_PROGRAMS is `keep`, for CODE_EXECUTOR_PROGRAM_TTL_SECONDS."""

    code = "program_not_kept"
    category = Category.NOT_FOUND


class SignInCodeInvalid(OrchestratorError):
    """Run 'code-executor console' for a new link. A link works once, and for 60 s."""

    code = "code_invalid"
    category = Category.UNAUTHENTICATED


class NotForSessions(OrchestratorError):
    """Use a key: a session of the console cannot make another one."""

    code = "not_for_sessions"
    category = Category.DENIED


class FileNotFound(OrchestratorError):
    """List what is there with GET /executions/{id}/files, /files or /workspaces/{name}. Files are not kept for ever."""

    code = "file_not_found"
    category = Category.NOT_FOUND
    hint_for_models = (
        "Check the name: list_workspaces lists the files of a workspace. "
        "Those of an execution are kept for a limited time."
    )


class WorkspaceNotFound(OrchestratorError):
    """List your workspaces with GET /workspaces. One begins to exist when a program that names it completes."""

    code = "workspace_not_found"
    category = Category.NOT_FOUND
    hint_for_models = "Check the name with list_workspaces: one begins to exist when a program that names it completes."


class WorkspaceBusy(OrchestratorError):
    """Wait until the execution that has the workspace has ended, or cancel it."""

    code = "workspace_busy"
    category = Category.CONFLICT
    hint_for_models = "Wait until the other execution has ended, or use another workspace."


class TooManyWorkspaces(OrchestratorError):
    """Delete a workspace with DELETE /workspaces/{name}, use one that is there, or raise
    CODE_EXECUTOR_MAX_WORKSPACES_PER_CALLER. Nothing was run."""

    code = "too_many_workspaces"
    category = Category.CONFLICT
    hint_for_models = "Use a workspace that is there: list_workspaces shows them. Nothing was run."


class FileTooLarge(OrchestratorError):
    """Send less, or raise CODE_EXECUTOR_MAX_FILE_BYTES, _MAX_FILES_BYTES or _MAX_UPLOAD_BYTES."""

    code = "file_too_large"
    category = Category.TOO_LARGE
    hint_for_models = "Send less, or split it."


class DigestMismatch(OrchestratorError):
    """Send the content again: what arrived is not what its hash names."""

    code = "digest_mismatch"
    category = Category.INVALID


class QuotaExceeded(OrchestratorError):
    """Delete uploads with DELETE /files/{sha256}, or workspaces with DELETE /workspaces/{name}: they make no room by
    themselves. Or raise CODE_EXECUTOR_MAX_STORED_BYTES_PER_CALLER or CODE_EXECUTOR_MAX_STORED_BYTES."""

    code = "quota_exceeded"
    category = Category.CONFLICT
    hint_for_models = "Tell the user that the quota for files is used up."


class TooManyUploads(OrchestratorError):
    """Delete uploads that you no longer need with DELETE /files/{sha256}; GET /files lists them. Or raise
    CODE_EXECUTOR_MAX_UPLOADS_PER_CALLER."""

    code = "too_many_uploads"
    category = Category.CONFLICT
    hint_for_models = "Tell the user that no more uploads are kept."


class StoreUnavailable(OrchestratorError):
    """Free disk space, or make the data directory writable."""

    code = "store_unavailable"
    category = Category.UNAVAILABLE


class TooManyInBackground(OrchestratorError):
    """Wait until one of them has ended, cancel one, or raise CODE_EXECUTOR_MAX_BACKGROUND or the same _PER_CALLER."""

    code = "too_many_in_background"
    category = Category.LIMITED
    hint_for_models = "Wait until one of them has ended, or cancel one with cancel_execution."


class SkillNotFound(OrchestratorError):
    """List the skills that you may use with GET /skills. A skill that calls a tool which your role may not call is not
    shown."""

    code = "skill_not_found"
    category = Category.NOT_FOUND
    hint_for_models = "Search for the skill with search_tools."


class SkillRefused(OrchestratorError):
    """Take out what the message names, then save the skill again. Nothing was saved."""

    code = "skill_refused"
    category = Category.INVALID


class SkillStale(OrchestratorError):
    """Save the skill again, with the same code if that fits the tools as they are now."""

    code = "skill_stale"
    category = Category.CONFLICT


class SkillNotProven(OrchestratorError):
    """Only a skill that is proven, and that uses only what is approved, can be approved. `remarks` of
    GET /skills/{name} say what its proof found."""

    code = "skill_not_proven"
    category = Category.CONFLICT


class ApprovalDenied(OrchestratorError):
    """Let somebody else do it: a key whose role has approvesSkills in roles.json. An author's cannot approve."""

    code = "approval_denied"
    category = Category.DENIED


class TooManySkills(OrchestratorError):
    """Retire skills that you no longer need with DELETE /skills/{name}, or raise
    CODE_EXECUTOR_MAX_SKILLS_PER_AUTHOR."""

    code = "too_many_skills"
    category = Category.CONFLICT
    hint_for_models = (
        "Save under the name of one that you have, which replaces it, or ask the user to retire some: "
        "code-executor skills list, then code-executor skills retire NAME."
    )


class ToolDenied(OrchestratorError):
    """Use a tool that your role may call: GET /tools lists them. An operator can extend the role in roles.json."""

    code = "tool_denied"
    category = Category.DENIED
    hint_for_models = "Use a tool that your role may call: list_tools shows them."


class ToolUnavailable(OrchestratorError):
    """Try again later. The daemon keeps trying to reach the tool's server."""

    code = "tool_unavailable"
    category = Category.UNAVAILABLE


class StateLost(OrchestratorError):
    """Make again what the program needs there: the next call to this server begins a new session."""

    code = "state_lost"
    category = Category.UNAVAILABLE


class SessionsFull(OrchestratorError):
    """Try again later, or raise CODE_EXECUTOR_MAX_SERVER_SESSIONS or the same _PER_CALLER."""

    code = "sessions_full"
    category = Category.LIMITED
    hint_for_models = "Try again later, with fewer programs at once that use this server."


class ToolNotFound(OrchestratorError):
    """Search for the tool with GET /tools/search. Names are compared exactly."""

    code = "tool_not_found"
    category = Category.NOT_FOUND
    hint_for_models = "Search for the tool with search_tools. Names are compared exactly."


class InvalidArguments(OrchestratorError):
    """Correct the arguments as the signature in the message shows."""

    code = "invalid_arguments"
    category = Category.INVALID
    hint_for_models = "Correct the arguments as the tool's schema says, then call it again."


class LimitExceeded(OrchestratorError):
    """Make fewer or smaller calls, or raise CODE_EXECUTOR_MAX_TOOL_* or the role's maxToolCalls."""

    code = "limit_exceeded"
    category = Category.LIMITED


class GrantInvalid(OrchestratorError):
    """Call tools from the program while it runs. A grant is valid for one execution, in its own sandbox."""

    code = "grant_invalid"
    category = Category.UNAUTHENTICATED


class ChatNotConfigured(OrchestratorError):
    """Set CODE_EXECUTOR_MATRIX_HOMESERVER and CODE_EXECUTOR_MATRIX_TOKEN and restart the daemon."""

    code = "chat_not_configured"
    category = Category.NOT_CONFIGURED
    hint_for_models = ""


class RoomDenied(OrchestratorError):
    """Use a room that your role may use. An operator can extend chatRooms of the role in roles.json."""

    code = "room_denied"
    category = Category.DENIED


class RoomNotFound(OrchestratorError):
    """Check the room's id or alias, and that the chat account is a member of the room or was invited to it."""

    code = "room_not_found"
    category = Category.NOT_FOUND


class ChatRefused(OrchestratorError):
    """Act on what the message says. Asking again will not help."""

    code = "chat_refused"
    category = Category.REFUSED_ELSEWHERE


class ChatRateLimited(OrchestratorError):
    """Ask again after the time that the message names."""

    code = "chat_rate_limited"
    category = Category.LIMITED


class ChatUnavailable(OrchestratorError):
    """Ask again later."""

    code = "chat_unavailable"
    category = Category.UNAVAILABLE


class ChatUnconfirmed(OrchestratorError):
    """Send the same text again with the same transactionId: it is posted at most once."""

    code = "chat_unconfirmed"
    category = Category.UNCONFIRMED


def kinds(parent: type[OrchestratorError] = OrchestratorError) -> Iterator[type[OrchestratorError]]:
    """Yield every class of error, however deep."""
    yield parent
    for child in parent.__subclasses__():
        yield from kinds(child)


def fault_of(code: str | None, message: str) -> OrchestratorError:
    """Return the error that was recorded under its code, so that it is told as it was when it happened."""
    known = {kind.code: kind for kind in kinds()}
    return known.get(code or "", OrchestratorError)(message, retry_after_seconds=5)
