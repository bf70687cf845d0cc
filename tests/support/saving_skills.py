"""Saves skills into a journal until it is killed; prints the version of each that is saved."""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import count
from pathlib import Path

from orchestrator.domain.skills import Proof, SkillState
from orchestrator.journals.skills import SqliteSkills
from orchestrator.journals.sqlite import SqliteJournal
from orchestrator.service.scopes import RecordedCall
from orchestrator.service.skill_proofs import Proven, Run
from tests.support.skills import skill

NAMES = ("count_orders", "weekly_report")
AUTHORS = ("one", "other")
LONG_RESULT = {"structuredContent": {"rows": [{"number": number} for number in range(2000)]}}


async def save_for_ever(file: Path, round_: str) -> None:
    store = SqliteSkills(SqliteJournal(file, max_executions=10))
    for number in count():
        name, author = NAMES[number % 2], AUTHORS[number // 2 % 2]
        code = f"{round_}:{number}"
        is_proven = number % 3 != 0
        runs = (Run({"text": code}, (RecordedCall("postgres/query", {"text": code}, LONG_RESULT),), code),)
        saved = skill(
            name,
            author,
            SkillState.PROVEN if is_proven else SkillState.DRAFT,
            at=time.time(),
            code=code,
            proof=Proof(time.time(), {"postgres/query": "a"}) if is_proven else None,
        )
        await store.save(saved, Proven(runs, ()).packed() if is_proven else None)
        print(saved.version, flush=True)


if __name__ == "__main__":
    asyncio.run(save_for_ever(Path(sys.argv[1]), sys.argv[2]))
