from __future__ import annotations

import pytest

from orchestrator.catalog import observations
from orchestrator.catalog.observations import Observations
from orchestrator.domain.access import Role
from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import WrapperGenerator
from orchestrator.wrappers.wrapper_files import WrapperFiles

QUERY = Tool("db", "query", input_schema={"type": "object"})
ADMIN, GUEST = Role("admin", servers=frozenset({"*"})), Role("guest", servers=frozenset({"*"}))


class Edition:
    version = 1

    def importable(self, role: Role) -> tuple[Tool, ...]:
        return (QUERY,)


def result(**fields: object) -> dict[str, object]:
    return {"content": [], "structuredContent": fields}


def test_what_one_role_has_seen_is_in_no_file_of_another() -> None:
    seen = Observations()
    seen.note(ADMIN, QUERY, result(salary=1))
    seen.note(GUEST, QUERY, result(nickname="x"))
    assert seen.publish()
    files = WrapperFiles(Edition, seen)
    for language in Language:
        of_admin = "".join(files.files(ADMIN, language).values())
        of_guest = "".join(files.files(GUEST, language).values())
        assert ("salary" in of_admin, "salary" in of_guest) == (True, False)
        assert "nickname" in of_guest
    known = seen.of(GUEST, QUERY)
    assert known
    assert set(known.fields) == {"nickname"}


def test_of_one_role_only_so_many_tools_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "MAX_TOOLS_OF_A_ROLE", 2)
    seen = Observations()
    tools = [Tool("db", f"t{number}") for number in range(3)]
    for tool in tools:
        seen.note(ADMIN, tool, result(a=1))
        seen.note(ADMIN, tool, result(a=1, b=2))
    seen.note(GUEST, tools[2], result(a=1))
    assert [bool(seen.of(ADMIN, tool)) for tool in tools] == [True, True, False]
    assert seen.of(GUEST, tools[2])
    known = seen.of(ADMIN, tools[0])
    assert known
    assert set(known.fields) == {"a", "b"}  # what is known can still be learned from


def test_a_wrapper_is_written_once_for_each_shape_and_few_shapes_are_kept() -> None:
    seen, generator = Observations(), WrapperGenerator()
    seen.note(ADMIN, QUERY, result(a=1))
    seen.note(GUEST, QUERY, result(b=1))
    seen.publish()
    for _ in range(3):
        for role in (ADMIN, GUEST):
            generator.generate([QUERY], seen.shapes(role.name))
    assert generator.written_count == 2
    for number in range(100):
        others = Observations()
        others.note(ADMIN, QUERY, result(**{f"field_{number}": 1}))
        others.publish()
        generator.generate([QUERY], others.shapes(ADMIN.name))
    generator.generate([QUERY], seen.shapes(ADMIN.name))
    assert generator.written_count == 103  # the first was forgotten meanwhile
