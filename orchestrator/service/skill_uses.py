"""Counts how often skills are used and fail, until that is written down."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from orchestrator.domain.skills import BUILT_IN, SkillUse, SkillVersion, VersionKey
from orchestrator.service.ports import SkillStore


class SkillUses:
    """Holds what was counted since the store was last told."""

    def __init__(self, store: SkillStore) -> None:
        self._store = store
        self._counted: dict[VersionKey, SkillUse] = {}

    @property
    def are_written(self) -> bool:
        return not self._counted

    def count(self, skill: SkillVersion, *, failed: bool) -> None:
        """Count a use, or that one failed, which was counted before."""
        version = None if skill.author == BUILT_IN else skill.version
        use = SkillUse(skill.name, version, skill.author, int(not failed), int(failed), time.time())
        self._note(skill.key, use)

    def _note(self, key: VersionKey, use: SkillUse) -> None:
        before = self._counted.get(key)
        if before is not None:
            use = replace(use, uses=before.uses + use.uses, failures=before.failures + use.failures)
        self._counted[key] = use

    async def write(self) -> Mapping[VersionKey, SkillUse]:
        """Write down what was counted and return it; if that fails, it stays counted."""
        counted, self._counted = self._counted, {}
        try:
            await self._store.count_uses(list(counted.values()))
        except BaseException:
            meanwhile, self._counted = self._counted, counted
            for key, use in meanwhile.items():
                self._note(key, use)
            raise
        return counted


def with_use(skill: SkillVersion, use: SkillUse) -> SkillVersion:
    return replace(
        skill, uses=skill.uses + use.uses, failures=skill.failures + use.failures, last_used_at=use.last_used_at
    )
