"""A store of skills in memory; the contract suite keeps it honest against SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.skills import BUILT_IN, KEPT_RETIRED, SkillState, SkillUse, SkillVersion

OPEN = (SkillState.DRAFT, SkillState.PROVEN)


class FakeSkillStore:
    def __init__(self) -> None:
        self.held: dict[tuple[str, str], SkillVersion] = {}
        self.recordings: dict[tuple[str, str], bytes | None] = {}
        self.of_built_in: dict[str, SkillUse] = {}
        self.broken = False

    async def all(self) -> Sequence[SkillVersion]:
        self._require_writable()
        return sorted(self.held.values(), key=lambda skill: skill.created_at)

    async def recording(self, version: str, author: str) -> bytes | None:
        self._require_writable()
        return self.recordings.get((version, author))

    async def save(self, saved: SkillVersion, recording: bytes | None) -> None:
        self._require_writable()
        key = saved.version, saved.author
        before = self.held.get(key, saved)
        self.held[key] = replace(saved, uses=before.uses, failures=before.failures, last_used_at=before.last_used_at)
        self.recordings[key] = recording
        for other, skill in self.held.items():
            is_same = (skill.author, skill.name) == (saved.author, saved.name)
            is_pointless = skill.state is SkillState.DRAFT or saved.state is SkillState.PROVEN
            if other != key and is_same and skill.state in OPEN and is_pointless:
                self._retire(other)
        self._forget_retired(saved.author)

    async def approve(self, approved: SkillVersion) -> None:
        self._require_writable()
        key = approved.version, approved.author
        if key in self.held:
            self._change(key, approved, SkillState.APPROVED)
        for other, skill in self.held.items():
            if other != key and skill.name == approved.name and skill.state is SkillState.APPROVED:
                self._retire(other)

    async def retire(self, version: str, author: str) -> None:
        self._require_writable()
        if (version, author) in self.held:
            self._retire((version, author))

    async def change_proof(self, changed: SkillVersion, recording: bytes | None) -> None:
        self._require_writable()
        key = changed.version, changed.author
        if key not in self.held:
            return
        self._change(key, changed, self.held[key].state)
        if recording is not None and self.held[key].state is not SkillState.RETIRED:
            self.recordings[key] = recording

    async def count_uses(self, uses: Sequence[SkillUse]) -> None:
        self._require_writable()
        for use in uses:
            key = use.version or "", use.author
            if use.version is None:
                before = self.of_built_in.get(use.name, SkillUse(use.name, None, BUILT_IN, 0, 0, None))
                self.of_built_in[use.name] = replace(
                    before,
                    uses=before.uses + use.uses,
                    failures=before.failures + use.failures,
                    last_used_at=use.last_used_at,
                )
            elif (skill := self.held.get(key)) is not None:
                self.held[key] = replace(
                    skill,
                    uses=skill.uses + use.uses,
                    failures=skill.failures + use.failures,
                    last_used_at=use.last_used_at,
                )

    async def built_in_uses(self) -> Mapping[str, SkillUse]:
        self._require_writable()
        return dict(self.of_built_in)

    def _change(self, key: tuple[str, str], skill: SkillVersion, state: SkillState) -> None:
        """Take over all but the figures, which are counted apart, and the time."""
        before = self.held[key]
        self.held[key] = replace(
            skill,
            state=state,
            created_at=before.created_at,
            uses=before.uses,
            failures=before.failures,
            last_used_at=before.last_used_at,
        )

    def _retire(self, key: tuple[str, str]) -> None:
        self.held[key] = replace(self.held[key], state=SkillState.RETIRED)
        self.recordings.pop(key, None)

    def _forget_retired(self, author: str) -> None:
        retired = [
            key for key, skill in self.held.items() if skill.author == author and skill.state is SkillState.RETIRED
        ]
        newest_first = sorted(retired, key=lambda key: -self.held[key].created_at)
        for key in newest_first[KEPT_RETIRED:]:
            del self.held[key]
            self.recordings.pop(key, None)

    def _require_writable(self) -> None:
        if self.broken:
            raise JournalUnavailable("The journal cannot be used: disk full (test).")
