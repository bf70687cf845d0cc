"""Runs skills: as executions of their own, and for programs in another language, in a sandbox within theirs."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import structlog

from orchestrator.domain.access import SKILLS, Caller, Role
from orchestrator.domain.errors import InvalidArguments, LimitExceeded
from orchestrator.domain.execution import Check, Ending, Language, Limits, Outcome, Shares, Stream
from orchestrator.domain.json_schema import mismatches
from orchestrator.domain.sandbox import Program
from orchestrator.domain.skills import MAX_DEPTH, SkillState, SkillVersion, canonical_json, usage
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import CallResult, is_failure
from orchestrator.service.budget import Budget
from orchestrator.service.executions import (
    BACKUP_KILL_SECONDS,
    Executions,
    ProgramRequest,
    bring_texts,
)
from orchestrator.service.grants import Grant, Grants
from orchestrator.service.provisions import Provisions
from orchestrator.service.running import RunningExecution
from orchestrator.service.scopes import LARGEST_ARGUMENTS_BYTES, Scope, SkillRun
from orchestrator.service.skill_files import SkillSources, code_files, code_path, driver, files_around, is_index
from orchestrator.service.skill_shelf import SkillShelf
from orchestrator.service.warm_pool import WarmPool

log = structlog.get_logger()

# Sandboxes beside those of the programs that wait for them; a program that calls a skill keeps its own meanwhile.
NESTED = Shares(total=4, per_caller=2)
MOST_SECONDS = 300.0  # of a skill in a sandbox of its own, also within a program that has hours
LEAST_SECONDS = 0.5  # a skill that has less time left is not begun
TOLD_CHARACTERS = 2000  # of what a skill that failed printed


class SkillCalls:
    """What programs and faces call skills through."""

    def __init__(
        self,
        shelf: SkillShelf,
        sources: SkillSources,
        executions: Executions,
        pool: WarmPool,
        provisions: Provisions,
        grants: Grants,
        limits_for: Callable[[float], Limits],
        importable: Callable[[Role], Sequence[Tool]],
        nested: Shares = NESTED,
    ) -> None:
        self._shelf = shelf
        self._sources = sources
        self._executions = executions
        self._pool = pool
        self._provisions = provisions
        self._grants = grants
        self._limits_for = limits_for
        self._importable = importable
        self._nested = Budget(nested.total, nested.per_caller)

    def own_tools(self, caller: Caller, role: Role) -> Sequence[Tool]:
        return self._shelf.own_tools(caller, role)

    async def files_for(self, caller: Caller, program: str, language: Language) -> Mapping[str, str]:
        """Return the skills that a caller saved itself, for a program that may import them."""
        if SKILLS not in program or not (own := self._shelf.own_importable(caller, caller.role)):
            return {}
        return await asyncio.to_thread(self._files_of, own, caller.role, language)

    def _files_of(self, own: Sequence[Tool], role: Role, language: Language) -> Mapping[str, str]:
        replaced = {tool.name for tool in own}
        approved = [tool for tool in self._importable(role) if tool.skill is not None and tool.name not in replaced]
        # The list of all that there are is written anew; the approved ones themselves are there.
        written = self._sources.skill_files((*own, *approved), language)
        indexes = {path: text for path, text in written.items() if is_index(path)}
        wrappers = {
            path: text
            for path, text in written.items()
            if path.rpartition("/")[2].removesuffix(language.suffix) in replaced
        }
        return {**indexes, **wrappers, **code_files(own, language, self._shelf.code)}

    async def start(
        self,
        caller: Caller,
        name: str,
        given: Mapping[str, Any],
        execution_id: str,
        timeout_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> RunningExecution:
        """Begin an execution that runs a skill with an input, and prints its result."""
        skill = self._shelf.version_to_call(caller, name)
        code = await asyncio.to_thread(_driver_of, skill, given)
        brought = await self._files_of_version(skill)
        run = SkillRun(f"{name}@{skill.version}", self._scope(skill), brought)
        request = ProgramRequest(skill.content.language, code, timeout_seconds, idempotency_key, Check.OFF, skill=run)
        running = await self._executions.start(caller, request, execution_id)
        if running.execution.id == execution_id:  # else it is the one that began before with the same key
            self._shelf.uses.count(skill, failed=False)
        return running

    async def _files_of_version(self, skill: SkillVersion) -> Mapping[str, str]:
        """Return the code of exactly this version and what it may import: of its caller's tools it sees no others."""
        language, reach = skill.content.language, self._shelf.reach
        own = reach.beside(skill)
        declared = [tool for path in skill.content.tools if (tool := reach.tool(path, own)) is not None]
        needed, codes = reach.needs(skill.content, own)
        files = await asyncio.to_thread(files_around, self._sources, (*declared, *needed), codes, language)
        return {**files, code_path(skill.name, language): skill.content.code}

    def note_end(self, caller: Caller, name: str, outcome: Outcome | None) -> None:
        """Count that a skill failed; what its caller cancelled did not."""
        if outcome not in (None, Outcome.COMPLETED, Outcome.CANCELLED):
            self.count_use(caller, caller.role, name, failed=True)

    def count_use(self, caller: Caller, role: Role, name: str, *, failed: bool) -> None:
        used = self._shelf.usable(replace(caller, role=role), name)
        if used is not None:  # a program may say anything
            self._shelf.uses.count(used, failed=failed)

    def _scope(self, skill: SkillVersion, around: tuple[str, ...] = (), *, returns: bool = False) -> Scope:
        """Narrow an execution to what a skill declares, and what the skills that it uses do."""
        of_approved = skill.state is SkillState.APPROVED
        return Scope(self._shelf.reach.of(skill), (*around, skill.name), returns=returns, of_approved=of_approved)

    async def call(self, grant: Grant, role: Role, skill: Tool, arguments: Mapping[str, Any]) -> CallResult:
        """Run a skill for a program that waits for its result, with what is left of the program's time and budget."""
        caller = replace(grant.caller, role=role)
        around = grant.scope.chain if grant.scope is not None else ()
        self._require_end((*around, skill.name))
        outer = grant.scope
        found = self._shelf.version_to_call(caller, skill.name, only_approved=outer is not None and outer.of_approved)
        code = await asyncio.to_thread(_driver_of, found, arguments)
        self._shelf.uses.count(found, failed=False)
        scope = self._scope(found, around, returns=True)
        if outer is not None:  # no skill gives another more than that was approved or proven with
            scope.tools &= outer.tools
            scope.of_approved |= outer.of_approved
        async with grant.nested:
            if grant.scope is not None and grant.scope.is_nested:  # its place is the one that it runs in
                result = await self._run_within(grant, caller, found, scope, code)
            else:
                async with self._nested.reserve(caller.key_name, 1):
                    result = await self._run_within(grant, caller, found, scope, code)
        if outer is not None:  # what it called without declaring it fails the proof of whatever called it, too
            outer.note_refused(scope.refused)
        if is_failure(result):
            self._shelf.uses.count(found, failed=True)
        return result

    def _require_end(self, around: tuple[str, ...]) -> None:
        *outer, name = around
        if name in outer:
            raise InvalidArguments(f"Skills must not call themselves: {' → '.join(around)}.")
        if len(around) > MAX_DEPTH:
            raise LimitExceeded(f"Skills may be at most {MAX_DEPTH} deep: {' → '.join(around)}.")

    async def _run_within(
        self, outer: Grant, caller: Caller, skill: SkillVersion, scope: Scope, code: str
    ) -> CallResult:
        seconds = min((outer.deadline or 0.0) - time.monotonic(), MOST_SECONDS)
        if seconds < LEAST_SECONDS:
            raise LimitExceeded(f"The program has no time left to run {skill.name}.")
        scope.is_nested = True
        recipe, files = await self._provisions.bare(skill.content.language)
        brought = await self._files_of_version(skill)
        printed: deque[str] = deque(maxlen=64)

        def receive(stream: Stream, data: bytes) -> None:
            printed.append(data.decode(errors="replace"))

        async with self._pool.lease(recipe, files, outer.execution_id, seconds) as lease:
            await bring_texts(lease.sandbox, brought)
            grant = self._grants.issue_within(outer, lease.sandbox.id, scope)
            program = Program(code, self._limits_for(seconds), environment=grant.environment)
            try:
                async with asyncio.timeout(seconds + BACKUP_KILL_SECONDS):
                    ending = await lease.sandbox.run(program, receive)
            except TimeoutError:
                ending = Ending(Outcome.TIMED_OUT)
            finally:
                grant.revoke()
        if ending.outcome is not Outcome.COMPLETED or not scope.has_returned:
            tail = "".join(printed).strip()[-TOLD_CHARACTERS:]
            how = "returned nothing" if ending.outcome is Outcome.COMPLETED else ending.outcome.in_words
            message = f"The skill {how}.{f' {tail}' if tail else ''}"
            return {"content": [{"type": "text", "text": message}], "isError": True}
        return {"content": [_file(*each) for each in scope.left.items()], "structuredContent": scope.returned}


def _file(path: str, base64: str) -> dict[str, Any]:
    """Tell of a file as the protocol does; the caller's client library writes it where the skill left it."""
    return {"type": "resource", "resource": {"uri": f"file:///workspace/out/{quote(path)}", "blob": base64}}


def _driver_of(skill: SkillVersion, given: Mapping[str, Any]) -> str:
    """Write the program that runs a skill, if the input fits; it is decoded for that, so do it in a thread."""
    values = dict(given)
    if found := mismatches(skill.content.input, values):
        raise InvalidArguments(f"{' '.join(found)} Call it as {usage(skill.content)}.")
    try:
        size = len(canonical_json(values))
    except (ValueError, RecursionError):
        raise InvalidArguments("The input of a skill must be JSON.") from None
    if size > LARGEST_ARGUMENTS_BYTES:
        raise InvalidArguments(f"The input of a skill must have at most {LARGEST_ARGUMENTS_BYTES} bytes.")
    return driver(skill.content.language, skill.name, values)
