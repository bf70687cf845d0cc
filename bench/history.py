"""A week of executions as a journal remembers it: made up, with the sizes of real ones, and the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random

from orchestrator.domain.execution import (
    MEBIBYTE,
    Ending,
    ExecutionRecord,
    ExecutionResult,
    Kind,
    Language,
    Limits,
    Outcome,
    State,
    Timings,
    Usage,
)
from orchestrator.domain.ledger import CallOutcome, ToolCall
from orchestrator.journals.sqlite import SqliteJournal

WEEK_SECONDS = 7 * 24 * 3600.0
PROGRAM_CHARACTERS = (600, 1400)
OUTPUT_BYTES = (500, 5000)
MOST_CALLS = 12

# How often something is: one execution in so many. What is rare does not fill a page of 50 out of 10,000.
SINGLE_CALL, REFUSAL, RARE = 20, 100, 400

BUSY_CALLERS, RARE_CALLER = ("agent", "developer"), "nightly"
OUTCOMES = (*[Outcome.COMPLETED] * 17, *[Outcome.FAILED] * 2, Outcome.TIMED_OUT)
RARE_OUTCOME, RARE_STATE = Outcome.OUT_OF_MEMORY, State.INTERRUPTED
BUSY_SERVERS = ("fetch", "filesystem", "github", "memory", "playwright", "postgres", "slack")
TOOLS = ("create", "delete", "describe", "list", "read", "search", "update")
RARE_SERVER, RARE_TOOL = "archive", "restore"
# In any case of letters: what is common is one of the words.
COMMON_TEXT, RARE_TEXT, TEXT_NOWHERE = "Total", "Quarterly-Audit", "nowhere to be found"
WORDS = (
    "account", "amount", "branch", "column", "commit", "customer", "error", "event", "field", "folder", "index",
    "invoice", "issue", "label", "ledger", "message", "metric", "node", "order", "owner", "page", "project", "query",
    "record", "region", "report", "result", "score", "status", "table", "ticket", "token", "total", "user", "value",
)  # fmt: skip
CALL_IN_PYTHON = "{0} = {1}.{2}({3}={4!r})\n"
CALL_IN_TYPESCRIPT = "const {0} = await {1}.{2}({{ {3}: {4!r} }});\n"
LIMITS = Limits(
    timeout_seconds=300,
    max_output_bytes=100 * 1024,
    memory_bytes=1024 * MEBIBYTE,
    cpus=1,
    max_processes=256,
    workspace_bytes=512 * MEBIBYTE,
    scratch_bytes=128 * MEBIBYTE,
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One execution as it began and, unless it was refused, as it ended."""

    begun: ExecutionRecord
    program: str | None = None
    result: ExecutionResult | None = None


async def fill_journal(file: Path, count: int, until: float) -> None:
    journal = SqliteJournal(file, max_executions=count)
    try:
        for each in executions(count, until):
            await journal.open(each.begun, None, each.program)
            if each.result:
                await journal.finish(each.result)
    finally:
        await journal.close()


def executions(count: int, until: float) -> Iterator[Remembered]:
    """Spread `count` executions over the week before `until`, oldest first."""
    chance = Random(0)
    for number in range(count):
        begun = _begun(chance, number, until - WEEK_SECONDS * (count - number) / count)
        if begun.state is State.REFUSED:
            yield Remembered(begun)
        elif begun.kind is Kind.CALL:
            yield Remembered(begun, result=ExecutionResult(_ended(chance, begun, Outcome.COMPLETED, calls=1)))
        else:
            yield _program(chance, number, begun)


def _begun(chance: Random, number: int, accepted_at: float) -> ExecutionRecord:
    caller = RARE_CALLER if _is_one_in(RARE, number, 1) else chance.choice(BUSY_CALLERS)
    begun = ExecutionRecord(
        id=f"{chance.getrandbits(128):032x}",
        caller=caller,
        role="admin",
        state=State.RUNNING,
        accepted_at=accepted_at,
        instance="bench",
    )
    if _is_one_in(REFUSAL, number, 2):
        detail = "Too many executions are waiting; try again later."
        return replace(begun, state=State.REFUSED, finished_at=accepted_at, error_code="queue_full", detail=detail)
    if _is_one_in(SINGLE_CALL, number, 3):
        return replace(begun, kind=Kind.CALL)
    return begun


def _program(chance: Random, number: int, begun: ExecutionRecord) -> Remembered:
    language = chance.choice(list(Language))
    program = _code(chance, language)
    if _is_one_in(RARE, number, 4):
        program = f"{'#' if language is Language.PYTHON else '//'} {RARE_TEXT}\n{program}"
    begun = replace(
        begun,
        language=language,
        code_sha256=sha256(program.encode()).hexdigest(),
        code_bytes=len(program),
        limits=LIMITS,
    )
    outcome = RARE_OUTCOME if _is_one_in(RARE, number, 5) else chance.choice(OUTCOMES)
    ended = _ended(chance, begun, outcome, calls=chance.randint(0, MOST_CALLS))
    if _is_one_in(RARE, number, 6):
        ended = replace(ended, tool_calls=(*ended.tool_calls[1:], _call(chance, RARE_SERVER, RARE_TOOL)))
    if _is_one_in(RARE, number, 7):
        ended = replace(ended, state=RARE_STATE, outcome=Outcome.SANDBOX_ERROR)
    stdout = _rows(chance, chance.randint(*OUTPUT_BYTES))
    stderr = b"" if outcome is Outcome.COMPLETED else _rows(chance, OUTPUT_BYTES[0])
    ended = replace(ended, stdout_bytes=len(stdout), stderr_bytes=len(stderr))
    return Remembered(begun, program, ExecutionResult(ended, stdout, stderr))


def _ended(chance: Random, begun: ExecutionRecord, outcome: Outcome, calls: int) -> ExecutionRecord:
    usage = Usage(chance.uniform(0.01, 0.5), chance.randint(20, 90) * MEBIBYTE)
    timings = Timings(chance.uniform(0, 0.01), chance.uniform(0, 0.2), chance.lognormvariate(-1, 1))
    made = tuple(_call(chance, chance.choice(BUSY_SERVERS), chance.choice(TOOLS)) for _ in range(calls))
    exit_code = {Outcome.COMPLETED: 0, Outcome.FAILED: 1}.get(outcome)
    ended = begun.ended(Ending(outcome, exit_code, usage=usage), begun.accepted_at + timings.total_seconds)
    return replace(ended, timings=timings, tool_calls=made, warm=chance.random() < 0.9)


def _call(chance: Random, server: str, tool: str) -> ToolCall:
    outcome = CallOutcome.DONE if chance.random() < 0.95 else CallOutcome.TOOL_ERROR
    started, duration = chance.uniform(0, 1000), chance.lognormvariate(3, 1)
    return ToolCall(server, tool, outcome, started, duration, chance.randint(20, 400), chance.randint(50, 20_000))


def _code(chance: Random, language: Language) -> str:
    """Write lines that read like calls of tools."""
    length, text = chance.randint(*PROGRAM_CHARACTERS), ""
    form = CALL_IN_PYTHON if language is Language.PYTHON else CALL_IN_TYPESCRIPT
    while len(text) < length:
        name, field, value = chance.choices(WORDS, k=3)
        text += form.format(name, chance.choice(BUSY_SERVERS), chance.choice(TOOLS), field, value)
    return text


def _rows(chance: Random, length: int) -> bytes:
    text = ""
    while len(text) < length:
        text += f"{' '.join(chance.choices(WORDS, k=8))} {chance.randint(0, 99_999)}\n"
    return text[:length].encode()


def _is_one_in(many: int, number: int, turn: int) -> bool:
    """Each kind has a turn of its own, so that what is rare in one way is usual in every other."""
    return number % many == turn
