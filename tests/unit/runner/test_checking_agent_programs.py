"""The programs of the benchmark, checked without an engine: wrong ones are told what must be, right ones nothing."""

from __future__ import annotations

import pytest

from bench.agent.corpus import Seen, Written, programs
from bench.agent.stand_in import LISTED
from orchestrator.domain.tools import Tool
from tests.unit.runner.checked import Checked, make_workspace

ENOUGH = 30


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    tools = [
        Tool(server, tool["name"], tool["description"], tool["inputSchema"], tool.get("outputSchema"))
        for server, listed in LISTED.items()
        for tool in listed
    ]
    return make_workspace(tmp_path_factory.mktemp("agents"), tools)


def test_there_are_enough_of_both_kinds_in_both_languages() -> None:
    assert len(programs()) >= ENOUGH
    kinds = [(program.language, program.is_right) for program in programs()]
    assert min(kinds.count(kind) for kind in set(kinds)) >= ENOUGH // 4


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_what_must_be_told_is_told(checked: Checked, program: Written) -> None:
    told = checked.check(program.code.replace("'/workspace/servers", "'./servers"), program.language)
    seen = Seen(program, "", 0, tuple({"line": each.line, "message": each.message} for each in told), "")
    assert (told == []) == program.is_right
    assert seen.untold == []
