"""Everything about skills, as the faces use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.domain.skills import BUILT_IN, SkillState, SkillVersion
from orchestrator.service.skill_calls import SkillCalls
from orchestrator.service.skill_drift import SkillDrift
from orchestrator.service.skill_saving import SkillSaving
from orchestrator.service.skill_shelf import SkillShelf

DISUSED_AFTER_SECONDS = 90 * 24 * 3600
DRAFT_AFTER_SECONDS = 30 * 24 * 3600
FAILS_FROM_USES = 5


@dataclass(frozen=True, slots=True)
class Skills:
    """The use cases of skills, for the faces and the daemon."""

    shelf: SkillShelf
    saving: SkillSaving
    calls: SkillCalls
    drift: SkillDrift


def suggestions(skills: Sequence[SkillVersion], now: float) -> list[str]:
    """Say which skills could be retired; nothing is retired by itself."""
    found = []
    for skill in skills:
        idle = now - (skill.last_used_at or skill.approved_at or skill.created_at)
        if skill.author == BUILT_IN or skill.state is SkillState.RETIRED:
            continue
        if skill.state is SkillState.DRAFT and now - skill.created_at > DRAFT_AFTER_SECONDS:
            found.append(f"{skill.name}: it has been a draft for {_days(now - skill.created_at)} days.")
        elif skill.state is SkillState.APPROVED and idle > DISUSED_AFTER_SECONDS:
            found.append(f"{skill.name}: nobody has used it for {_days(idle)} days.")
        elif skill.uses >= FAILS_FROM_USES and skill.failures * 2 > skill.uses:
            found.append(f"{skill.name}: it failed {skill.failures} of {skill.uses} times.")
    return found


def _days(seconds: float) -> int:
    return int(seconds // (24 * 3600))
