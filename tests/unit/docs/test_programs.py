"""What docs/programs.md says of packages must be so, and so must the description of `execute_code`."""

from __future__ import annotations

import re

import pytest

from orchestrator.faces.mcp import execution_tools
from tests.support.packages import PROMISED
from tests.unit.docs.pages import page, section

PACKAGES = section(page("docs/programs.md"), "Packages")


@pytest.mark.parametrize(("language", "title"), [("python", "Python"), ("typescript", "TypeScript")])
def test_the_packages_are_those_of_the_runner_image(language: str, title: str) -> None:
    (row,) = re.findall(rf"^\| {title} \| (.*) \|$", PACKAGES, flags=re.MULTILINE)
    assert [name.split(" ")[0] for name in row.split(", ")] == sorted(PROMISED[language])


def test_the_description_of_the_tool_names_the_same_packages() -> None:
    line = execution_tools.PACKAGES_LINE
    python, typescript = re.fullmatch(r"Python 3.11 has (.*); TypeScript has (.*)\.", line).groups()
    assert set(python.split(", ")) == set(PROMISED["python"])
    assert set(typescript.split(", ")) == set(PROMISED["typescript"])
