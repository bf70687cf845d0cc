"""execute_code, get_execution and cancel_execution."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mcp_types as types
import structlog

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.chat import printable
from orchestrator.domain.errors import (
    AlreadyFinished,
    InvalidArguments,
    NotFound,
    OrchestratorError,
    WorkspaceNotFound,
)
from orchestrator.domain.execution import (
    MEBIBYTE,
    ExecutionRecord,
    ExecutionResult,
    Outcome,
    Page,
    State,
    Stream,
)
from orchestrator.domain.file_words import size_in_words
from orchestrator.domain.files import Source, WorkspaceUse
from orchestrator.faces.bodies import LimitsBody
from orchestrator.faces.file_inputs import SHOWN_NAME_CHARACTERS, FileInput, sources_of, workspace_use
from orchestrator.faces.mcp.excerpts import MAX_CHARACTERS_PER_TOKEN, Room, TokenCounter, is_utf8, matching_lines, page
from orchestrator.faces.mcp.file_lines import file_lines
from orchestrator.faces.mcp.models import (
    MOST_SECONDS,
    CancelExecution,
    ExecuteCode,
    ExecutionPage,
    ExecutionReport,
    GetExecution,
    GivenFile,
)
from orchestrator.faces.mcp.report import report
from orchestrator.faces.mcp.stored_files import MAX_SEARCHED_BYTES, binary_text, is_text, picture_in, searched_note
from orchestrator.faces.mcp.stored_output import matches_text, page_text
from orchestrator.faces.mcp.tool import ALWAYS_LOAD, READS, Answer, Call, Tool
from orchestrator.service.budget import Budget
from orchestrator.service.executions import Executions, ProgramRequest, new_execution_id
from orchestrator.service.files import Files
from orchestrator.service.records import LARGEST_OUTPUT_BYTES, Records
from orchestrator.service.running import RunningExecution
from orchestrator.service.workspaces import Workspaces

log = structlog.get_logger()

KIBIBYTE = 1024
MAX_PROGRESS_CHARACTERS = 200
# A description of more than 2048 bytes is cut by Claude Code.
MAX_SERVERS_CHARACTERS = 600
# To count the tokens of more takes so long that others would wait for it.
MAX_SHORT_BYTES = 8 * 1024
# Of a page of output, what the list of the execution's files takes at most.
FILES_SHARE = 0.1
# What a page of output costs besides its text.
PAGE_FRAME_TOKENS = 100

PACKAGES_LINE = (
    "Python 3.11 has numpy, pandas, matplotlib, pillow, openpyxl, lxml, beautifulsoup4, python-dateutil, tabulate, "
    "pyyaml, duckdb; TypeScript has zod, date-fns, lodash-es, papaparse, cheerio."
)

EXECUTE_CODE = """\
Runs a TypeScript or Python program in a fresh sandbox that can call every tool of the connected MCP servers, and \
returns what it printed. Find tools with search_tools, read their signatures with get_tool_info, then call several \
tools in one program, filter and join their results there, and print only what matters. There is no network but the \
tools. Only files outlast a program: /workspace/out is kept, `files` (text, or kept ones) go to /workspace/in, and \
`workspace`, a name, keeps /workspace/files for the next program.

Example: {"code": "import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';\\nconst rows = await \
execute_sql({ sql: 'select status from orders' });\\nconsole.log(rows.filter(r => r.status === 'open').length);"}

In Python: {"language": "python", "code": "from servers.postgres import execute_sql\\n\
print(len(execute_sql(sql='select 1')))"}; in async code, await each call. Show a picture with plt.show(), \
emit_image(figure, bytes or path) from servers.output, or emitImage(bytes or path) from \
'/workspace/servers/output.js'."""

GET_EXECUTION = """\
Reads the output of an execution, even while it runs, or a file it left, from an offset on, or the lines with a text. \
Use it when execute_code says that part of the output is not shown; nothing is run again.

Example: {"search": "error"}"""

CANCEL_EXECUTION = """\
Ends an execution and returns what it printed until then. Its id is in the first progress message of execute_code.

Example: {"executionId": "909d24578ddc4b179d15a81002a4f719"}"""


@dataclass(frozen=True, slots=True)
class Reporting:
    """How much a reply may tell a client, and how often it hears of progress."""

    tokens: TokenCounter
    reply_tokens: int
    progress_seconds: float


class ExecutionTools:
    def __init__(
        self,
        executions: Executions,
        records: Records,
        files: Files,
        workspaces: Workspaces,
        questions: Budget,
        reporting: Reporting,
        servers_of: Callable[[Role], list[str]],
        *,
        max_request_bytes: int,
        with_packages: bool = True,
    ) -> None:
        self._executions = executions
        self._records = records
        self._files = files
        self._workspaces = workspaces
        self._questions = questions
        self._reporting = reporting
        self._servers_of = servers_of
        self._max_request_bytes = max_request_bytes
        self._packages = f" {PACKAGES_LINE}" if with_packages else ""

    def all(self) -> tuple[Tool[ExecuteCode], Tool[GetExecution], Tool[CancelExecution]]:
        return (
            Tool(
                "execute_code",
                "Execute code",
                f"{EXECUTE_CODE}{self._packages}",
                ExecuteCode,
                ExecutionReport,
                types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
                self.execute_code,
                ALWAYS_LOAD,
                describe_for=self._servers_sentence,
                arguments_for=self._limits_of_arguments,
            ),
            Tool(
                "get_execution",
                "Read an execution's output",
                GET_EXECUTION,
                GetExecution,
                ExecutionPage,
                READS,
                self.get_execution,
            ),
            Tool(
                "cancel_execution",
                "Cancel an execution",
                CANCEL_EXECUTION,
                CancelExecution,
                ExecutionReport,
                types.ToolAnnotations(
                    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
                ),
                self.cancel_execution,
            ),
        )

    async def execute_code(self, order: ExecuteCode, call: Call) -> Answer:
        execution_id, in_new_workspace = new_execution_id(), False
        async with self._executions.recording_refusal(call.caller, execution_id):
            workspace = workspace_use(order.workspace)
            asked = ProgramRequest(
                order.language,
                order.code,
                order.timeout_seconds,
                check=order.check,
                background=order.background,
                files=_sources(order.files or ()),
                workspace=workspace,
            )
            if workspace is not None:
                in_new_workspace = await self._is_new(call.caller, workspace)
            running = await self._executions.start(call.caller, asked, execution_id)
        try:
            if order.background:
                return _in_background(running, in_new_workspace=in_new_workspace)
            return await self.followed(running, call, order.max_tokens, in_new_workspace=in_new_workspace)
        except OrchestratorError:
            raise
        except Exception as error:
            log.exception("tool.crashed", tool="execute_code", execution_id=execution_id)
            message = f"The daemon failed after it had started execution {execution_id}. Read it with get_execution."
            raise OrchestratorError(message, execution_id=execution_id) from error

    def recording_refusal(self, caller: Caller, execution_id: str) -> AbstractAsyncContextManager[None]:
        return self._executions.recording_refusal(caller, execution_id)

    async def followed(
        self, running: RunningExecution, call: Call, max_tokens: int | None, *, in_new_workspace: bool = False
    ) -> Answer:
        """Report progress until an execution ends, and return what a model is told of it."""
        with running.watched():
            await self._follow(running, call)
        return await self._answer(await running.result(), max_tokens, in_new_workspace=in_new_workspace)

    async def _is_new(self, caller: Caller, workspace: WorkspaceUse) -> bool:
        """Tell whether a workspace does not exist yet: then its name may be a slip."""
        async with self._questions.reserve(caller.key_name, 1):  # it is looked up on a thread
            try:
                await self._workspaces.versions(caller, workspace.name)
            except WorkspaceNotFound:
                return True
        return False

    async def get_execution(self, order: GetExecution, call: Call) -> Answer:
        if order.execution_id is not None:
            record = await self._records.visible(call.caller, order.execution_id)
        else:
            newest = await self._records.newest_own(call.caller, of_skills=True)
            if newest is None:
                raise NotFound("You have not run anything yet.")
            record = newest
        if order.wait_seconds and record.under_way:
            await self._until_news(record.id, order, call)
            record = await self._records.visible(call.caller, record.id)
        async with self._questions.reserve(call.caller.key_name, 1):
            if order.file is not None:
                return await self._read_file(call.caller, record, order, order.file)
            if order.search is None:
                return await self._read(record, order)
            return await self._search(record, order, order.search)

    async def _until_news(self, execution_id: str, order: GetExecution, call: Call) -> None:
        """Wait for output beyond the offset or for the end, as long as somebody waits for the answer."""
        streams = [order.stream] if order.file is None else []  # files come with the end
        news = asyncio.ensure_future(self._records.until_news(execution_id, order.offset, streams, order.wait_seconds))
        left = asyncio.ensure_future(call.gone.wait())
        try:
            await asyncio.wait((news, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            left.cancel()

    async def _read(self, record: ExecutionRecord, order: GetExecution) -> Answer:
        stored = await self._records.output(record, order.stream, order.offset, self._most_read(order))
        return await self._page(record, order, stored)

    async def _search(self, record: ExecutionRecord, order: GetExecution, wanted: str) -> Answer:
        stored = await self._records.output(record, order.stream, 0, LARGEST_OUTPUT_BYTES)
        return await self._matches(record, order, stored, wanted)

    async def _page(self, record: ExecutionRecord, order: GetExecution, stored: Page) -> Answer:
        room = self._room(order.max_tokens)
        reached_end = order.offset + len(stored.data) >= stored.total_bytes
        is_last = reached_end and not record.under_way
        shown = await asyncio.to_thread(page, stored.data, order.offset, room, is_last=is_last)
        following = shown.offset + shown.size
        reply = _page_of(
            record,
            order,
            stored.total_bytes,
            offset=shown.offset,
            text=shown.text,
            next_offset=following if following < stored.total_bytes or record.under_way else None,
        )
        notes = []
        if not is_utf8(stored.data[shown.offset - order.offset :][: shown.size]):
            advice = "" if order.file is None else "; let a program read the file in its encoding"
            notes.append(f"\ufffd stands for bytes that are not UTF-8{advice}.")
        # Who has read to the end of a program that ran in the background learns what else it left.
        if reply.next_offset is None and order.file is None:
            notes += file_lines(record, room.part(FILES_SHARE), self._files.rules)
        return Answer(reply, page_text(reply, notes))

    async def _matches(self, record: ExecutionRecord, order: GetExecution, stored: Page, wanted: str) -> Answer:
        room = self._room(order.max_tokens)
        found = await asyncio.to_thread(matching_lines, stored.data, wanted, order.offset, room)
        following = found.shown[-1].offset + 1 if found.left else None
        shown = {"matches": found.shown, "match_count": found.count, "next_offset": following}
        reply = _page_of(record, order, stored.total_bytes, **shown)
        unreadable = "Bytes that are not UTF-8 are shown as \ufffd, and cannot be searched for."
        return Answer(reply, matches_text(reply, wanted, () if is_utf8(stored.data) else (unreadable,)))

    async def _read_file(self, caller: Caller, record: ExecutionRecord, order: GetExecution, name: str) -> Answer:
        if record.under_way:
            told = (
                f"Execution {record.id} has not ended yet ({record.state}). Its files can be read when it has: ask "
                'again with "waitSeconds": 30 to wait for that.'
            )
            return Answer(_page_of(record, order, 0), told)
        stored = await self._files.of_execution_named(caller, record.id, name)
        size = stored.file.bytes
        if picture := await picture_in(stored):
            reply = _page_of(record, order, size, media_type=picture.mime_type)
            return Answer(reply, f"{name} of {record.id}: {picture.mime_type}, {size} bytes", more=[picture])
        if not await is_text(stored):
            reply = _page_of(record, order, size, media_type=stored.file.media_type)
            return Answer(reply, await binary_text(record.id, stored))
        if order.search is None:
            data = await stored.read(order.offset, self._most_read(order))
            return await self._page(record, order, Page(data, size))
        data = b"".join([piece async for piece in stored.pieces(0, MAX_SEARCHED_BYTES)])
        answer = await self._matches(record, order, Page(data, size), order.search)
        return replace(answer, text=f"{answer.text}{searched_note(stored.file)}")

    async def cancel_execution(self, order: CancelExecution, call: Call) -> Answer:
        try:
            result = await self._executions.cancel(call.caller, order.execution_id)
        except AlreadyFinished:
            return _already_ended(await self._records.visible(call.caller, order.execution_id))
        return replace(await self._answer(result, order.max_tokens), is_error=False)

    def _most_read(self, order: GetExecution) -> int:
        return self._room(order.max_tokens).tokens * MAX_CHARACTERS_PER_TOKEN

    def _room(self, max_tokens: int | None) -> Room:
        return Room(self._reporting.tokens, (max_tokens or self._reporting.reply_tokens) - PAGE_FRAME_TOKENS)

    async def _follow(self, running: RunningExecution, call: Call) -> None:
        """Report progress until the execution ends or nobody waits for the answer any more."""
        began = time.monotonic()
        await call.report(0, f"execution {running.execution.id} {_waiting(running) or 'started'}")
        ended = asyncio.ensure_future(running.result())
        left = asyncio.ensure_future(call.gone.wait())
        try:
            while not ended.done() and not left.done():
                await asyncio.wait(
                    (ended, left), timeout=self._reporting.progress_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if not ended.done() and not left.done():
                    await call.report(round(time.monotonic() - began, 1), _progress(running))
        finally:
            ended.cancel()
            left.cancel()

    async def _answer(
        self, result: ExecutionResult, max_tokens: int | None, *, in_new_workspace: bool = False
    ) -> Answer:
        tokens = max_tokens or self._reporting.reply_tokens
        tell = partial(
            report, result, tokens, self._reporting.tokens, self._files.rules, in_new_workspace=in_new_workspace
        )
        is_short = len(result.stdout) + len(result.stderr) <= MAX_SHORT_BYTES
        told = tell() if is_short else await asyncio.to_thread(tell)
        pictures = [
            types.ImageContent(data=b64encode(image.data).decode(), mime_type=image.mime_type)
            for image in told.pictures
        ]
        return Answer(told.structured, told.text, pictures, is_error=result.outcome is not Outcome.COMPLETED)

    def _servers_sentence(self, role: Role) -> str:
        servers = self._servers_of(role)
        if not servers:
            return "\n\nNo MCP server that you may use is connected now."
        names = ", ".join(servers)
        if len(names) > MAX_SERVERS_CHARACTERS:
            names = f"{names[:MAX_SERVERS_CHARACTERS].rpartition(', ')[0]}, …"
        return f"\n\nServers you may use: {names}."

    def _limits_of_arguments(self, role: Role) -> dict[str, dict[str, Any]]:
        longest = role.max_timeout_seconds or MOST_SECONDS
        unit = MEBIBYTE if self._max_request_bytes >= MEBIBYTE else KIBIBYTE
        most = size_in_words(self._max_request_bytes // unit * unit)
        limits: dict[str, dict[str, Any]] = {
            "timeoutSeconds": {"maximum": int(longest) if longest == int(longest) else longest},
            "files": {"description": f"Up to {most}."},
        }
        if longest > MOST_SECONDS:
            limits["background"] = {"description": f"Return at once; needed for over {MOST_SECONDS} s."}
        return limits


def _page_of(record: ExecutionRecord, order: GetExecution, total_bytes: int, **found: Any) -> ExecutionPage:
    of = {"stream": order.stream} if order.file is None else {"file": order.file}
    return ExecutionPage(
        execution_id=record.id,
        state=record.state,
        outcome=record.outcome,
        exit_code=record.exit_code,
        total_bytes=total_bytes,
        stderr_bytes=None if record.under_way or record.outcome is Outcome.COMPLETED else record.stderr_bytes,
        **of,
        **found,
    )


def _in_background(running: RunningExecution, *, in_new_workspace: bool) -> Answer:
    execution, waiting = running.execution, _waiting(running)
    longest = f"for up to {execution.limits.timeout_seconds:g} s"
    state = f"{running.state} in the background"
    lines = [f"{state}{f', {waiting}, then runs' if waiting else ''} {longest}, execution {execution.id}"]
    if in_new_workspace and execution.workspace is not None:
        lines.append(f"The workspace {execution.workspace.name} is new.")
    how = f'{{"executionId": "{execution.id}", "waitSeconds": 30}}'
    lines.append(f"Read on with get_execution {how}; cancel_execution ends it.")
    told = "\n".join(lines)
    return Answer(_report_without_output(execution.record(running.state), told), told)


def _already_ended(record: ExecutionRecord) -> Answer:
    """Say that there was nothing to cancel: whoever cancels twice has what they wanted."""
    how = "" if record.under_way else f": {record.outcome or record.state}"
    told = f"Execution {record.id} had already ended{how}. get_execution reads its output."
    return Answer(_report_without_output(record, told), told)


def _report_without_output(record: ExecutionRecord, notice: str) -> ExecutionReport:
    return ExecutionReport(
        outcome=record.outcome,
        truncated=bool(record.stdout_bytes or record.stderr_bytes),
        notice=notice,
        execution_id=record.id,
        exit_code=record.exit_code,
        output="",
        stderr="",
        output_bytes=record.stdout_bytes,
        stderr_bytes=record.stderr_bytes,
        seconds=round(record.timings.total_seconds, 3),
        tool_calls=[],
        tool_call_count=len(record.tool_calls),
        mistakes=[],
        images=0,
        files=[],
        file_count=len(record.files),
        files_left_out=[],
        files_left_out_count=record.left_out_count,
        limits=LimitsBody.of(record.limits) if record.limits is not None else None,
    )


def _sources(files: Sequence[GivenFile]) -> dict[str, Source]:
    for file in files:
        if (file.text is None) == (file.kept is None):
            found = "neither" if file.text is None else "both"
            name = printable(file.name[:SHOWN_NAME_CHARACTERS])
            raise InvalidArguments(f"The file `{name}` must have either `text` or `from`; it has {found}.")
    given = {file.name: FileInput.model_validate({"text": file.text, "from": file.kept}) for file in files}
    if len(given) != len(files):
        raise InvalidArguments("`files` must have each name once.")
    return sources_of(given)


def _waiting(running: RunningExecution) -> str | None:
    """Say what an execution waits for; None if it runs."""
    if running.state is not State.QUEUED:
        return None
    workspace = running.execution.workspace
    return f"waits for the workspace {workspace.name}" if workspace and running.ticket is None else "waits for its turn"


def _progress(running: RunningExecution) -> str:
    """Return the last line that was printed, or the state while there is none."""
    for stream in (Stream.STDOUT, Stream.STDERR):
        lines = running.output(stream).decode(errors="replace").rstrip().rsplit("\n", 1)
        if lines[-1].strip():
            return lines[-1].strip()[-MAX_PROGRESS_CHARACTERS:]
    return _waiting(running) or str(running.state)
