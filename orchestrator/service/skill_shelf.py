"""Which skills there are, who sees which, and how their states change.

A skill is for the roles that may call every tool it calls, also through the skills that it uses. Until somebody else
approves it, it is for its author alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import (
    ApprovalDenied,
    InvalidRequest,
    SkillNotFound,
    SkillNotProven,
    SkillStale,
    ToolUnavailable,
)
from orchestrator.domain.skills import (
    BUILT_IN,
    KEPT_RETIRED,
    MAX_NAME_CHARACTERS,
    Proof,
    SkillState,
    SkillUse,
    SkillVersion,
    VersionKey,
)
from orchestrator.domain.tools import Tool
from orchestrator.service.ports import SkillStore
from orchestrator.service.skill_reach import Listed, SkillReach
from orchestrator.service.skill_uses import SkillUses, with_use

log = structlog.get_logger()

P = ParamSpec("P")
T = TypeVar("T")
FEWEST_DIGITS = 8  # of a version, to find it by
OPEN = (SkillState.DRAFT, SkillState.PROVEN)
ACTIVE = (*OPEN, SkillState.APPROVED)


def _shielded(
    change: Callable[Concatenate[SkillShelf, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SkillShelf, P], Coroutine[Any, Any, T]]:
    """Finish a change that has begun, also if nobody waits for it: the journal and what is here must agree."""

    @wraps(change)
    async def changing(shelf: SkillShelf, /, *args: P.args, **kwargs: P.kwargs) -> T:
        task = asyncio.ensure_future(change(shelf, *args, **kwargs))
        shelf.changes.add(task)
        task.add_done_callback(shelf.changes.discard)
        return await asyncio.shield(task)

    return changing


class SkillShelf:
    """Keeps all versions of skills, and decides which of them each caller sees and uses."""

    def __init__(self, store: SkillStore, built_in: Sequence[SkillVersion], changed: Callable[[], None]) -> None:
        self._store = store
        self._built_in = {skill.name: skill for skill in built_in}
        self._changed = changed  # what is approved, and so what every role finds
        # Replaced, never changed: threads read them.
        self._saved: Mapping[VersionKey, SkillVersion] = {}
        self._approved: Mapping[str, SkillVersion] = dict(self._built_in)
        self._open: Mapping[str, Sequence[VersionKey]] = {}  # by author
        self._writing = asyncio.Lock()  # whoever decides on a skill decides on what is there until it is written
        self.changes: set[asyncio.Future[Any]] = set()  # under way, held so that they are not forgotten
        self.revision = 0
        self.uses = SkillUses(store)
        self.reach = SkillReach(self.approved, self.own_of)

    async def load(self) -> None:
        uses = await self._store.built_in_uses()
        self._built_in = {
            name: replace(
                skill, uses=uses[name].uses, failures=uses[name].failures, last_used_at=uses[name].last_used_at
            )
            if name in uses
            else skill
            for name, skill in self._built_in.items()
        }
        self._take_up({skill.key: skill for skill in await self._store.all()})

    def _take_up(self, saved: Mapping[VersionKey, SkillVersion]) -> None:
        approved = {skill.name: skill for skill in saved.values() if skill.state is SkillState.APPROVED}
        opened: dict[str, list[VersionKey]] = {}
        for key, skill in saved.items():
            if skill.state in OPEN:
                opened.setdefault(skill.author, []).append(key)
        self._saved, self._approved, self._open = saved, {**self._built_in, **approved}, opened
        self.revision += 1
        self._changed()

    # What there is.

    def approved(self, name: str) -> SkillVersion | None:
        return self._approved.get(name)

    def approved_for(self, caller: Caller) -> list[SkillVersion]:
        """Return the approved skills that the caller's role may use, by name."""
        usable = (skill for skill in self._approved.values() if not skill.drift and self.reach.can_be_offered(skill))
        return sorted((skill for skill in usable if self.reach.is_for(caller.role, skill)), key=_name)

    def watched(self, *, approved: bool) -> Sequence[SkillVersion]:
        """Return the versions to look at when tools change: the approved ones, or those that wait for approval."""
        if approved:
            return tuple(self._approved.values())
        return tuple(skill for skill in self._saved.values() if skill.state is SkillState.PROVEN)

    def own(self, caller: Caller) -> dict[str, SkillVersion]:
        """Return the caller's own versions that its programs get, by name.

        A draft, or one that is stale, is among them only where the caller has nothing else of that name to use.
        """
        own = {}
        for skill in self._open_of(caller.key_name):
            approved = self._approved.get(skill.name)
            if approved is None or _is_stale(approved) or not self.shows(caller, approved):
                own[skill.name] = skill
        own |= self.own_of(caller.key_name)
        return {name: skill for name, skill in own.items() if self.reach.is_for(caller.role, skill)}

    def own_of(self, author: str) -> dict[str, SkillVersion]:
        """Return the proven versions of an author by name: those that its programs and its other skills get.

        They come before what is approved, whoever asks, but for stale ones and for the very bytes that are approved.
        """
        own = {}
        for skill in self._open_of(author):
            approved = self._approved.get(skill.name)
            is_better = approved is not None and not _is_stale(approved)
            is_same = approved is not None and approved.version == skill.version
            if skill.state is SkillState.PROVEN and not (is_better and (_is_stale(skill) or is_same)):
                own[skill.name] = skill
        return own

    def _open_of(self, author: str) -> list[SkillVersion]:
        """Return what an author saved and nobody approved, the most useful of each name last."""
        return sorted((self._saved[key] for key in self._open.get(author, ())), key=_usefulness)

    def names_of(self, author: str) -> frozenset[str]:
        """Return the names of an author's skills that are in use or may come to be."""
        return frozenset(
            skill.name for skill in self._saved.values() if skill.author == author and skill.state in ACTIVE
        )

    def listed(self, caller: Caller) -> list[SkillVersion]:
        """Return what a caller may use, what it saved, and what waits for its approval, by name."""
        approved = (skill for skill in self._approved.values() if self.shows(caller, skill))
        found = {skill.key: skill for skill in approved}
        for key, skill in self._saved.items():
            if skill.state in OPEN and self.shows(caller, skill):
                found[key] = skill
        return sorted(found.values(), key=lambda skill: (skill.name, -skill.created_at))

    def shows(self, caller: Caller, skill: SkillVersion) -> bool:
        """Tell whether a caller is told of a version at all."""
        is_author = skill.author == caller.key_name
        match skill.effective_state:
            case SkillState.DRAFT | SkillState.RETIRED:
                is_shown = is_author
            case SkillState.PROVEN | SkillState.STALE:
                is_shown = is_author or caller.role.approves_skills
            case SkillState.APPROVED:
                is_shown = self.reach.has_its_tools(skill) or (
                    skill.author != BUILT_IN and (is_author or caller.role.approves_skills)
                )
        return is_shown and self.reach.is_for(caller.role, skill)

    def find(self, caller: Caller, name: str, version: str | None = None) -> SkillVersion:
        """Return one version, or the one that the caller would use; raise SkillNotFound for what it may not see.

        The first digits of a version are enough to look at it, and not to approve it.
        """
        if version is None:
            found = self.reach.version(name, self.own(caller))
            waiting = found or self._newest_proven(name)
            if waiting is not None and self.shows(caller, waiting):
                return waiting
            raise self._missing(caller, name)
        every = (skill for skill in (*self._approved.values(), *self._saved.values()) if skill.name == name)
        same = [skill for skill in every if _begins(skill, version)]

        def order(skill: SkillVersion) -> tuple[bool, bool, bool]:
            """Of those who saved the same, each finds its own first, and the others what is approved and works."""
            return skill.state is SkillState.RETIRED, skill.author != caller.key_name, _is_stale(skill)

        for skill in sorted(same, key=order):
            if self.shows(caller, skill):
                return skill
        raise SkillNotFound(f"There is no skill {name} with version {version}.")

    def _own_version(self, caller: Caller, name: str, version: str | None) -> SkillVersion | None:
        """Return the caller's own version to retire, even if the caller may no longer call its tools."""
        open_ones = [skill for skill in self._open_of(caller.key_name) if skill.name == name]
        approved = self._approved.get(name)
        own = [approved] if approved is not None and approved.author == caller.key_name else []
        if version is None:  # the one that the author would use, if there is one
            found = [*open_ones, *own, *(skill for skill in (self.own(caller).get(name),) if skill is not None)]
        else:
            found = [skill for skill in (*own, *open_ones) if _begins(skill, version)]
        return found[-1] if found else None

    def _missing(self, caller: Caller, name: str) -> SkillNotFound:
        """Suggest the closest name among the skills that the caller may see."""
        alike = get_close_matches(name[:MAX_NAME_CHARACTERS], {skill.name for skill in self.listed(caller)}, n=1)
        return SkillNotFound(f"There is no skill {name}.{f' Did you mean {alike[0]}?' if alike else ''}")

    def _newest_proven(self, name: str) -> SkillVersion | None:
        proven = [each for each in self._saved.values() if each.name == name and each.state is SkillState.PROVEN]
        return max(proven, key=lambda skill: skill.created_at, default=None)

    def version_to_call(self, caller: Caller, name: str, *, only_approved: bool = False) -> SkillVersion:
        """Return the version that the caller's programs get; raise SkillStale if the tools have changed under it."""
        found = self._in_use(caller, name, only_approved=only_approved)
        if found is None:
            raise self._missing(caller, name)
        if found.effective_state is SkillState.STALE:
            raise SkillStale(f"The tools that {name} calls have changed since it was proven. {' '.join(found.drift)}")
        if not self.reach.can_be_offered(found):
            raise ToolUnavailable(f"A tool that {name} calls is not there, or has changed just now. Try again.")
        return found

    def _in_use(self, caller: Caller, name: str, *, only_approved: bool = False) -> SkillVersion | None:
        own = {} if only_approved else self.own(caller)
        found = self.reach.version(name, own)
        return found if found is not None and self.reach.is_for(caller.role, found) else None

    def usable(self, caller: Caller, name: str) -> SkillVersion | None:
        """Return the version that the caller's programs get, if it can be called now."""
        found = self._in_use(caller, name)
        if found is None or _is_stale(found) or not self.reach.can_be_offered(found):
            return None
        return found

    def version_in_use(self, caller: Caller, name: str) -> str | None:
        """Return the version that the caller's programs get, if they get one."""
        found = self.usable(caller, name)
        return found.version if found is not None else None

    # What is offered beside the tools.

    def offered(self, listed: Listed) -> tuple[Tool, ...]:
        """Return the approved skills whose tools are all there, as they were proven with or told as stale.

        One whose tools have changed and that nobody has looked at since is not offered.
        """
        self.reach.take_up(listed)
        return tuple(
            self.reach.as_tool(skill)
            for skill in sorted(self._approved.values(), key=_name)
            if self.reach.can_be_offered(skill)
        )

    def own_tools(self, caller: Caller, role: Role) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.own_importable(caller, role) if tool.skill is None or not tool.skill.drift)

    def own_importable(self, caller: Caller, role: Role) -> tuple[Tool, ...]:
        """Return the stale ones, too: importing one says how its tools have changed."""
        own = self.own(caller)
        return tuple(
            _told_as_own(self.reach.as_tool(skill, own), skill)
            for skill in own.values()
            if self.reach.is_for(role, skill)
        )

    def code(self, name: str, version: str) -> str | None:
        for skill in (self._approved.get(name), self._built_in.get(name), *self._saved.values()):
            if skill is not None and skill.version == version:
                return skill.content.code
        return None

    # What becomes of them.

    @_shielded
    async def add(self, saved: SkillVersion, recording: bytes | None) -> SkillVersion:
        """Keep a version and return it as it is now: a proof that failed takes away neither an approval nor a proof."""
        key = saved.key
        async with self._writing:
            before = self._saved.get(key)
            if before is not None:
                if _outlasts(before, saved):
                    return replace(before, remarks=saved.remarks)
                saved = replace(saved, uses=before.uses, failures=before.failures, last_used_at=before.last_used_at)
            await self._store.save(saved, recording)
            kept = {
                each: replace(skill, state=SkillState.RETIRED) if _is_replaced_by(skill, saved) else skill
                for each, skill in self._saved.items()
            }
            self._take_up(_without_forgotten({**kept, key: saved}, saved.author))
            return saved

    @_shielded
    async def approve(self, caller: Caller, name: str, version: str) -> SkillVersion:
        """Approve a version. It must be proven, and the approver must not have saved the same content itself."""
        if not caller.role.approves_skills:
            raise ApprovalDenied(f"Role {caller.role.name} must not approve skills: it lacks approvesSkills.")
        async with self._writing:
            found = self.find(caller, name, version)
            if found.version != version:
                raise InvalidRequest(f"`version` must have all its digits, such as {found.version}.")
            if found.state is SkillState.APPROVED and found.effective_state is not SkillState.STALE:
                return found
            authors = {skill.author for skill in self._saved.values() if skill.version == version}
            if caller.key_name in authors:
                raise ApprovalDenied("Your key saved the same content, or imported it, and so counts as its author.")
            if found.effective_state is SkillState.STALE:
                raise SkillStale(f"The tools that {name} calls have changed. {' '.join(found.drift)}")
            if found.state is not SkillState.PROVEN:
                raise SkillNotProven(f"Version {version} of {name} is {found.effective_state}.")
            self.reach.require_end(found.content, {})  # what it uses may have been replaced since it was saved
            used = self.reach.used_by(found.content, self.reach.beside(found)).values()
            if waiting := [each for each in used if each.state is not SkillState.APPROVED]:
                named = ", ".join(f"version {each.version[:12]} of {each.name}" for each in waiting)
                raise SkillNotProven(f"{name} uses {named}, which waits for approval: approve that first.")
            if found.proof is None or self.reach.digests(found.content) != found.proof.digests:
                raise SkillNotProven(
                    f"What {name} calls is not there, is not approved, or has changed since it was proven."
                )
            approved = replace(found, state=SkillState.APPROVED, approved_by=caller.key_name, approved_at=time.time())
            await self._store.approve(approved)
            kept = {
                each: replace(skill, state=SkillState.RETIRED)
                if skill.name == name and skill.state is SkillState.APPROVED
                else skill
                for each, skill in self._saved.items()
            }
            self._take_up({**kept, approved.key: approved})
        log.info("skill.approved", skill=name, version=version, by=caller.key_name, author=approved.author)
        return approved

    @_shielded
    async def retire(self, caller: Caller, name: str, version: str | None) -> SkillVersion:
        """Take a version out of use: its author may, and approvers may unless it is a draft."""
        async with self._writing:
            found = self._own_version(caller, name, version) or self.find(caller, name, version)
            if found.author == BUILT_IN:
                raise InvalidRequest(f"{name} is built in. Deny it to a role with skills/{name} in tools.deny.")
            if not _may_retire(caller, found):
                raise ApprovalDenied(f"Only {found.author}, or a role that approves skills, may retire {name}.")
            # Who saved the same bytes as another retires them for both, or they would stay in use.
            same = [skill for skill in self._saved.values() if skill.version == found.version and skill.state in ACTIVE]
            for skill in (found, *(each for each in same if each.key != found.key and _may_retire(caller, each))):
                await self._store.retire(skill.version, skill.author)
                self._take_up({**self._saved, skill.key: replace(skill, state=SkillState.RETIRED)})
        log.info("skill.retired", skill=name, version=found.version, by=caller.key_name)
        # How its tools have changed is not told: it may call some that the caller may not.
        return replace(found, state=SkillState.RETIRED, drift=())

    @_shielded
    async def change_proof(
        self, skill: SkillVersion, proof: Proof, drift: Sequence[str] = (), recording: bytes | None = None
    ) -> None:
        """Keep that a skill was proven again with other tools, or that it is stale or is not any more.

        If its proof is not that of `skill` any more, it was saved again meanwhile, and what was found out is of no use.
        """
        async with self._writing:
            is_built_in = skill.author == BUILT_IN
            now = self._built_in.get(skill.name) if is_built_in else self._saved.get(skill.key)
            if now is None or now.state is SkillState.RETIRED or now.proof != skill.proof:
                return
            changed = replace(now, proof=proof, drift=tuple(drift))
            if is_built_in:  # found out anew after each start
                self._built_in = {**self._built_in, skill.name: changed}
                self._take_up(self._saved)
                return
            await self._store.change_proof(changed, recording)
            self._take_up({**self._saved, skill.key: changed})

    async def recording(self, skill: SkillVersion) -> bytes | None:
        return await self._store.recording(skill.version, skill.author)

    # How they are used.

    async def write_uses(self) -> None:
        """Write down how skills were used since the last time."""
        if self.uses.are_written:
            return
        async with self._writing:
            for key, use in (await self.uses.write()).items():
                self._add_use(key, use)

    def _add_use(self, key: VersionKey, use: SkillUse) -> None:
        if use.author == BUILT_IN and (skill := self._built_in.get(use.name)) is not None:
            self._built_in = {**self._built_in, use.name: with_use(skill, use)}
            if self._approved.get(use.name) is skill:
                self._approved = {**self._approved, use.name: self._built_in[use.name]}
        elif (saved := self._saved.get(key)) is not None:
            counted = with_use(saved, use)
            self._saved = {**self._saved, key: counted}
            if self._approved.get(use.name) is saved:
                self._approved = {**self._approved, use.name: counted}


def _may_retire(caller: Caller, skill: SkillVersion) -> bool:
    is_for_others = skill.state is not SkillState.DRAFT
    return skill.author == caller.key_name or (caller.role.approves_skills and is_for_others)


def _begins(skill: SkillVersion, digits: str) -> bool:
    return len(digits) >= FEWEST_DIGITS and skill.version.startswith(digits)


def _told_as_own(tool: Tool, skill: SkillVersion) -> Tool:
    state = "a draft: its proof failed" if skill.state is SkillState.DRAFT else "yours until it is approved"
    return replace(tool, description=f"({state}) {tool.description}")


def _name(skill: SkillVersion) -> str:
    return skill.name


def _is_stale(skill: SkillVersion) -> bool:
    return skill.effective_state is SkillState.STALE


def _usefulness(skill: SkillVersion) -> tuple[int, float]:
    states = (SkillState.STALE, SkillState.DRAFT, SkillState.PROVEN)
    return states.index(skill.effective_state), skill.created_at


def _is_replaced_by(skill: SkillVersion, saved: SkillVersion) -> bool:
    """Tell whether a version makes another one of its author's pointless: a draft leaves what is proven."""
    same = (skill.author, skill.name) == (saved.author, saved.name) and skill.version != saved.version
    return same and (skill.state is SkillState.DRAFT or (skill.state in OPEN and saved.state is SkillState.PROVEN))


def _outlasts(before: SkillVersion, saved: SkillVersion) -> bool:
    """Tell whether a version stays as it is when it is saved again: an approval is for its content, which is the same.

    A stale one needs a new approval, because its tools are not those that it was approved with.
    """
    if saved.state is SkillState.DRAFT:  # perhaps because a server was down
        return before.state in (SkillState.PROVEN, SkillState.APPROVED)
    return before.state is SkillState.APPROVED and not _is_stale(before)


def _without_forgotten(saved: Mapping[VersionKey, SkillVersion], author: str) -> Mapping[VersionKey, SkillVersion]:
    """Leave out what the store forgets, too: all but the newest of what an author retired."""
    retired = [key for key, skill in saved.items() if skill.author == author and skill.state is SkillState.RETIRED]
    retired.sort(key=lambda key: saved[key].created_at, reverse=True)
    forgotten = frozenset(retired[KEPT_RETIRED:])
    return {key: skill for key, skill in saved.items() if key not in forgotten}
