"""Executions without sandboxes, for the unit tests of skills: what runs is a function of the test."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.execution import Execution, ExecutionResult, Outcome, State, Timings
from orchestrator.domain.upstream import CallResult
from orchestrator.service.executions import ProgramRequest
from orchestrator.service.running import RunningExecution
from orchestrator.service.scopes import Scope
from tests.support.samples import limits

EXAMINER = "(examines)"
CHECKER = "(checks)"
NOT_RETURNED = object()
_CALLED_WITH = re.compile(r"""answer\(["'](\w+)["'], (".*")\)""")


def input_of(code: str) -> dict[str, Any]:
    """Read what a skill is called with out of the program that runs it."""
    match = _CALLED_WITH.search(code)
    assert match is not None, code
    given: dict[str, Any] = json.loads(json.loads(match[2]))
    return given


class ProgramEnded(Exception):
    """How a program ends that does not just return."""

    def __init__(self, outcome: Outcome = Outcome.FAILED, stderr: str = "", detail: str | None = None) -> None:
        self.outcome, self.stderr, self.detail = outcome, stderr, detail


@dataclass
class FakeProgram:
    """A skill under way: its input, and what it may call."""

    input: Mapping[str, Any]
    scope: Scope
    tools: Mapping[str, Callable[[Mapping[str, Any]], CallResult]]
    files: Mapping[str, str]

    def call(self, path: str, **arguments: Any) -> CallResult:
        """Call a tool as the one way for calls does: in the scope, and recorded or answered from a recording."""
        self.scope.require(path)
        if self.scope.replay is not None:
            return self.scope.replay.answer(path, arguments)
        try:
            result = self.tools[path](arguments)
        except OrchestratorError as error:
            self._note(path, arguments, None, error)
            raise
        self._note(path, arguments, result, None)
        return result

    def _note(
        self, path: str, arguments: Mapping[str, Any], result: CallResult | None, error: OrchestratorError | None
    ) -> None:
        recording = self.scope.recording
        if recording is not None and recording.has_room(len(json.dumps([dict(arguments), dict(result or {})]))):
            recording.note(path, arguments, result, error)


class FakeExecutions:
    def __init__(self) -> None:
        self.program: Callable[[FakeProgram], Any] = lambda program: {"count": len(program.input["text"])}
        self.tools: dict[str, Callable[[Mapping[str, Any]], CallResult]] = {}
        self.printed = b""  # by each run
        self.examined: dict[str, Any] = {}  # what is found out about the code, where it is not the usual
        self.examiner_prints: bytes | None = None  # instead of that
        self.mistakes: list[Any] = []  # what the check finds in the code
        self.checker_prints: bytes | None = None  # instead of that
        self.requests: list[tuple[Caller, ProgramRequest]] = []
        self.fault: OrchestratorError | None = None
        self.running = 0
        self.slow_skills: frozenset[str] = frozenset()  # whose runs take all the time that they have
        self.waiting_skills: frozenset[str] = frozenset()  # whose runs never begin
        self.seconds = 0.0  # that each run takes
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    @property
    def asked_to_examine(self) -> list[dict[str, Any]]:
        """Return what the programs that examine code were given."""
        return [json.loads(each.files["request.json"].content) for _, each in self.requests if each.code == EXAMINER]

    @property
    def asked_to_check(self) -> list[ProgramRequest]:
        return [each for _, each in self.requests if each.code == CHECKER]

    @property
    def runs(self) -> list[ProgramRequest]:
        return [each for _, each in self.requests if each.code not in (EXAMINER, CHECKER)]

    async def start(self, caller: Caller, request: ProgramRequest, execution_id: str) -> RunningExecution:
        self.requests.append((caller, request))
        if self.fault is not None:
            raise self.fault
        self.running += 1
        name = request.skill.label.partition("@")[0] if request.skill is not None else ""
        try:
            await (asyncio.Event() if name in self.waiting_skills else self.may_go_on).wait()
        finally:
            self.running -= 1
        execution = Execution(execution_id, caller, request.language, request.code, limits(), time.time())
        ended_well = replace(
            execution.record(State.FINISHED), outcome=Outcome.COMPLETED, timings=Timings(run_seconds=self.seconds)
        )
        result = ExecutionResult(ended_well)
        try:
            if name in self.slow_skills:
                raise ProgramEnded(Outcome.TIMED_OUT)
            result = replace(result, stdout=self._printed(request))
        except ProgramEnded as ended:
            record = replace(result.record, outcome=ended.outcome, detail=ended.detail)
            result = replace(result, record=record, stderr=ended.stderr.encode())
        return RunningExecution.ended(execution, result)

    def _printed(self, request: ProgramRequest) -> bytes:
        assert request.skill is not None
        if request.code == EXAMINER:
            return self._examination(request)
        if request.code == CHECKER:
            verdict = json.dumps({"mistakes": self.mistakes}).encode()
            return verdict if self.checker_prints is None else self.checker_prints
        scope = request.skill.scope
        program = FakeProgram(input_of(request.code), scope, self.tools, request.skill.prepared or {})
        try:
            returned = self.program(program)
        except OrchestratorError as error:  # of a call, which the program does not catch
            raise ProgramEnded(Outcome.FAILED, error.message) from None
        if scope.returns and returned is not NOT_RETURNED:
            scope.hand_back(returned)
        return self.printed

    def _examination(self, request: ProgramRequest) -> bytes:
        if self.examiner_prints is not None:
            return self.examiner_prints
        code = json.loads(request.files["request.json"].content)["code"]
        usual = {"ok": True, "form": "function", "code": code, "input": None, "output": None, "defaults": {}}
        return json.dumps({**usual, "imports": [], **self.examined}).encode()
