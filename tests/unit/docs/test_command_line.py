"""What docs/command-line.md says must be so."""

from __future__ import annotations

import re

from typer.main import get_command

from orchestrator.commands.cli import app
from orchestrator.commands.run import EXIT_OF_OUTCOME
from orchestrator.commands.terminal import EXIT_CANNOT_CALL
from tests.unit.docs.pages import page, rows

COMMAND_LINE = page("docs/command-line.md")


def test_every_command_is_in_the_table():
    documented = {cells[0].split()[1] for cells in rows(COMMAND_LINE)}
    assert documented == set(get_command(app).commands)  # type: ignore[attr-defined]


def test_the_exit_codes_are_those_of_run():
    documented = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", COMMAND_LINE, re.M)}
    of_outcomes = {code: outcome.replace("_", " ") for outcome, code in EXIT_OF_OUTCOME.items()}
    assert documented == {**of_outcomes, EXIT_CANNOT_CALL: "the daemon could not be called"}
