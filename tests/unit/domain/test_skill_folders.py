"""Skills as folders of files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Language
from orchestrator.domain.skill_folders import Usage, agent_skill, digest, exported, imported
from orchestrator.domain.skills import SkillContent, SkillState, SkillVersion

CONTENT = SkillContent(
    name="weekly_report",
    description="Counts the orders of a week.",
    language=Language.PYTHON,
    code="def run(input):\r\n    return {'orders': 1}\n\n",
    input={"type": "object", "properties": {"week": {"type": "integer"}}, "required": ["week"]},
    output={"type": "object", "properties": {"orders": {"type": "number"}}},
    tools=("postgres/execute_sql", "skills/week_days"),
    examples=({"week": 7, "urgent": True},),
)
ODD_DESCRIPTIONS = [
    'Says "yes": it # counts, then — stops.',
    "--- not the end ---\n---\nof it",
    "'single' {flow: [mapping]} & *alias !tag | > % @ `code`",
    "Zählt 週 the 🎉 of a\u2028week\x85or\ufeffnot\x7f\t.",
    "null",
    "back\\slash \\u0041 \x00",
    " around ",
    "- - -----",
]


def version(**changed) -> SkillVersion:
    return SkillVersion(replace(CONTENT, **changed), "ann", "developer", SkillState.APPROVED, 1.0)


def front_matter(text: str):
    _, matter, body = text.split("---", 2)
    return yaml.safe_load(matter), body


def test_an_agent_skill_is_a_folder_with_instructions_the_code_and_the_schemas():
    skill = agent_skill(version())
    assert list(skill.files) == [
        "weekly-report/SKILL.md",
        "weekly-report/scripts/weekly_report.py",
        "weekly-report/references/input.schema.json",
        "weekly-report/references/output.schema.json",
    ]
    assert skill.files["weekly-report/scripts/weekly_report.py"] == CONTENT.code
    assert json.loads(skill.files["weekly-report/references/input.schema.json"]) == CONTENT.input
    assert json.loads(skill.files["weekly-report/references/output.schema.json"]) == CONTENT.output


def test_the_script_of_a_typescript_skill_ends_in_ts():
    skill = agent_skill(version(language=Language.TYPESCRIPT))
    assert "weekly-report/scripts/weekly_report.ts" in skill.files


def test_the_front_matter_keeps_fields_of_our_own_under_metadata_as_strings():
    skill = agent_skill(version())
    matter, _ = front_matter(skill.files["weekly-report/SKILL.md"])
    assert matter == skill.front_matter
    assert set(matter) == {"name", "description", "compatibility", "metadata"}
    assert matter["metadata"] == {
        "executor": "mcp-code-executor",
        "skill": "weekly_report",
        "version": CONTENT.version,
        "language": "python",
        "state": "approved",
        "tools": "postgres/execute_sql skills/week_days",
    }


@pytest.mark.parametrize("description", ODD_DESCRIPTIONS)
def test_an_odd_description_arrives_as_it_was_written(description):
    skill = agent_skill(version(description=description))
    matter, _ = front_matter(skill.files["weekly-report/SKILL.md"])
    assert matter == skill.front_matter
    assert matter["description"] == description


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_description_arrives_as_it_was_written(description):
    skill = agent_skill(version(description=description))
    assert front_matter(skill.files["weekly-report/SKILL.md"])[0]["description"] == description


@pytest.mark.parametrize("name", ["yes", "no", "on", "off", "y"])
def test_a_name_that_yaml_takes_for_a_value_remains_a_name(name):
    skill = agent_skill(version(name=name))
    assert front_matter(skill.files[f"{name}/SKILL.md"])[0]["name"] == name


def test_the_instructions_show_both_ways_to_use_a_skill_with_its_example():
    body = agent_skill(version()).files["weekly-report/SKILL.md"]
    tool_call = json.loads(body.split("```json\n")[1].split("```")[0])
    assert tool_call == {"name": "weekly_report", "input": {"week": 7, "urgent": True}}
    assert "import { weekly_report } from '/workspace/skills/weekly_report.js';" in body
    assert 'await weekly_report({"urgent": true, "week": 7});' in body
    assert "from skills import weekly_report" in body
    assert "weekly_report({'urgent': True, 'week': 7})" in body
    assert "it runs only inside the executor" in body


def test_given_usages_are_shown_with_their_types():
    usage = Usage(
        "weekly_report(*, week: int) -> dict", "from skills import weekly_report\nresult = weekly_report(week=7)"
    )
    body = agent_skill(version(), {Language.PYTHON: usage}).files["weekly-report/SKILL.md"]
    assert f"```python\n# {usage.signature}\n{usage.example}\n```" in body


def test_a_skill_without_examples_shows_where_its_input_goes():
    body = agent_skill(version(examples=())).files["weekly-report/SKILL.md"]
    assert '"input": {}' in body


def test_a_large_schema_is_left_to_its_file():
    large = {"type": "object", "description": "x" * 3000}
    skill = agent_skill(version(input=large))
    assert "xxx" not in skill.files["weekly-report/SKILL.md"]
    assert "[references/input.schema.json](references/input.schema.json)." in skill.files["weekly-report/SKILL.md"]


def test_a_schema_that_is_nested_deeply_does_not_become_mostly_white_space():
    deep = {"type": "object"}
    for _ in range(400):
        deep = {"items": deep}
    text = agent_skill(version(input=deep)).files["weekly-report/references/input.schema.json"]
    assert json.loads(text) == deep
    assert len(text) < 10_000


def test_a_fence_in_an_example_does_not_end_the_block_around_it():
    body = agent_skill(version(examples=({"text": "```"},))).files["weekly-report/SKILL.md"]
    assert "````json\n" in body


def test_a_change_of_the_tools_shows_in_the_state():
    stale = replace(version(), drift=("postgres/execute_sql is gone",))
    assert agent_skill(stale).front_matter["metadata"]["state"] == "stale"


def test_the_same_version_makes_the_same_bytes_in_whatever_order_its_members_were_given():
    other_order = version(
        input=dict(reversed(CONTENT.input.items())), examples=(dict(reversed(CONTENT.examples[0].items())),)
    )
    assert other_order.version == version().version
    assert agent_skill(other_order).files == agent_skill(version()).files


def test_a_digest_names_the_bytes():
    assert digest("") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("description", ODD_DESCRIPTIONS)
@pytest.mark.parametrize("code", ["", "a\r\nb\rc\n", "\ufeffno end", "🎉\n\n"])
def test_what_was_exported_is_imported_as_the_same_version(description, code):
    content = replace(CONTENT, description=description, code=code)
    skill = imported(exported(content))
    assert skill.content == content
    assert skill.version == content.version
    assert not skill.was_changed


def test_an_export_is_easy_to_compare():
    files = exported(CONTENT)
    assert list(files) == ["weekly_report/skill.json", "weekly_report/code.py"]
    text = files["weekly_report/skill.json"]
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    assert json.loads(text)["version"] == CONTENT.version
    assert files["weekly_report/code.py"] == CONTENT.code


def test_a_skill_that_was_edited_is_read_and_is_known_to_be_a_new_version():
    files = exported(CONTENT)
    skill = imported(files | {"weekly_report/code.py": "def run(input): ..."})
    assert skill.was_changed
    assert skill.content.code == "def run(input): ..."


def test_a_skill_that_was_written_by_hand_needs_no_version():
    skill = imported(edited(version=None))
    assert skill.content == CONTENT
    assert not skill.was_changed


def test_other_files_and_folders_above_do_not_matter():
    files = {f"team/skills/{path}": text for path, text in exported(CONTENT).items()}
    assert imported(files | {"team/skills/weekly_report/README.md": "Hello."}).content == CONTENT


def edited(**members) -> dict[str, str]:
    """Return an export with some members of skill.json set, or taken away where they are None."""
    files = exported(CONTENT)
    document = json.loads(files["weekly_report/skill.json"]) | members
    kept = {name: value for name, value in document.items() if value is not None}
    return files | {"weekly_report/skill.json": json.dumps(kept)}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "must have one skill.json, not 0"),
        (exported(CONTENT) | exported(replace(CONTENT, name="other")), "must have one skill.json, not 2"),
        ({"weekly_report/skill.json": "{"}, "must be JSON"),
        ({"weekly_report/skill.json": "[" * 100_000}, "must be JSON"),
        ({"weekly_report/skill.json": '{"name": NaN}'}, "NaN is not JSON"),
        ({"weekly_report/skill.json": "[]"}, "must be a JSON object"),
        (edited(description=None), "`description` in weekly_report/skill.json must be a text"),
        (edited(input=True), "`input` in weekly_report/skill.json must be a JSON Schema"),
        (edited(tools=[1]), "`tools` in weekly_report/skill.json must be a list of SERVER/TOOL"),
        (
            edited(examples=[{"week": 1}]),
            "`examples` in weekly_report/skill.json must be a list of objects with `input`",
        ),
        (edited(examples={}), "`examples` in weekly_report/skill.json must be a list"),
        (edited(language="ruby"), "must be typescript or python"),
        (edited(language="typescript"), "must be in weekly_report/code.ts"),
        (edited(name="../other"), "`name` must have"),
        (edited(name="other"), "must be in a folder with the name of the skill, other"),
        (edited(version=7), "`version` in weekly_report/skill.json must be a text"),
        (edited(license="MIT"), "must not have `license`"),
        (edited(description="\ud800"), "text that UTF-8 can write"),
        (
            {path: text.replace('"week": 7', '"week": 1e999') for path, text in exported(CONTENT).items()},
            "finite numbers",
        ),
        (
            {path.removeprefix("weekly_report/"): text for path, text in exported(CONTENT).items()},
            "must be in a folder",
        ),
    ],
)
def test_files_that_are_no_exported_skill_are_refused_with_the_reason(files, message):
    with pytest.raises(InvalidRequest, match=message):
        imported(files)
