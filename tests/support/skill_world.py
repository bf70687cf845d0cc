"""Everything about skills but sandboxes and servers, put together as the daemon does it, for the unit tests."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import ToolDenied, ToolNotFound
from orchestrator.domain.execution import Language
from orchestrator.domain.skills import SkillVersion
from orchestrator.domain.tools import Tool
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from orchestrator.service.records import Records
from orchestrator.service.skill_drift import SkillDrift
from orchestrator.service.skill_proofs import ProofPrograms, SkillProofs
from orchestrator.service.skill_saving import SkillDraft, SkillSaving
from orchestrator.service.skill_shelf import SkillShelf
from tests.support.fake_executions import CHECKER, EXAMINER, FakeExecutions
from tests.support.fake_journal import FakeJournal
from tests.support.fake_skill_store import FakeSkillStore
from tests.support.fake_sources import FakeSources
from tests.support.skills import CODE, RETURNS_COUNT, TAKES_TEXT, tool

BOTH = frozenset({"postgres", "minio"})
AUTHOR = Caller("author-key", Role("developer", BOTH))
COLLEAGUE = Caller("colleague-key", Role("developer", BOTH))
APPROVER = Caller("approver-key", Role("lead", BOTH, approves_skills=True))
QUERY, UPLOAD = tool("postgres/query"), tool("minio/upload")
MOST_SKILLS = 3


class SkillWorld:
    def __init__(self, *built_in: SkillVersion) -> None:
        self.store = FakeSkillStore()
        self.executions = FakeExecutions()
        self.executions.tools = dict.fromkeys(
            ("postgres/query", "minio/upload"), lambda arguments: {"structuredContent": {"count": 3}}
        )
        self.journal = FakeJournal()
        self.recordings: dict[str, bytes] = {}  # of the built-in skills
        self.changes = 0
        self.edition = 0
        self.seconds = 0.0
        self.down: set[str] = set()
        self.tools: tuple[Tool, ...] = ()
        self.shelf = SkillShelf(self.store, built_in, self._note_change)
        programs = ProofPrograms(dict.fromkeys(Language, EXAMINER), CHECKER)
        self.proofs = SkillProofs(self.executions, FakeSources(), lambda language: {}, programs)
        records = Records(self.journal, lambda execution_id: None)
        self.saving = SkillSaving(self.shelf, self.proofs, records, self, self, MOST_SKILLS)
        self.drift = SkillDrift(
            self.shelf,
            self.proofs,
            self.statuses,
            lambda: self.edition,
            self.recordings.get,
            lambda: self.seconds,
        )
        self.list_tools(QUERY, UPLOAD)

    def _note_change(self) -> None:
        self.changes += 1

    def list_tools(self, *tools: Tool) -> tuple[Tool, ...]:
        """Let the servers list these tools, and return the skills that are offered beside them."""
        self.tools, self.edition = tools, self.edition + 1
        servers = {*BOTH, *(each.server for each in tools)}
        return self.shelf.offered({name: tuple(each for each in tools if each.server == name) for name in servers})

    def offered(self) -> list[str]:
        return [each.name for each in self.list_tools(*self.tools) if not (each.skill and each.skill.drift)]

    def statuses(self) -> list[UpstreamStatus]:
        states = {name: UpstreamState.DOWN if name in self.down else UpstreamState.CONNECTED for name in BOTH}
        return [UpstreamStatus(name, state, 1, None, 0.0) for name, state in states.items()]

    def visible(self, role: Role) -> Sequence[Tool]:
        return [each for each in self.tools if each.is_for(role)]

    def callable_tool(self, role: Role, server: str, name: str, own: Sequence[Tool] = ()) -> Tool:
        every = {each.path: each for each in (*self.tools, *self.list_tools(*self.tools), *own)}
        found = every.get(f"{server}/{name}")
        if found is None:
            raise ToolNotFound(f"There is no tool {server}/{name}.")
        if not found.is_for(role):
            raise ToolDenied(f"Role {role.name} may not call {server}/{name}.")
        return found

    async def save(self, name: str = "count_orders", caller: Caller = AUTHOR, **given: object) -> SkillVersion:
        """Save a skill of which everything is told; what is None is found out."""
        usual: dict[str, object] = {
            "description": "Counts the orders.",
            "language": Language.PYTHON,
            "code": CODE,
            "input": TAKES_TEXT,
            "output": RETURNS_COUNT,
            "tools": (),
            "examples": ({"text": "abc"},),
        }
        return await self.saving.save(caller, SkillDraft(name, **{**usual, **given}))  # type: ignore[arg-type]

    async def approved(self, name: str = "count_orders", **given: object) -> SkillVersion:
        saved = await self.save(name, **given)
        return await self.shelf.approve(APPROVER, name, saved.version)
