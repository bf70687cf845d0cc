"""What the README and the docs say must be so in the code."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from orchestrator.faces.http.schemas import ExecutionReply
from typer.main import get_command

from orchestrator.adapters.access_files import read_roles
from orchestrator.commands.cli import app
from orchestrator.domain.errors import OrchestratorError
from orchestrator.domain.execution import Outcome, Stream
from orchestrator.domain.ledger import CallOutcome
from orchestrator.faces.http.openapi import document
from orchestrator.faces.http.problems import STATUS_OF_CODE
from orchestrator.settings import PREFIX, Settings
from scripts.settings_table import table, with_table

PROJECT = Path(__file__).resolve().parents[3]
README = (PROJECT / "README.md").read_text()
THREAT_MODEL = (PROJECT / "docs" / "threat-model.md").read_text()
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
GENERATED = {"figures.md"}  # is there only after it was measured
NO_STATUS = "–"  # noqa: RUF001  (as the README writes it)
SOURCE_ROOTS = [PROJECT, PROJECT / "orchestrator", PROJECT / "runner-image" / "runner"]
SOURCES = [
    file
    for pattern in (
        "orchestrator/**/*.py",
        "runner-image/client-library/*/*",
        "scripts/**/*.sh",
        "scripts/*.yaml",
        "compose.yaml",
    )
    for file in PROJECT.glob(pattern)
    if file.is_file()
]

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def code_pieces(text: str) -> list[str]:
    """The lines of the code blocks, and what stands between backticks elsewhere."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", prose)


def words_after(command: str, text: str) -> set[str]:
    pattern = rf"(?:^|[\s/(]){command} ([a-z][a-z-]*)"
    return {found for piece in code_pieces(text) for found in re.findall(pattern, piece)}


def blocks_in(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def headings_as_anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def keys_of(value: Any) -> Any:
    return {name: keys_of(inner) for name, inner in value.items()} if isinstance(value, dict) else None


def error_codes() -> set[str]:
    return {OrchestratorError.code} | {kind.code for kind in OrchestratorError.__subclasses__()}


def test_the_settings_table_is_the_one_made_from_the_settings():
    assert with_table(README) == README, "run '.venv/bin/python scripts/settings_table.py --write'"


def test_writing_the_settings_table_replaces_an_old_one_and_nothing_else():
    old = README.replace("| `CODE_EXECUTOR_HOST`", "| `CODE_EXECUTOR_ELSEWHERE`")
    assert old != README
    assert with_table(old) == README


def test_the_settings_table_names_no_place_of_this_machine():
    assert str(PROJECT) not in table()
    assert "`roles.json`" in table()


def test_a_document_without_markers_gets_no_settings_table():
    with pytest.raises(ValueError, match="lacks the markers"):
        with_table("# Nothing here\n")


def test_every_error_code_has_a_troubleshooting_row_with_its_status():
    codes = section("Troubleshooting").split("When make itself fails")[0]
    documented = {code: status for code, status, _ in rows(codes)}
    assert documented == {code: str(STATUS_OF_CODE.get(code, NO_STATUS)) for code in error_codes()}


def test_every_outcome_is_explained():
    assert {cells[0] for cells in rows(section("First execution"))} == set(Outcome)


def test_the_table_of_calls_is_the_api():
    documented = {cells[0] for cells in rows(section("API"))}
    described = document("0")["paths"]
    assert documented == {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}


def test_the_first_answer_has_the_fields_of_the_api():
    example = re.search(r"```json\n(.*?)```", README, flags=re.DOTALL)
    assert example is not None
    shown = json.loads(example[1])
    assert keys_of(shown) == keys_of(ExecutionReply.model_validate(shown).model_dump(by_alias=True))


@each_document
def test_every_make_target_that_is_named_exists(path):
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE))
    assert words_after("make", path.read_text()) <= targets


def test_the_readme_names_the_two_commands():
    assert {"up", "test"} <= words_after("make", section("Set up"))


def test_every_command_of_the_command_line_is_in_its_table_and_exists():
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    documented = {cells[0].split()[1] for cells in rows(section("Command line"))}
    assert documented == commands
    assert words_after("code-executor", README) <= commands


@each_document
def test_every_link_leads_somewhere(path):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing


@each_document
def test_every_source_file_that_is_named_exists(path):
    named = re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|json|sh|mjs|yaml|txt))`", path.read_text())
    missing = [name for name in named if not any((root / name).exists() for root in SOURCE_ROOTS)]
    assert not missing


@each_document
def test_every_anchor_is_a_heading(path):
    text = path.read_text()
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings_as_anchors(text)


def test_every_document_is_linked_from_the_readme():
    linked = set(re.findall(r"\]\((docs/[\w.-]+\.md)\)", README))
    written = {f"docs/{file.name}" for file in (PROJECT / "docs").glob("*.md") if file.name not in GENERATED}
    assert written <= linked


@each_document
def test_every_setting_that_is_named_exists(path):
    named = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", path.read_text()))
    settings = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    elsewhere = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", "\n".join(file.read_text() for file in SOURCES)))
    assert named <= settings | elsewhere


def test_the_programs_call_servers_that_come_without_being_asked_for():
    servers = tomllib.loads((PROJECT / "deploy" / "stack" / "servers.toml").read_text())["servers"]
    default = {name for name, server in servers.items() if server.get("default")}
    typescript = re.findall(r"from '/workspace/servers/(\w+)/", "\n".join(blocks_in("typescript")))
    python = re.findall(r"^from servers\.(\w+) import", "\n".join(blocks_in("python")), flags=re.MULTILINE)
    assert typescript
    assert python
    assert {*typescript, *python} <= default


def test_the_python_programs_compile():
    programs = blocks_in("python")
    assert programs
    for program in programs:
        compile(program, "README.md", "exec")


def test_the_events_of_the_stream_are_those_that_are_sent():
    source = (PROJECT / "orchestrator" / "faces" / "http" / "execute.py").read_text()
    sent = set(re.findall(r'events\.send(?:_text)?\("(\w+)"', source)) | set(Stream)
    assert set(chain(*(re.findall(r"\w+", cells[0]) for cells in rows(section("Streaming"))))) == sent


def test_every_outcome_of_a_tool_call_is_named():
    told = section("Programs that call tools").split("outcome (")[1].split(")")[0]
    assert set(re.findall(r"`(\w+)`", told)) == set(CallOutcome)


def test_every_tool_of_the_mcp_face_is_named():
    sources = (PROJECT / "orchestrator" / "faces" / "mcp").glob("*_tools.py")
    there = set(chain(*(re.findall(r'Tool\(\s*"(\w+)"', file.read_text()) for file in sources)))
    told = section("Connect a client").split("has ten tools: ")[1].split(". ")[0]
    assert set(re.findall(r"`(\w+)`", told)) == there
    assert len(there) == 10


def test_every_metric_that_is_named_exists():
    named = {name.removesuffix("_total") for name in re.findall(r"`(code_executor_\w+)`", section("Operating"))}
    source = "\n".join(file.read_text() for file in SOURCES)
    assert named == set(re.findall(r'"(code_executor_\w+)"', source))


def test_the_places_in_the_queue_are_the_defaults():
    default = {name: field.default for name, field in Settings.model_fields.items()}
    run = f"{default['max_running']} executions run at once, at most {default['max_running_per_caller']} of one caller"
    wait = f"{default['max_waiting']} wait, at most {default['max_waiting_per_caller']} of one caller"
    assert f"{run}; {wait}" in README


def test_the_example_of_roles_is_valid(tmp_path):
    (example,) = blocks_in("json", section("Roles"))
    file = tmp_path / "roles.json"
    file.write_text(example)
    assert {"admin", "analyst"} == set(read_roles(file).roles)


def test_the_shipped_roles_are_those_that_are_described():
    roles = json.loads((PROJECT / "roles.json").read_text())["roles"]
    *others, last = roles["developer"]["servers"]
    assert roles["admin"]["servers"] == ["*"]
    assert f"`developer` has {', '.join(others)} and {last}" in " ".join(section("Roles").split())


def test_every_test_that_the_threat_model_names_exists():
    tests = "\n".join(file.read_text() for file in (PROJECT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", THREAT_MODEL)
    assert named
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_every_engine_option_that_the_threat_model_names_is_in_the_lockdown():
    controls = THREAT_MODEL.split("\n## Controls\n")[1].split("\n## ")[0]
    lockdown = (PROJECT / "orchestrator" / "engines" / "docker" / "lockdown.py").read_text()
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", controls))
    assert {"ReadonlyRootfs", "CapDrop", "StdinOnce"} <= named
    assert [name for name in sorted(named) if f'"{name}"' not in lockdown] == []
