from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tomllib

import pytest

from tests.unit.setup.machine import CATCHES_INTERRUPT, PROJECT, Tree, script, until


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


@pytest.mark.parametrize(
    "script_of",
    [
        "tool || echo went on",
        "step 'doing it' it.log 'Try again.' tool || echo went on",
        "several() { tool || echo went on >&2; }; step 'doing it' it.log 'Try again.' several",
        "(step 'doing it' it.log 'Try again.' tool) || echo went on",
        "at_once 'doing it' tool one two || echo went on",
    ],
)
def test_ctrl_c_ends_a_script_although_the_command_ends_as_if_it_had_failed(tree: Tree, script_of: str) -> None:
    tree.command("tool", CATCHES_INTERRUPT)
    ended = tree.interrupt(*script(script_of))
    assert ended.returncode == 130
    log = tree.path / ".build" / "log" / "it.log"
    assert "went on" not in ended.stdout + (log.read_text() if log.exists() else "")
    assert "Try again." not in ended.stderr


def test_commands_at_once_do_not_wait_for_each_other(tree: Tree) -> None:
    waits_for_both = "until [ -e one.started ] && [ -e two.started ]; do sleep 0.05; done"
    tree.command("tool", f'touch "$1.started"; timeout 20 bash -c "{waits_for_both}" && echo "$1 met the other"')
    ended = tree.bash("at_once 'doing both' tool one two; echo then")
    assert sorted(ended.stdout.splitlines()[:2]) == ["one met the other", "two met the other"]
    assert ended.stdout.endswith("then\n")


def test_of_commands_at_once_that_fail_one_says_why_and_all_come_to_their_end(tree: Tree) -> None:
    tree.command("tool", '[ "$1" != fine ] || { echo done; exit; }; echo "the cause of $1" >&2; exit 1')
    ended = tree.bash("at_once 'doing all' tool fine first second; echo not reached")
    assert (ended.returncode, ended.stdout) == (1, "done\n")
    assert ended.stderr == "the cause of first\n"


def test_a_command_at_once_that_fails_without_a_word_fails_the_script_too(tree: Tree) -> None:
    tree.command("tool", "exit 3")
    ended = tree.bash("at_once 'doing it' tool one; echo not reached")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "doing it failed" in ended.stderr


def test_the_seconds_of_a_step_stop_and_the_lock_is_free_when_the_script_is_ended(tree: Tree) -> None:
    terminal, screen = os.openpty()
    # What the step runs may live on, with the lock; here it gives that up, to show who else holds it.
    text = "work() { exec 9>&-; touch started; exec sleep 60; }; lock_the_tree; step 'doing it' it.log '' work"
    with tree.start(*script(text), stdout=screen) as process:
        os.close(screen)
        try:
            until((tree.path / "started").exists)
            assert "doing it" in os.read(terminal, 100).decode()
            process.terminate()
            process.wait(timeout=10)
            assert tree.run("flock", "--nonblock", ".build/lock", "true").returncode == 0
            until(lambda: is_closed(terminal))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    os.close(terminal)


def is_closed(terminal: int) -> bool:
    """Nobody is left who could write to it."""
    try:
        return not os.read(terminal, 1000)
    except OSError:
        return True


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


def test_the_image_gets_the_dependencies_of_the_project_and_the_pins_those_of_its_tools_as_well(tree: Tree) -> None:
    shutil.copy(PROJECT / "pyproject.toml", tree.path)
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    asked = [tree.run(".venv/bin/python", "scripts/requirements.py", *extras).stdout for extras in ([], ["dev"])]
    assert asked[0].splitlines() == project["dependencies"]
    assert asked[1].splitlines() == project["dependencies"] + project["optional-dependencies"]["dev"]


def test_nothing_lies_at_the_top_that_does_not_belong_there() -> None:
    """What one sees first when one opens the project; a stray file of a command that went wrong would stay for long."""
    files = {"README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "compose.yaml", "pyproject.toml", "roles.json"}
    hidden = {".ci", ".editorconfig", ".gitignore"}
    folders = {"bench", "deploy", "docs", "orchestrator", "runner-image", "scripts", "tests"}
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert {path.split("/")[0] for path in listed.splitlines()} == files | hidden | folders


def plain_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
