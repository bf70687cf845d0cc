"""What docs/configuration.md says must be so."""

from __future__ import annotations

import json

import pytest

from orchestrator.adapters.access_files import read_roles
from orchestrator.settings import MIB, Settings
from scripts.settings_table import table, with_table
from tests.unit.docs.pages import PROJECT, blocks_in, in_one_line, page, section

CONFIGURATION = page("docs/configuration.md")


def test_the_settings_table_is_the_one_made_from_the_settings():
    assert with_table(CONFIGURATION) == CONFIGURATION, "run '.venv/bin/python scripts/settings_table.py --write'"


def test_writing_the_settings_table_replaces_an_old_one_and_nothing_else():
    old = CONFIGURATION.replace("| `CODE_EXECUTOR_HOST`", "| `CODE_EXECUTOR_ELSEWHERE`")
    assert old != CONFIGURATION
    assert with_table(old) == CONFIGURATION


def test_the_settings_table_names_no_place_of_this_machine():
    assert str(PROJECT) not in table()
    assert "`roles.json`" in table()


def test_a_document_without_markers_gets_no_settings_table():
    with pytest.raises(ValueError, match="lacks the markers"):
        with_table("# Nothing here\n")


def test_the_example_of_roles_is_valid(tmp_path):
    (example,) = blocks_in("json", section(CONFIGURATION, "Roles"))
    file = tmp_path / "roles.json"
    file.write_text(example)
    assert {"admin", "analyst"} == set(read_roles(file).roles)


def test_the_shipped_roles_are_those_that_are_described():
    roles = json.loads(page("roles.json"))["roles"]
    *others, last = roles["developer"]["servers"]
    assert roles["admin"]["servers"] == ["*"]
    assert f"`developer` has {', '.join(others)} and {last}" in in_one_line(section(CONFIGURATION, "Roles"))


def test_the_resources_in_the_security_policy_are_the_defaults():
    limits = Settings.model_construct().limits(None)
    assert (
        f"{limits.cpus:g} CPU, {limits.memory_bytes // MIB // 1024} GiB of memory without swap, "
        f"{limits.max_processes} processes and threads, {limits.timeout_seconds / 60:g} minutes, "
        f"{limits.max_output_bytes // 1024} KiB of output kept from each stream, "
        f"at most {limits.flood_bytes // MIB} MiB printed to one"
    ) in page("SECURITY.md")
