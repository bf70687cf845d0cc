"""What docs/clients.md says must be so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestrator.commands.connect import Client, Connection, configuration
from orchestrator.settings import PREFIX, Settings
from tests.unit.docs import pages
from tests.unit.docs.pages import in_one_line, page
from tests.unit.faces.mcp.test_tools import all_tools

DOCUMENT = page("docs/clients.md")
TITLES = {Client.CLAUDE: "Claude Code", Client.CURSOR: "Cursor", Client.CODEX: "Codex", Client.VSCODE: "VS Code"}
ENVIRONMENTS = pages.PROJECT / "tests" / "clients" / "environments"
WRAPPER = Path("/path/to/scripts/mcp-wrapper.sh")


def section(title: str) -> str:
    return pages.section(DOCUMENT, title)


@pytest.mark.parametrize("client", list(Client))
def test_the_snippet_of_each_client_is_what_connect_shows(client):
    block = re.search(r"```(?:json|toml)\n(.*?)```", section(TITLES[client]), flags=re.DOTALL)
    assert block is not None
    home = Path("/home/jane")
    by_default = Connection("http://127.0.0.1:9091", WRAPPER, over_stdio=not client.asks_a_command_for_headers)
    assert block[1] == configuration(client, by_default, home, home).text


def test_the_thirteen_tools_are_in_the_table():
    assert set(
        re.findall(r"`((?:execute|search|get|list|cancel|chat|save|run)_\w+)`", section("What a client gets"))
    ) == {tool.name for tool in all_tools()}
    assert len(all_tools()) == 13
    assert len([tool for tool in all_tools() if tool.is_of_use()]) == 10
    assert "has ten tools" in page("README.md")


def test_the_versions_are_those_that_are_tried():
    pinned = {}
    for file in ENVIRONMENTS.glob("*/package.json"):
        pinned |= json.loads(file.read_text())["dependencies"]
    for file in ENVIRONMENTS.glob("*/requirements.txt"):
        pinned |= dict(re.findall(r"^(\S+)==(\S+)$", file.read_text(), flags=re.MULTILINE))
    table = {cells[0]: cells[1] for cells in pages.rows(section("Tried with"))}
    assert len(table) == 10
    assert {package: pinned[package] for package in table} == table


def test_the_limits_of_pictures_are_those_of_the_gateway():
    limits = Settings().gateway_limits
    assert f"most {limits.max_images} and {limits.max_images_bytes // 1024**2} MiB together" in in_one_line(
        section("What a client gets")
    )


def test_every_setting_that_is_named_exists():
    of_the_wrapper = {"ADMIN_GROUP", "DEVELOPER_GROUP", "CONTAINER", "ROLE"}
    named = set(re.findall(rf"{PREFIX}([A-Z_]+)", DOCUMENT))
    assert named - of_the_wrapper <= {name.upper() for name in Settings.model_fields}


def test_the_exit_codes_are_those_of_the_wrapper():
    script = page("scripts/mcp-wrapper.sh")
    declared = re.search(r"^readonly BAD_USE=(\d+) NO_KEY=(\d+) UNAVAILABLE=(\d+) NO_PERMISSION=(\d+)$", script, re.M)
    assert declared is not None
    assert re.findall(r"^\| (\d+) \|", section("Keys and groups"), flags=re.MULTILINE) == list(declared.groups())


def test_what_the_client_is_told_is_said_somewhere():
    of_claude_code = "headersHelper not run"
    sentences = {cells[0].partition(" ${")[0] for cells in pages.rows(section("When it does not connect"))}
    ours = [*pages.PROJECT.glob("orchestrator/**/*.py"), pages.PROJECT / "scripts" / "mcp-wrapper.sh"]
    sources = "\n".join(file.read_text() for file in ours)
    assert [said for said in sentences - {of_claude_code} if said not in sources] == []
