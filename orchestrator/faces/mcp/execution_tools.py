"""execute_code, get_execution and cancel_execution."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types

from orchestrator.domain.access import Role
from orchestrator.domain.errors import NotFound
from orchestrator.domain.execution import ExecutionRecord, ExecutionResult, Filter, Kind, Outcome, Page, Stream
from orchestrator.faces.mcp.excerpts import MAX_CHARACTERS_PER_TOKEN, Room, TokenCounter, matching_lines, page
from orchestrator.faces.mcp.models import (
    CancelExecution,
    ExecuteCode,
    ExecutionPage,
    ExecutionReport,
    GetExecution,
)
from orchestrator.faces.mcp.report import report
from orchestrator.faces.mcp.stored_output import matches_text, page_text
from orchestrator.faces.mcp.tool import ALWAYS_LOAD, READS, Answer, Call, Tool
from orchestrator.service.budget import Budget
from orchestrator.service.executions import Executions, ProgramRequest, new_execution_id
from orchestrator.service.records import LARGEST_OUTPUT_BYTES, Records
from orchestrator.service.running import RunningExecution

MAX_PROGRESS_CHARACTERS = 200
# A description of more than 2048 bytes is cut by Claude Code.
MAX_SERVERS_CHARACTERS = 600
# To count the tokens of more takes so long that others would wait for it.
MAX_SHORT_BYTES = 8 * 1024
# What a page of output costs besides its text.
PAGE_FRAME_TOKENS = 100

PACKAGES_LINE = (
    "Python has numpy, pandas, matplotlib, pillow, openpyxl, lxml, beautifulsoup4, python-dateutil, tabulate, pyyaml, "
    "duckdb; TypeScript has zod, date-fns, lodash-es, papaparse, cheerio."
)

EXECUTE_CODE = """\
Runs a TypeScript or Python program in a fresh sandbox that can call every tool of the connected MCP servers, and \
returns what it printed. Find tools with search_tools, read their signatures with get_tool_info, then call several \
tools in one program, filter and join their results there, and print only what matters. Nothing is kept for the next \
program, and there is no network but the tools.

Example: {"code": "import { execute_sql } from '/workspace/servers/postgres/execute_sql.js';\\nconst rows = await \
execute_sql({ sql: 'select status from orders' });\\nconsole.log(rows.filter(r => r.status === 'open').length);"}

In Python: {"language": "python", "code": "from servers.postgres import execute_sql\\n\
print(len(execute_sql(sql='select 1')))"}; in async code, await each call. Show a picture with plt.show(), \
emit_image(figure, bytes or path) from servers.output, or emitImage(bytes or path) from \
'/workspace/servers/output.js'."""

GET_EXECUTION = """\
Reads the output of an earlier execution from an offset on, or the lines of it that contain a text. Use it when \
execute_code says that part of the output is not shown; nothing is run again.

Example: {"search": "error"}"""

CANCEL_EXECUTION = """\
Ends an execution that is still running and returns what it printed until then. Its id is in the first progress \
message of execute_code.

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
        questions: Budget,
        reporting: Reporting,
        servers_of: Callable[[Role], list[str]],
        *,
        with_packages: bool = True,
    ) -> None:
        self._executions = executions
        self._records = records
        self._questions = questions
        self._reporting = reporting
        self._servers_of = servers_of
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
        execution_id = new_execution_id()
        async with self._executions.recording_refusal(call.caller, execution_id):
            asked = ProgramRequest(order.language, order.code, order.timeout_seconds, check=order.check)
            running = await self._executions.start(call.caller, asked, execution_id)
        with running.watched():
            await self._follow(running, call)
        return await self._answer(await running.result(), order.max_tokens)

    async def get_execution(self, order: GetExecution, call: Call) -> Answer:
        if order.execution_id is not None:
            record = await self._records.visible(call.caller, order.execution_id)
        else:
            own = Filter(caller=call.caller.key_name, kind=Kind.PROGRAM)
            newest = await self._records.newest(call.caller, own, 1)
            if not newest:
                raise NotFound("You have not run anything yet.")
            record = newest[0]
        async with self._questions.reserve(call.caller.key_name, 1):
            if order.search is None:
                return await self._read(record, order)
            return await self._search(record, order, order.search)

    async def _read(self, record: ExecutionRecord, order: GetExecution) -> Answer:
        room = self._room(order.max_tokens)
        stored = await self._records.output(record, order.stream, order.offset, room.tokens * MAX_CHARACTERS_PER_TOKEN)
        reached_end = order.offset + len(stored.data) >= stored.total_bytes
        shown = await asyncio.to_thread(page, stored.data, order.offset, room, is_last=reached_end)
        following = shown.offset + shown.size
        reply = _page_of(
            record,
            order,
            stored,
            offset=shown.offset,
            text=shown.text,
            next_offset=following if following < stored.total_bytes else None,
        )
        return Answer(reply, page_text(reply))

    async def _search(self, record: ExecutionRecord, order: GetExecution, wanted: str) -> Answer:
        stored = await self._records.output(record, order.stream, 0, LARGEST_OUTPUT_BYTES)
        room = self._room(order.max_tokens)
        found = await asyncio.to_thread(matching_lines, stored.data, wanted, order.offset, room)
        following = found.shown[-1].offset + 1 if found.left else None
        reply = _page_of(record, order, stored, matches=found.shown, match_count=found.count, next_offset=following)
        return Answer(reply, matches_text(reply, wanted))

    async def cancel_execution(self, order: CancelExecution, call: Call) -> Answer:
        result = await self._executions.cancel(call.caller, order.execution_id)
        return replace(await self._answer(result, order.max_tokens), is_error=False)

    def _room(self, max_tokens: int | None) -> Room:
        return Room(self._reporting.tokens, (max_tokens or self._reporting.reply_tokens) - PAGE_FRAME_TOKENS)

    async def _follow(self, running: RunningExecution, call: Call) -> None:
        """Report progress until the execution ends or nobody waits for the answer any more."""
        began = time.monotonic()
        await call.report(0, f"execution {running.execution.id} started")
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

    async def _answer(self, result: ExecutionResult, max_tokens: int | None) -> Answer:
        telling = (result, max_tokens or self._reporting.reply_tokens, self._reporting.tokens)
        is_short = len(result.stdout) + len(result.stderr) <= MAX_SHORT_BYTES
        told = report(*telling) if is_short else await asyncio.to_thread(report, *telling)
        pictures = [
            types.ImageContent(data=b64encode(image.data).decode(), mime_type=image.mime_type)
            for image in result.images
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


def _page_of(record: ExecutionRecord, order: GetExecution, stored: Page, **found: Any) -> ExecutionPage:
    return ExecutionPage(
        execution_id=record.id,
        state=record.state,
        outcome=record.outcome,
        stream=order.stream,
        total_bytes=stored.total_bytes,
        **found,
    )


def _progress(running: RunningExecution) -> str:
    """Return the last line that was printed, or the state while there is none."""
    for stream in (Stream.STDOUT, Stream.STDERR):
        lines = running.output(stream).decode(errors="replace").rstrip().rsplit("\n", 1)
        if lines[-1].strip():
            return lines[-1].strip()[-MAX_PROGRESS_CHARACTERS:]
    return str(running.state)
