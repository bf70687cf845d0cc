"""What save_skill replies, and that nothing over MCP approves a skill."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import orchestrator
from orchestrator.domain.access import Caller
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.skills import Remark, SkillState, SkillVersion
from orchestrator.faces.mcp.models import SavedSkillReply
from orchestrator.faces.mcp.skill_tools import SkillTools
from orchestrator.faces.mcp.tool import Answer, Call
from orchestrator.service.skill_saving import SkillDraft
from orchestrator.service.skills import Skills
from tests.support.samples import DEVELOPER
from tests.support.skill_world import APPROVER, AUTHOR, SkillWorld
from tests.support.skills import CODE, skill
from tests.unit.faces.mcp.test_tools import CHATTER, all_tools

NOTHING = cast("Any", None)
PACKAGE = Path(orchestrator.__file__).parent
ORDER = {"name": "count_orders", "description": "Counts.", "code": CODE, "language": "python", "tools": []}
NEEDS_MORE = "`postgres/query` needs `dialect` now."


class Saving:
    """Saves whatever it is given as one version, or never if there is none."""

    def __init__(self, version: SkillVersion | None = None) -> None:
        self.version = version

    async def save(self, caller: Caller, draft: SkillDraft, progress: Callable[[str], None]) -> SkillVersion:
        if self.version is None:
            await asyncio.Event().wait()
        return cast("SkillVersion", self.version)


class Shelf:
    """Tells that a caller's programs get what was just saved, unless its servers are down."""

    def __init__(self, saving: Any, *, is_usable: bool = True) -> None:
        self._saving, self._is_usable = saving, is_usable

    def version_in_use(self, caller: Caller, name: str) -> str | None:
        found = getattr(self._saving, "version", None)
        return found.version if found is not None and self._is_usable else None


async def saved(
    saving: Any, caller: Caller = DEVELOPER, *, is_gone: bool = False, is_usable: bool = True, **more: Any
) -> Answer:
    async def report(progress: float, message: str) -> None: ...

    gone = asyncio.Event()
    if is_gone:
        gone.set()
    shelf = cast("Any", Shelf(saving, is_usable=is_usable))
    save, _ = SkillTools(Skills(shelf, saving, NOTHING, NOTHING), NOTHING).all()
    return await save.call({**ORDER, **more}, Call(caller, report, gone))


@pytest.mark.parametrize(
    ("version", "state", "last_line"),
    [
        (
            skill(state=SkillState.DRAFT),
            "draft",
            "It is a draft: fix it and save it again under the same name.",
        ),
        (
            skill(),
            "proven",
            "You can use it now. Others can once somebody with the right to do so has approved it.",
        ),
        (
            skill(state=SkillState.APPROVED),
            "approved",
            "This version was approved before and still is: everybody who may call its tools can use it.",
        ),
        (
            skill(state=SkillState.APPROVED, drift=[NEEDS_MORE]),
            "stale",
            "It is stale, because its tools have changed: fix it and save it again under the same name.",
        ),
        (
            skill(state=SkillState.RETIRED),
            "retired",
            "It is retired and nobody can use it. Save it again to use it.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
async def test_each_state_that_a_saved_skill_can_have_is_told_with_what_to_do_next(version, state, last_line):
    answer = await saved(Saving(version))
    lines = (answer.text or "").splitlines()
    assert lines[0] == (
        f"count_orders({{text: string}}): {state}, version {version.version[:12]}, calls postgres/query"
    )
    assert lines[1:] == [*version.drift, last_line]
    assert cast("SavedSkillReply", answer.reply).state == state


async def test_remarks_are_told_between():
    version = replace(skill(state=SkillState.DRAFT), remarks=(Remark("failed", "KeyError: 'text'"),))
    assert "\nfailed: KeyError: 'text'\nIt is a draft" in ((await saved(Saving(version))).text or "")


async def test_what_cannot_be_used_now_is_not_said_to_be():
    last_line = ((await saved(Saving(skill()), is_usable=False)).text or "").splitlines()[-1]
    assert last_line == "You cannot use it now, because a tool that it calls is not there or has changed."


async def test_nothing_is_saved_for_a_client_that_is_gone():
    with pytest.raises(OrchestratorError, match=r"The client disconnected before the skill was saved\."):
        await saved(Saving(), is_gone=True)


# Nothing over MCP approves.


def modules_that_name(attribute: str) -> set[str]:
    """Return the modules that read an attribute, or that have its name as a text, as for getattr."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            named = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
            if named == attribute:
                found.add(file.relative_to(PACKAGE).as_posix())
    return found


def test_of_all_code_the_http_face_alone_reaches_the_approval_of_a_skill():
    """Whatever a tool or a method of MCP calls, it does not get there; the shelf itself asks its store."""
    assert modules_that_name("approve") == {"faces/http/skills.py", "service/skill_shelf.py"}


def test_the_probe_finds_what_mcp_does_reach():
    """The control of the test above."""
    assert {"faces/mcp/skill_tools.py", "faces/http/skills.py"} <= modules_that_name("save")


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_no_tool_offers_to_approve(tool):
    listed = tool.listed_for(CHATTER, structured=False).model_dump(mode="json")
    assert "approv" not in json.dumps(listed).lower()


async def test_saving_what_waits_for_approval_does_not_approve_it_whoever_saves_it():
    world = SkillWorld()
    for caller in (AUTHOR, APPROVER):
        answer = await saved(world.saving, caller, examples='[{"text": "abc"}]')
        assert cast("SavedSkillReply", answer.reply).state is SkillState.PROVEN
    assert world.shelf.approved("count_orders") is None
