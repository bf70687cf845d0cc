"""save_skill and run_skill. Nothing here approves: that is for people."""

from __future__ import annotations

import asyncio
from typing import assert_never

import mcp_types as types

from orchestrator.domain.access import SKILLS
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.skills import SkillState, SkillVersion, usage
from orchestrator.faces.mcp.execution_tools import ExecutionTools
from orchestrator.faces.mcp.models import ExecutionReport, RunSkill, SavedSkillReply, SaveSkill
from orchestrator.faces.mcp.tool import Answer, Call, Tool
from orchestrator.service.executions import new_execution_id
from orchestrator.service.skill_saving import SkillDraft
from orchestrator.service.skills import Skills

SAVE_SKILL = """\
Keeps a program that worked as a skill: one that you ran, which ends by printing its result, or as `code` a Python \
`def run(input)` or a TypeScript `export default` function. Proves it by running an example for real; then run_skill \
and imports find it.

Example: {"name": "open_orders", "description": "Counts open orders.", "fromExecution": \
"last"}"""

RUN_SKILL = """\
Runs a skill (skills/NAME in search_tools) and returns its result: no code is needed.

Example: {"name": "table_profile", "input": "{\\"table\\": \\"orders\\"}"}"""

CHANGES = types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)


class SkillTools:
    def __init__(self, skills: Skills, executing: ExecutionTools) -> None:
        self._skills = skills
        self._executing = executing

    def all(self) -> tuple[Tool[SaveSkill], Tool[RunSkill]]:
        return (
            Tool("save_skill", "Save a skill", SAVE_SKILL, SaveSkill, SavedSkillReply, CHANGES, self.save_skill),
            Tool("run_skill", "Run a skill", RUN_SKILL, RunSkill, ExecutionReport, CHANGES, self.run_skill),
        )

    async def save_skill(self, order: SaveSkill, call: Call) -> Answer:
        draft = SkillDraft(
            name=order.name,
            description=order.description,
            language=order.language,
            code=order.code,
            from_execution=order.from_execution,
            tools=tuple(order.tools) if order.tools is not None else None,
            examples=tuple(order.examples) if order.examples is not None else None,
        )
        steps: asyncio.Queue[str] = asyncio.Queue()
        saving = asyncio.ensure_future(self._skills.saving.save(call.caller, draft, steps.put_nowait))
        left = asyncio.ensure_future(call.gone.wait())
        try:
            done = 0
            while not saving.done() and not left.done():
                step = asyncio.ensure_future(steps.get())
                await asyncio.wait((saving, left, step), return_when=asyncio.FIRST_COMPLETED)
                if step.done():
                    done += 1
                    await call.report(done, step.result())
                step.cancel()
            if not saving.done():
                saving.cancel()
                await asyncio.wait((saving,))
                raise OrchestratorError("The client disconnected before the skill was saved.")
            saved = saving.result()
        finally:
            left.cancel()
            saving.cancel()
        in_use = self._skills.shelf.version_in_use(call.caller, saved.name)
        return Answer(_reply(saved), _told(saved, in_use))

    async def run_skill(self, order: RunSkill, call: Call) -> Answer:
        execution_id, name = new_execution_id(), order.name.removeprefix(f"{SKILLS}/")
        async with self._executing.recording_refusal(call.caller, execution_id):
            running = await self._skills.calls.start(
                call.caller, name, order.input, execution_id, order.timeout_seconds
            )
        answer = await self._executing.followed(running, call, order.max_tokens)
        self._skills.calls.note_end(call.caller, name, (await running.result()).outcome)
        return answer


def _reply(saved: SkillVersion) -> SavedSkillReply:
    return SavedSkillReply(
        name=saved.name,
        version=saved.version,
        state=saved.effective_state,
        remarks=[remark.message for remark in saved.remarks],
        tools=list(saved.content.tools),
    )


def _told(saved: SkillVersion, in_use: str | None) -> str:
    content = saved.content
    calls = ", ".join(content.tools) or "no tool"
    lines = [f"{usage(content)}: {saved.effective_state}, version {saved.version[:12]}, calls {calls}"]
    lines += [
        f"{remark.kind}: {remark.message}{f' ({remark.place})' if remark.place else ''}" for remark in saved.remarks
    ]
    return "\n".join([*lines, *saved.drift, _next_step(saved, in_use)])


def _next_step(saved: SkillVersion, in_use: str | None) -> str:
    state = saved.effective_state
    match state:
        case SkillState.DRAFT:
            return "It is a draft: fix it and save it again under the same name."
        case SkillState.APPROVED | SkillState.PROVEN if in_use not in (None, saved.version):
            return "Your key goes on with the other version."
        case SkillState.PROVEN if in_use is None:
            return "You cannot use it now, because a tool that it calls is not there or has changed."
        case SkillState.PROVEN:
            return "You can use it now. Others can once somebody with the right to do so has approved it."
        case SkillState.APPROVED:
            return "This version was approved before and still is: everybody who may call its tools can use it."
        case SkillState.STALE:
            return "It is stale, because its tools have changed: fix it and save it again under the same name."
        case SkillState.RETIRED:
            return "It is retired and nobody can use it. Save it again to use it."
        case _:
            assert_never(state)
