"""Skills as people read them."""

from __future__ import annotations

from difflib import unified_diff
from typing import Any

import pytest

from tests.unit.console.javascript import ask

pytestmark = pytest.mark.processes

VERSION = "8a78cdde7d37" + "0" * 52


def lines_of(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    text = "".join(unified_diff([f"{line}\n" for line in before], [f"{line}\n" for line in after], "a@1", "@2"))
    found = ask("lib/skills.js", "module.differenceLines(text)", text=text)
    return [(each["kind"], each["text"]) for each in found]


def test_a_difference_is_told_line_by_line() -> None:
    assert lines_of(["one", "two"], ["one", "three"]) == [
        ("gap", "@ -1,2 +1,2 @@"),
        ("same", "one"),
        ("removed", "two"),
        ("added", "three"),
    ]


def test_a_line_of_code_cannot_pass_for_a_part_of_the_difference() -> None:
    before, after = ["-- x", "@@ -1 +1 @@", ""], ["++ y", "@@ -1 +1 @@", ""]
    assert lines_of(before, after)[1:] == [
        ("removed", "-- x"),
        ("added", "++ y"),
        ("same", "@@ -1 +1 @@"),
        ("same", ""),
    ]


def test_no_difference_has_no_lines() -> None:
    assert ask("lib/skills.js", "module.differenceLines('')") == []


@pytest.mark.parametrize(
    ("read_only", "is_there", "label"),
    [
        (True, True, "reads only"),
        (False, True, "may change data"),
        (None, True, "its server does not say"),
        (None, False, "is not there"),
    ],
)
def test_what_a_tool_does_is_said_by_mark_and_word(read_only: bool | None, is_there: bool, label: str) -> None:
    effect = ask("lib/skills.js", "module.effectOf(touched)", touched={"readOnly": read_only, "isThere": is_there})
    assert effect["label"] == label
    assert effect["mark"]


@pytest.mark.parametrize(
    ("touches", "words"),
    [
        ([], "It calls no tool."),
        ([True], "It calls one tool, which only reads."),
        ([True, True], "It calls 2 tools, which only read."),
        ([True, False, None], "It calls 3 tools: 1 may change data, 1 is of unknown effect."),
    ],
)
def test_what_a_skill_touches_is_summed_up(touches: list[bool | None], words: str) -> None:
    given = [{"readOnly": each, "isThere": True} for each in touches]
    assert ask("lib/skills.js", "module.effectsInWords(touches)", touches=given) == words


@pytest.mark.parametrize(
    ("inferred", "words"), [([], "nothing"), (["input", "output", "tools"], "input schema, result schema, tools")]
)
def test_what_was_inferred_is_told_in_words(inferred: list[str], words: str) -> None:
    assert ask("lib/skills.js", "module.inferredInWords(inferred)", inferred=inferred) == words


def test_a_tool_that_is_gone_is_told_in_the_sum() -> None:
    given = [{"readOnly": None, "isThere": False}]
    words = ask("lib/skills.js", "module.effectsInWords(touches)", touches=given)
    assert words == "It calls one tool: it is not there."


def test_the_label_of_an_execution_names_skill_and_version() -> None:
    told = ask("lib/skills.js", "[module.skillOf('say@abc'), module.skillOf('say@')]")
    assert told == [{"name": "say", "version": "abc"}, {"name": "say", "version": ""}]


def test_a_path_is_split_where_the_server_ends() -> None:
    assert ask("lib/skills.js", "module.toolOf('github/repos/list')") == ["github", "repos/list"]


def skill(**changes: Any) -> dict[str, Any]:
    return {"name": "say", "version": VERSION, "state": "proven", "author": "alice", **changes}


@pytest.mark.parametrize(
    ("changes", "caller", "approves", "may"),
    [
        ({}, "bob", True, True),
        ({}, "bob", False, False),
        ({}, "alice", True, False),
        *(({"state": state}, "bob", True, False) for state in ("draft", "approved", "stale", "retired")),
    ],
)
def test_approving_is_offered_to_those_who_may(changes: dict[str, Any], caller: str, approves: bool, may: bool) -> None:
    told = ask(
        "lib/skills.js",
        "module.mayApprove(skill, caller, approves)",
        skill=skill(**changes),
        caller=caller,
        approves=approves,
    )
    assert told is may


@pytest.mark.parametrize(
    ("changes", "caller", "approves", "may"),
    [
        ({"state": "draft"}, "alice", False, True),
        ({"state": "draft"}, "bob", True, False),
        ({"state": "approved"}, "bob", True, True),
        ({"state": "approved"}, "bob", False, False),
        ({"state": "retired"}, "alice", True, False),
        ({"state": "approved", "author": "(built-in)"}, "bob", True, False),
    ],
)
def test_retiring_is_offered_to_those_who_may(changes: dict[str, Any], caller: str, approves: bool, may: bool) -> None:
    told = ask(
        "lib/skills.js",
        "module.mayRetire(skill, caller, approves)",
        skill=skill(**changes),
        caller=caller,
        approves=approves,
    )
    assert told is may


@pytest.mark.parametrize(
    ("copies", "caller", "author"),
    [
        ([("alice", "proven", None), ("bob", "approved", "eve")], "alice", "bob"),
        ([("alice", "proven", None), ("bob", "stale", "eve")], "eve", "alice"),
        ([("alice", "proven", None), ("bob", "proven", None)], "bob", "bob"),
        ([("alice", "stale", None), ("bob", "proven", None)], "eve", "bob"),
        ([("alice", "proven", None), ("bob", "proven", None)], "eve", "alice"),
    ],
)
def test_copies_of_one_version_are_listed_once(
    copies: list[tuple[str, str, str | None]], caller: str, author: str
) -> None:
    saved = [skill(author=who, state=state, approvedBy=by) for who, state, by in copies]
    told = ask("lib/skills.js", "module.onePerVersion(skills, caller)", skills=saved, caller=caller)
    assert [(each["author"], each["authors"]) for each in told] == [(author, ["alice", "bob"])]


def test_versions_of_one_name_are_listed_apart() -> None:
    saved = [skill(approvedBy=None), skill(version="0" * 64, approvedBy=None)]
    told = ask("lib/skills.js", "module.onePerVersion(skills, 'eve')", skills=saved)
    assert [each["version"] for each in told] == [VERSION, "0" * 64]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"approvedVersion": VERSION}, "approved"),
        ({"approvedVersion": None}, "proven"),
        ({"approvedVersion": VERSION, "state": "stale"}, "stale"),
    ],
)
def test_a_copy_of_what_is_approved_waits_for_nothing(changes: dict[str, Any], state: str) -> None:
    assert ask("lib/skills.js", "module.asItCounts(skill)", skill=skill(**changes))["state"] == state


@pytest.mark.parametrize(
    ("text", "given"), [('{"a": 1}', {"a": 1}), ("[1]", None), ("null", None), ("{", None), ("", None)]
)
def test_an_input_must_be_an_object(text: str, given: object) -> None:
    told = ask("lib/skills.js", "module.inputOf(text)", text=text)
    assert told["input"] == given
    assert bool(told["problem"]) is (given is None)


@pytest.mark.parametrize(
    ("example", "cited"),
    [
        ({"city": "Turku"}, ', such as {"city":"Turku"}.'),
        ({"city": "\u202eTurku"}, ', such as {"city":"⟨U+202E⟩Turku"}.'),
        ({"text": "x" * 500}, "a JSON object."),
    ],
)
def test_an_input_that_is_wrong_is_compared_with_an_example_of_the_skill(example: object, cited: str) -> None:
    told = ask("lib/skills.js", "module.inputOf('{', example)", example=example)
    assert told["problem"].endswith(cited)


def test_skills_have_pages_of_their_own_and_tools_have_theirs() -> None:
    paths = ask(
        "pages/links.js",
        "[module.toolPath('skills', 'say'), module.toolPath('crm', 'a/b'), module.skillPath('say', version)]",
        version=VERSION,
    )
    assert paths == ["/console/skills/say", "/console/catalogue/crm/a%2Fb", f"/console/skills/say?version={VERSION}"]
