from __future__ import annotations

import re
import tomllib

from tests.unit.setup.machine import PROJECT, Tree


def test_a_step_is_one_line_with_its_seconds_and_its_output_is_in_the_log(tree: Tree) -> None:
    ended = tree.bash("step 'doing it' it.log 'try again' echo details")
    assert re.fullmatch(r"  doing it +\d+ s\n", ended.stdout)
    assert (tree.path / ".build" / "log" / "it.log").read_text() == "details\n"


def test_a_step_that_fails_shows_the_end_of_its_log_and_the_fix(tree: Tree) -> None:
    ended = tree.bash("step 'doing it' it.log 'Try again.' bash -c 'echo the cause; exit 3'; echo not reached")
    assert ended.returncode == 1
    assert "the cause" in ended.stderr
    assert "doing it failed. Try again." in ended.stderr
    assert "not reached" not in ended.stdout


def test_a_step_made_of_several_commands_fails_at_the_first(tree: Tree) -> None:
    ended = tree.bash("several() { false; echo went on; }; step 'doing it' it.log 'Try again.' several")
    assert ended.returncode == 1
    assert "went on" not in ended.stderr


def test_help_documents_every_target() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    documented = set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE))
    assert targets >= {"up", "down", "restart", "logs", "status", "doctor", "test", "check", "bench", "image", "clean"}
    assert documented == targets


def test_every_dependency_of_the_project_is_pinned() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    pins = (PROJECT / "orchestrator" / "constraints.txt").read_text().splitlines()
    pinned = {plain_name(pin) for pin in pins if "==" in pin}
    assert {plain_name(dependency) for dependency in wanted} - pinned == set()


def plain_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
