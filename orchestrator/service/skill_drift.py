"""Notices when a tool changes under a skill, and finds out whether the skill still works with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from orchestrator.domain.access import ANY_ROOM, ANY_SERVER, SKILLS, Caller, Role
from orchestrator.domain.errors import OrchestratorError, SkillNotProven
from orchestrator.domain.execution import Shares
from orchestrator.domain.json_schema import MAX_STEPS, Budget, differences, mismatches
from orchestrator.domain.skills import BUILT_IN, SkillState, SkillVersion, VersionKey
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from orchestrator.service.budget import Budget as Places
from orchestrator.service.skill_proofs import TOO_SLOW, Candidate, ProofFailed, Proven, SkillProofs, candidate_of
from orchestrator.service.skill_shelf import SkillShelf

log = structlog.get_logger()

MOST_DIFFERENCES = 8
STEPS_OF_A_SKILL = 20 * MAX_STEPS  # of checking all that was recorded of one
REPLAYED_AT_ONCE = Shares(total=2, per_caller=1)
# Of all authors together and of each; what waits for its approval nobody has read, and it may take long.
LOOKED_AT_AT_ONCE = {True: Shares(total=4, per_caller=2), False: Shares(total=4, per_caller=1)}
APPROVED_SECONDS, WAITING_SECONDS = 120.0, 20.0  # for running all examples of one skill
QUEUE_SECONDS = 120.0  # for which it may wait besides to be run
ROUND_SECONDS = 20.0  # for those of one author that wait for their approval
LEAST_SECONDS = 0.5
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 60.0
# The daemon itself: it may see every tool, and calls none, for what it runs is answered from a recording.
REPLAYER = Caller("(skills)", Role("(skills)", frozenset({ANY_SERVER}), chat_rooms=frozenset({ANY_ROOM})))


@dataclass(frozen=True, slots=True)
class Failed:
    """When to look again at a skill that could not be looked at, and how long that is."""

    again_at: float
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay on demand found."""

    skill: SkillVersion
    problem: str | None


class SkillDrift:
    """Replays skills whose tools have changed, and marks as stale those that no longer work with them."""

    def __init__(
        self,
        shelf: SkillShelf,
        proofs: SkillProofs,
        statuses: Callable[[], Sequence[UpstreamStatus]],
        edition: Callable[[], object],
        built_in: Callable[[str], bytes | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shelf = shelf
        self._reach = shelf.reach
        self._proofs = proofs
        self._statuses = statuses
        self._edition = edition
        self._built_in = built_in
        self._clock = clock
        self._looked_at: dict[bool, tuple[object, int, frozenset[str]]] = {}  # by whether it was at what is approved
        self._stale_with: dict[VersionKey, dict[str, str]] = {}  # the tools that each is known not to fit
        self._failed: dict[VersionKey, Failed] = {}
        self._turns = {
            of_approved: Places(shares.total, shares.per_caller) for of_approved, shares in LOOKED_AT_AT_ONCE.items()
        }
        self._replays = Places(REPLAYED_AT_ONCE.total, REPLAYED_AT_ONCE.per_caller)  # that somebody asked for

    async def take_up_changes(self, *, of_approved: bool = True) -> None:
        """Look at the skills whose tools are not those that they were proven with, if anything has changed.

        What is approved and what waits for that are looked at apart: nobody has read what waits, and it may take long.
        """
        now = self._edition(), self._shelf.revision, self._connected()
        if now == self._looked_at.get(of_approved):
            return
        turns: dict[str, list[SkillVersion]] = {}
        for skill in self._shelf.watched(approved=of_approved):
            turns.setdefault(skill.name if of_approved else skill.author, []).append(skill)
        looked_at = await asyncio.gather(*(self._look_in_turn(turn, of_approved) for turn in turns.values()))
        if all(looked_at):
            self._looked_at[of_approved] = now  # and not what is there by now, which the first were not compared with

    async def _look_in_turn(self, skills: Sequence[SkillVersion], of_approved: bool) -> bool:
        """Look at skills one after the other, for some time; what is left over then is looked at in the next round."""
        ends = self._clock() + ROUND_SECONDS
        looked_at = True
        for skill in skills:
            if self._clock() >= ends:
                return False
            async with self._turns[of_approved].reserve(skill.author, 1):
                looked_at &= await self._try_to_look_at(skill)
        return looked_at

    async def _try_to_look_at(self, skill: SkillVersion) -> bool:
        """Look at one; if that fails, it stays hidden and is looked at again, ever less often."""
        key = skill.key
        failed = self._failed.get(key)
        if failed is not None and self._clock() < failed.again_at:
            return False
        try:
            async with asyncio.timeout(_seconds_for(skill) + QUEUE_SECONDS):
                await self._look_at(skill)
        except Exception as error:
            wait = min(LONGEST_WAIT_SECONDS, 2 * failed.wait_seconds if failed is not None else FIRST_WAIT_SECONDS)
            self._failed[key] = Failed(self._clock() + wait, wait)
            told = error.message if isinstance(error, OrchestratorError) else repr(error)
            log.warning("skill.not_looked_at", skill=skill.name, version=skill.version, error=told)
            return False
        self._failed.pop(key, None)
        return True

    async def _look_at(self, skill: SkillVersion) -> None:
        if skill.proof is None:
            return
        own = self._reach.beside(skill)
        connected = self._connected()
        tools = {path: self._reach.tool(path, own) for path in skill.content.tools}
        missing = [path for path, tool in tools.items() if tool is None]
        gone = [path for path in missing if path.partition("/")[0] in {*(connected & self._reach.servers), SKILLS}]
        if gone and skill.author == BUILT_IN:
            return  # it is for a server of that name which is another one here
        if gone:
            await self._mark(skill, [self._what_became_of(path, own) for path in gone])
            return
        if missing:
            return  # of a server that is down nothing is known
        digests = self._reach.digests(skill.content, own)
        if digests is None:
            return  # a tool of a skill that it uses is missing, which is looked at, too
        if digests == skill.proof.digests:
            await self._mark(skill, [])
            return
        if gained := sorted(digests.keys() - skill.proof.digests.keys()):
            await self._mark(
                skill, [f"`{path}` is called by a skill that it uses, and was not before." for path in gained]
            )
            return
        if self._stale_with.get(skill.key) != digests:
            await self._prove_again(skill, [tool for tool in tools.values() if tool is not None], digests)

    def _connected(self) -> frozenset[str]:
        return frozenset(status.server for status in self._statuses() if status.state is UpstreamState.CONNECTED)

    def _what_became_of(self, path: str, own: Mapping[str, SkillVersion]) -> str:
        server, _, name = path.partition("/")
        is_there = server == SKILLS and (name in own or self._shelf.approved(name) is not None)
        return f"`{path}` is stale." if is_there else f"`{path}` is not there any more."

    async def _prove_again(self, skill: SkillVersion, tools: Sequence[Tool], digests: dict[str, str]) -> None:
        """Replay a skill with the tools as they are now, if what it passes and gets still fits them."""
        packed = await self._recording(skill)
        if packed is None or skill.proof is None:
            return
        proven = await asyncio.to_thread(Proven.unpacked, packed)
        needed, codes = self._reach.needs(skill.content, self._reach.beside(skill))
        every = (*tools, *needed)  # of skills in its own process the calls are recorded, too
        drift, renewed = await asyncio.to_thread(_drift, proven, every), None
        if not drift:
            try:
                await self._replay(skill, proven, candidate_of(skill, tools, needed, codes))
                renewed = await asyncio.to_thread(Proven(proven.runs, _renewed(proven, every)).packed)
            except ProofFailed as failure:
                # Whoever may use it reads this, and only the author may read what was recorded.
                drift = [*_changes(proven, every), failure.summary]
        if drift:
            self._stale_with[skill.key] = digests
            await self._mark(skill, drift[:MOST_DIFFERENCES])
            return
        proof = replace(skill.proof, proven_at=time.time(), digests=digests)
        log.info("skill.proven_again", skill=skill.name, version=skill.version)
        await self._shelf.change_proof(skill, proof, recording=renewed)

    async def _replay(self, skill: SkillVersion, proven: Proven, candidate: Candidate) -> None:
        left = _seconds_for(skill)
        for run in proven.runs:
            if left < LEAST_SECONDS:
                raise ProofFailed("replay", TOO_SLOW)
            left -= await self._proofs.replay(REPLAYER, candidate, run, left)

    async def _mark(self, skill: SkillVersion, drift: Sequence[str]) -> None:
        if skill.proof is not None and tuple(drift) != skill.drift:
            log.warning("skill.stale" if drift else "skill.fits_again", skill=skill.name, version=skill.version)
            await self._shelf.change_proof(skill, skill.proof, drift)

    async def replay(self, caller: Caller, skill: SkillVersion) -> Replayed:
        """Replay a skill on demand, with the tools as they were: no server is needed for it."""
        proven = await self.recorded(skill)
        declared = [tool for tool in proven.tools if tool.path in skill.content.tools]
        needed = [tool for tool in proven.tools if tool.path not in skill.content.tools]
        codes = self._reach.needs(skill.content, self._reach.beside(skill))[1]
        async with self._replays.reserve(caller.key_name, 1):
            try:
                for run in proven.runs:
                    await self._proofs.replay(REPLAYER, candidate_of(skill, declared, needed, codes), run)
            except ProofFailed as failure:
                may_read_all = skill.author in (caller.key_name, BUILT_IN)
                return Replayed(skill, failure.remark.message if may_read_all else failure.summary)
        return Replayed(skill, None)

    async def recorded(self, skill: SkillVersion) -> Proven:
        """Return what a proof recorded."""
        packed = await self._recording(skill)
        if packed is None:
            raise SkillNotProven(f"Version {skill.version} of {skill.name} has no recording: it was not proven.")
        return await asyncio.to_thread(Proven.unpacked, packed)

    async def _recording(self, skill: SkillVersion) -> bytes | None:
        return self._built_in(skill.name) if skill.author == BUILT_IN else await self._shelf.recording(skill)


def _seconds_for(skill: SkillVersion) -> float:
    return APPROVED_SECONDS if skill.state is SkillState.APPROVED else WAITING_SECONDS


def _drift(proven: Proven, tools: Sequence[Tool]) -> list[str]:
    """Say how the tools differ, if what was passed to them or came from them does not fit them any more.

    Whoever may use the skill reads this, so it has nothing of what was recorded, which only the author may read.
    """
    now, before = {tool.path: tool for tool in tools}, {tool.path: tool for tool in proven.tools}
    # What a skill in a sandbox of its own returned was recorded, so a replay would not run its new version.
    nested = {call.path for run in proven.runs for call in run.calls if call.path.startswith(f"{SKILLS}/")}
    if replaced := [path for path in sorted(nested & now.keys()) if not _is_same_skill(before.get(path), now[path])]:
        return [f"`{path}` has another version now, which it was not proven with." for path in replaced]
    misfits: dict[str, None] = {}
    steps = Budget(STEPS_OF_A_SKILL)  # what is left out then, the replay tells
    for call in (call for run in proven.runs for call in run.calls):
        tool = now.get(call.path)
        if tool is None or call.path in misfits:
            continue
        got = (call.result or {}).get("structuredContent")
        if mismatches(tool.input_schema, call.arguments, budget=steps) or (
            tool.output_schema and got and mismatches(tool.output_schema, got, budget=steps)
        ):
            misfits[call.path] = None
    changes = _changes(proven, [tool for tool in tools if tool.path in misfits])
    return changes or [f"`{path}` does not take or return what it did when the skill was proven." for path in misfits]


def _is_same_skill(one: Tool | None, other: Tool) -> bool:
    return (
        one is not None
        and one.skill is not None
        and other.skill is not None
        and one.skill.version == other.skill.version
    )


def _changes(proven: Proven, tools: Sequence[Tool]) -> list[str]:
    before = {tool.path: tool for tool in proven.tools}
    changes: list[str] = []
    for tool in tools:
        if (earlier := before.get(tool.path)) is not None:
            of_input = differences(earlier.input_schema, tool.input_schema, f"{tool.path}")
            of_output = differences(earlier.output_schema, tool.output_schema, f"result of {tool.path}")
            changes += [f"{tool.path}: {change}" for change in (*of_input, *of_output)]
    return changes


def _renewed(proven: Proven, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    now = {tool.path: tool for tool in tools}
    return tuple(now.get(tool.path, tool) for tool in proven.tools)
