"""What any page names must exist, and every page must be found."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from orchestrator.commands.cli import app
from orchestrator.settings import PREFIX, Settings
from tests.unit.docs.pages import DOCS, EVERY_PAGE, PROJECT, anchors, page, words_after

GENERATED = {"figures.md"}  # is there only after it was measured
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

each_page = pytest.mark.parametrize("path", EVERY_PAGE, ids=lambda path: str(path.relative_to(PROJECT)))


def test_the_readme_is_short_enough_to_be_read():
    assert len(page("README.md").splitlines()) <= 200


@each_page
def test_every_make_target_that_is_named_exists(path):
    targets = set(re.findall(r"^([a-z-]+):", page("Makefile"), flags=re.MULTILINE))
    assert words_after("make", path.read_text()) <= targets


@each_page
def test_every_command_of_the_command_line_that_is_named_exists(path):
    assert words_after("code-executor", path.read_text()) <= set(get_command(app).commands)  # type: ignore[attr-defined]


@each_page
def test_every_link_leads_somewhere(path):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing


@each_page
def test_every_anchor_is_a_heading(path):
    links = re.findall(r"\]\(([^)#]*)#([^)]+)\)", path.read_text())
    targets = [(path.parent / link if link else path, anchor) for link, anchor in links]
    assert [anchor for target, anchor in targets if anchor not in anchors(target.read_text())] == []


@each_page
def test_every_source_file_that_is_named_exists(path):
    named = re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|json|sh|mjs|yaml|txt|toml))`", path.read_text())
    sources = [name for name in named if not name.startswith(".build/")]  # that one is made
    missing = [name for name in sources if not any((root / name).exists() for root in SOURCE_ROOTS)]
    assert not missing


@each_page
def test_every_setting_that_is_named_exists(path):
    named = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", path.read_text()))
    settings = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    elsewhere = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", "\n".join(file.read_text() for file in SOURCES)))
    assert named <= settings | elsewhere


def test_every_page_is_linked_from_the_index_and_the_index_from_the_readme():
    index = page("docs/README.md")
    linked = {(DOCS / link).resolve() for link in re.findall(r"\]\(([\w./-]+\.md)\)", index)}
    written = {file for file in EVERY_PAGE if file.name not in GENERATED and file != DOCS / "README.md"}
    assert written <= linked
    assert "](docs/README.md)" in page("README.md")
