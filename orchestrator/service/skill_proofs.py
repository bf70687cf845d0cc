"""Proves skills: runs one live with only the tools that it declares, records that, and replays the recording."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import InvalidRequest, OrchestratorError
from orchestrator.domain.execution import Check, ExecutionResult, Language, Mistake, Outcome
from orchestrator.domain.files import Given
from orchestrator.domain.mistakes import mistakes_in
from orchestrator.domain.skills import Remark, SkillVersion, canonical_json
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.service.executions import Executions, ProgramRequest, new_execution_id
from orchestrator.service.scopes import (
    LARGEST_RECORDING_BYTES,
    MOST_NAMED,
    RecordedCall,
    Recording,
    Replay,
    Scope,
    SkillRun,
)
from orchestrator.service.skill_files import SkillSources, code_path, driver, files_around

EXAMINE_SECONDS = 30.0
PROOF_SECONDS = 120.0
EXAMINED_BYTES = 1024 * 1024  # of what is told of the code, which has the code in it
TOLD_CHARACTERS = 1500
LARGEST_UNPACKED_BYTES = 16 * LARGEST_RECORDING_BYTES  # of all examples, with the schemas of the tools

Library = Callable[[Language], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ProofPrograms:
    """The programs that look at a skill's code in a sandbox, without running it."""

    examiners: Mapping[Language, str]
    checker: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill on its way to a proof: its code, and what that may import."""

    name: str
    language: Language
    code: str
    tools: tuple[Tool, ...]  # what it declares, as it is now; skills among them
    needed: tuple[Tool, ...]  # the tools of those skills, and the skills that these use
    codes: Mapping[str, str] = field(default_factory=dict)  # of the skills that run in its process, by version

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(tool.path for tool in (*self.tools, *self.needed))


@dataclass(frozen=True, slots=True)
class Run:
    """One example: what went in, what was called, what came out."""

    input: Mapping[str, Any]
    calls: tuple[RecordedCall, ...]
    output: Any

    def as_document(self) -> dict[str, Any]:
        calls = [call.as_document() for call in self.calls]
        return {"input": self.input, "calls": calls, "output": self.output}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Run:
        calls = tuple(RecordedCall.from_document(call) for call in document["calls"])
        return cls(document["input"], calls, document["output"])


@dataclass(frozen=True, slots=True)
class LiveRun:
    run: Run
    execution_id: str
    has_printed: bool


@dataclass(frozen=True, slots=True)
class Proven:
    """What is kept of a proof: its runs, and the tools as they were."""

    runs: tuple[Run, ...]
    tools: tuple[Tool, ...]

    def as_document(self) -> dict[str, Any]:
        tools = [_tool_document(tool) for tool in self.tools]
        return {"tools": tools, "runs": [run.as_document() for run in self.runs]}

    def packed(self) -> bytes:
        plain = json.dumps(self.as_document()).encode()
        if len(plain) > LARGEST_UNPACKED_BYTES:
            raise ProofFailed("recording", "The recording, with the schemas of its tools, is too large.")
        return zlib.compress(plain)

    @classmethod
    def unpacked(cls, packed: bytes) -> Proven:
        """Read what was packed, or what a file has as plain JSON."""
        plain = packed if packed[:1] == b"{" else zlib.decompressobj().decompress(packed, LARGEST_UNPACKED_BYTES)
        document = json.loads(plain)
        return cls(
            tuple(Run.from_document(run) for run in document["runs"]),
            tuple(_tool_of(tool) for tool in document["tools"]),
        )


class ProofFailed(Exception):
    """The remark says why, and where, to the author; the summary has nothing of what was recorded or printed."""

    def __init__(self, kind: str, message: str, place: str = "", summary: str | None = None) -> None:
        super().__init__(message)
        self.remark = Remark(kind, message, place)
        self.summary = message if summary is None else summary


class SkillProofs:
    """Examines, checks, runs and replays skills, in sandboxes of their own."""

    def __init__(
        self, executions: Executions, sources: SkillSources, library: Library, programs: ProofPrograms
    ) -> None:
        self._executions = executions
        self._sources = sources
        self._library = library
        self._programs = programs

    async def examine(
        self, caller: Caller, name: str, language: Language, code: str, parameters: Sequence[str] | None
    ) -> dict[str, Any]:
        """Find out what the code is, in a sandbox, without running it."""
        request = json.dumps({"code": code, "parameters": parameters}).encode()
        scope = Scope(frozenset(), (name,))
        result = await self._run(
            caller,
            ProgramRequest(
                language,
                self._programs.examiners[language],
                EXAMINE_SECONDS,
                check=Check.OFF,
                files={"request.json": Given(request)},
                skill=SkillRun(f"{name}@", scope, max_output_bytes=EXAMINED_BYTES, is_proof=True),
            ),
        )
        try:
            found: dict[str, Any] = json.loads(result.stdout)
        except ValueError:
            raise InvalidRequest(f"`code` cannot be examined: {_tail(result) or result.outcome}") from None
        if not found.get("ok"):
            raise InvalidRequest(f"`code`: {found.get('problem') or 'it cannot be read.'}")
        return found

    async def check(self, caller: Caller, candidate: Candidate) -> tuple[Mistake, ...]:
        """Find what surely fails, with what the live run will import around it; no verdict rejects nothing."""
        request = json.dumps({"language": candidate.language, "code": candidate.code}).encode()
        files = await asyncio.to_thread(self._files, candidate)
        run = SkillRun(f"{candidate.name}@", Scope(frozenset(), (candidate.name,)), prepared=files, is_proof=True)
        result = await self._run(
            caller,
            ProgramRequest(
                Language.PYTHON,  # in which the check is written, whatever it looks at
                self._programs.checker,
                EXAMINE_SECONDS,
                check=Check.OFF,
                files={"request.json": Given(request)},
                skill=run,
            ),
        )
        try:
            return mistakes_in(json.loads(result.stdout))
        except ValueError:
            return ()

    async def live(
        self, caller: Caller, candidate: Candidate, given: Mapping[str, Any], recording: Recording | None = None
    ) -> LiveRun:
        """Run the skill with only the tools that it declares, and return what happened.

        All examples of a skill share one recording, which limits what they call together.
        """
        recording = recording or Recording()
        recorded = len(recording.calls)
        scope = Scope(candidate.paths, (candidate.name,), returns=True, recording=recording)
        result = await self._run_candidate(caller, candidate, given, scope)
        _require_declared(scope)
        if recording.overflowed:
            message = f"Its calls and results take more than {LARGEST_RECORDING_BYTES} bytes: use less data."
            raise ProofFailed("recording", message)
        _require_result(result, scope, "live run")
        await asyncio.to_thread(_require_json, scope.returned)
        run = Run(given, tuple(recording.calls[recorded:]), scope.returned)
        return LiveRun(run, result.execution_id, has_printed=bool(result.stdout.strip()))

    async def replay(self, caller: Caller, candidate: Candidate, run: Run, seconds: float = PROOF_SECONDS) -> float:
        """Run the skill on what was recorded, with no server in reach; it must do and return the same.

        Return how long it ran, without the time for which it waited to be run.
        """
        replay = Replay(run.calls)
        scope = Scope(candidate.paths, (candidate.name,), returns=True, replay=replay)
        result = await self._run_candidate(caller, candidate, run.input, scope, seconds)
        _require_declared(scope)
        if result.outcome is Outcome.TIMED_OUT:
            raise ProofFailed("replay", TOO_SLOW)
        if replay.unknown:
            called = ", ".join(dict.fromkeys(replay.unknown))
            raise ProofFailed("replay", f"The replay called {called} with other arguments than the live run. {SAME}")
        _require_result(result, scope, "replay")
        await asyncio.to_thread(_require_json, scope.returned)
        where = await asyncio.to_thread(_first_difference, run.output, scope.returned)
        if where is not None:
            message = f"The replay returned something else at `{where}`. {SAME}"
            raise ProofFailed("replay", message, summary="The replay returned something else.")
        if replay.left:
            named = ", ".join(list(dict.fromkeys(replay.left))[:MOST_NAMED])
            raise ProofFailed("replay", f"The replay did not call {named}. {SAME}")
        return result.record.timings.run_seconds

    async def _run_candidate(
        self,
        caller: Caller,
        candidate: Candidate,
        given: Mapping[str, Any],
        scope: Scope,
        seconds: float = PROOF_SECONDS,
    ) -> ExecutionResult:
        language = candidate.language
        files = await asyncio.to_thread(self._files, candidate)
        run = SkillRun(f"{candidate.name}@", scope, prepared=files, is_proof=True)
        code = driver(language, candidate.name, given)
        return await self._run(caller, ProgramRequest(language, code, seconds, check=Check.OFF, skill=run))

    def _files(self, candidate: Candidate) -> dict[str, str]:
        tools, language = (*candidate.tools, *candidate.needed), candidate.language
        return {
            **self._library(language),
            **files_around(self._sources, tools, candidate.codes, language),
            code_path(candidate.name, language): candidate.code,
        }

    async def _run(self, caller: Caller, request: ProgramRequest) -> ExecutionResult:
        running = await self._executions.start(caller, request, new_execution_id())
        with running.watched():
            return await running.result()


TOO_SLOW = "Its replay takes too long: give it examples that take less time."
NOTHING_RETURNED = "ended without a result: return it, and do not end the process"
# How the client library begins to say that something is not there.
NOT_THERE = ("has no tool '", "There is no server '", "There is no skill '", "No module named 'servers.")
SAME = "With the same input and the same results of tools, a skill must do the same: pass times and the like as input."


def candidate_of(
    skill: SkillVersion, tools: Sequence[Tool], needed: Sequence[Tool], codes: Mapping[str, str]
) -> Candidate:
    content = skill.content
    return Candidate(content.name, content.language, content.code, tuple(tools), tuple(needed), codes)


def _require_result(result: ExecutionResult, scope: Scope, which: str) -> None:
    if result.outcome is Outcome.SANDBOX_ERROR:
        raise OrchestratorError(f"The {which} could not be carried out: {result.record.detail}")
    if result.outcome is Outcome.COMPLETED and scope.has_returned:
        return
    summary = f"The {which} {NOTHING_RETURNED if result.outcome is Outcome.COMPLETED else result.outcome.in_words}."
    told = _tail(result)
    if any(words in told for words in NOT_THERE):
        told += f" A skill is proven with only what `tools` declares: {', '.join(sorted(scope.tools)) or 'nothing'}."
    raise ProofFailed("failed", f"{summary} {told}".strip(), summary=summary)


def _require_json(value: Any) -> None:
    try:
        canonical_json(value)
    except (ValueError, RecursionError):
        message = "The result must be JSON: no NaN, no infinity, no half of a character, and not nested too deeply."
        raise ProofFailed("output", message, "output") from None


def _tail(result: ExecutionResult) -> str:
    return result.stderr.decode(errors="replace").strip()[-TOLD_CHARACTERS:]


def _require_declared(scope: Scope) -> None:
    if scope.refused:
        called = ", ".join(dict.fromkeys(scope.refused))
        # What is called may have any name: whoever reads why a skill is stale is not told it.
        summary = "It called what it does not declare in `tools`."
        raise ProofFailed("undeclared", f"It called {called}, which it does not declare in `tools`.", summary=summary)


def _first_difference(one: Any, other: Any) -> str | None:
    """Tell where two values differ as JSON, where 1 and 1.0 are two; None if they do not."""
    return None if canonical_json(one) == canonical_json(other) else _difference(one, other, "output")


def _difference(one: Any, other: Any, path: str) -> str:
    match one, other:
        case dict(), dict():
            for name in sorted({*one, *other}, key=str):
                if name not in one or name not in other:
                    return f"{path}.{name}"
                if one[name] != other[name]:
                    return _difference(one[name], other[name], f"{path}.{name}")
        case list(), list() if len(one) == len(other):
            for index, (left, right) in enumerate(zip(one, other, strict=True)):
                if left != right:
                    return _difference(left, right, f"{path}[{index}]")
    return path


def _tool_document(tool: Tool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "server": tool.server,
        "name": tool.name,
        "input": tool.input_schema,
        "output": tool.output_schema,
        "lists_contents": tool.lists_contents,
    }
    if tool.skill is not None:
        document["skill"] = [tool.skill.version, tool.skill.language, list(tool.skill.requires)]
    return document


def _tool_of(document: Mapping[str, Any]) -> Tool:
    skill = document.get("skill")
    traits = SkillTraits(skill[0], skill[1], tuple((server, tool) for server, tool in skill[2])) if skill else None
    return Tool(
        server=document["server"],
        name=document["name"],
        input_schema=document["input"],
        output_schema=document["output"],
        lists_contents=document.get("lists_contents", False),
        skill=traits,
    )
