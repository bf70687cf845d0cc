"""What callers are told about skills, and the difference that an approver reads."""

from dataclasses import replace

import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.skills import Proof, Remark, SkillState
from orchestrator.faces.skill_bodies import difference, saved_skill, skill_body, skill_detail
from tests.support.skill_world import APPROVER, SkillWorld
from tests.support.skills import RETURNS_COUNT, TAKES_TEXT, skill

BEFORE = skill()


def changed_lines(before, after):
    """Return the lines that differ, without the first two, which name the versions."""
    return [line for line in difference(before, after).split("\n")[2:] if line[:1] in ("+", "-")]


def test_two_versions_that_are_the_same_do_not_differ():
    assert difference(BEFORE, skill(author="another-key", at=2000.0)) == ""


def test_the_first_two_lines_name_the_versions():
    after = skill(code="other")
    head = difference(BEFORE, after).splitlines()[:2]
    assert head == [f"--- count_orders@{BEFORE.version[:12]}", f"+++ @{after.version[:12]}"]


def test_a_changed_line_of_code_is_shown_as_it_was_and_as_it_is():
    before, after = skill(code="one\ntwo\nthree\n"), skill(code="one\n2\nthree\n")
    assert changed_lines(before, after) == ["-two", "+2"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# a\nb\n", "# a\x0cb\n"),
        ("# a\nb\n", "# a\u2028b\n"),
        ("# a\x0bb\n", "# a\x0cb\n"),
        ("a\nb\n", "a\r\nb\r\n"),
        ("a\nb\n", "a\rb\n"),
        ("a", "a\n"),
        ("a\n", "a\n\n"),
        ("a ", "a"),
        ("a\tb", "a    b"),
        ("a␍\nb", "a\r\nb"),
        ("a␍ (U+240D)", "a\r"),
    ],
)
def test_what_only_looks_alike_is_shown_as_a_difference(before, after):
    assert changed_lines(skill(code=before), skill(code=after))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("description", "Does something else."),
        ("input", {**TAKES_TEXT, "required": []}),
        ("output", {}),
        ("tools", ("minio/upload", "postgres/query")),
        ("examples", ({"text": "other"},)),
    ],
)
def test_everything_that_a_version_is_named_by_is_compared(field, value):
    after = replace(BEFORE, content=replace(BEFORE.content, **{field: value}), version="")
    assert changed_lines(BEFORE, after)
    assert all(line not in difference(BEFORE, after) for line in ("+def", "-def"))


def test_a_schema_differs_in_the_lines_that_changed():
    two = {"type": "object", "properties": {"text": {"type": "string"}, "times": {"type": "integer"}}}
    before, after = skill(input=TAKES_TEXT), skill(input={**TAKES_TEXT, "properties": two["properties"]})
    assert any('"times"' in line for line in changed_lines(before, after))
    assert not any('"required"' in line for line in changed_lines(before, after))


def test_the_order_of_names_in_a_schema_is_no_difference():
    one, other = skill(output=RETURNS_COUNT), skill(output=dict(reversed(RETURNS_COUNT.items())))
    assert difference(one, other) == ""


def test_what_is_too_different_is_shown_and_not_compared():
    before, after = [skill(code="".join(f"{number * step % 1009}\n" for number in range(9000))) for step in (1, 7)]
    changed = changed_lines(before, after)
    assert (changed.count("-5"), changed.count("+5")) == (9, 9)
    assert difference(before, after).split("\n")[2].startswith("@@ -1,")


async def test_an_approver_is_told_what_it_touches_and_how_it_differs_from_what_is_approved():
    world = SkillWorld()
    world.executions.program = lambda program: {"count": 1}
    approved = await world.approved()
    waiting = await world.save(code="def run(input):\n    return {'count': 1}\n", tools=("postgres/query",))
    detail = skill_detail(APPROVER, waiting, world.shelf)
    assert (detail.version, detail.approved_version) == (waiting.version, approved.version)
    assert detail.version_in_use == approved.version  # it waits, so nobody but its author gets it
    assert [(each.tool, each.is_there) for each in detail.touches] == [("postgres/query", True)]
    assert "+    return {'count': 1}\n" in detail.difference
    assert skill_detail(APPROVER, approved, world.shelf).difference == ""


def test_the_first_of_a_name_differs_from_nothing():
    detail = skill_detail(APPROVER, BEFORE, SkillWorld().shelf)
    assert (detail.approved_version, detail.version_in_use, detail.difference) == (None, None, "")


def test_a_stale_skill_is_told_as_such_with_its_reasons():
    body = skill_body(skill(state=SkillState.APPROVED, drift=("`text` is gone.",)))
    assert (body.state, body.drift) == (SkillState.STALE, ["`text` is gone."])


def test_times_are_told_in_utc():
    body = skill_body(replace(BEFORE, created_at=0.5, last_used_at=3600.0))
    assert (body.created_at, body.last_used_at) == ("1970-01-01T00:00:00.500Z", "1970-01-01T01:00:00.000Z")
    assert (body.approved_at, body.approved_by) == (None, None)


def test_what_was_found_is_told_to_whoever_saved_it():
    found = replace(
        BEFORE,
        remarks=(Remark("replay", "It differs.", "output"),),
        inferred=("input",),
        proof=Proof(0.0, {"postgres/query": "a"}, ("e1",), 2),
    )
    told = saved_skill(found)
    assert [remark.model_dump() for remark in told.remarks] == [
        {"kind": "replay", "message": "It differs.", "place": "output"}
    ]
    assert told.proof is not None
    assert (told.proof.calls, told.proof.executions, told.inferred) == (2, ["e1"], ["input"])
    assert saved_skill(BEFORE).proof is None


async def test_a_draft_of_its_name_shows_nothing_of_a_skill_that_is_not_for_the_caller():
    world = SkillWorld()
    await world.approved(tools=("postgres/query",), code="secret = 1\ndef run(input): ...\n")
    outsider = Caller("outsider-key", Role("outsider", frozenset({"minio"})))
    draft = await world.save(caller=outsider)
    detail = skill_detail(outsider, world.shelf.find(outsider, draft.name), world.shelf)
    assert (detail.version, detail.approved_version, detail.difference) == (draft.version, None, "")
