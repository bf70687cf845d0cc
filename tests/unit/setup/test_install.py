"""The command on the PATH, and completion that real shells understand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from orchestrator.commands.cli import app
from tests.unit.setup.machine import Tree


@pytest.fixture
def place(tree: Tree) -> Tree:
    (tree.path / ".venv" / "bin" / "code-executor").write_text('#!/bin/sh\necho "asked for $*"\n')
    return tree


def install(tree: Tree, what: str = "install", **environment: str) -> subprocess.CompletedProcess[str]:
    return tree.run("scripts/install.sh", what, **environment)


def test_the_command_is_on_the_path_and_says_so_where_it_is_not(place: Tree) -> None:
    ended = install(place)
    assert ended.returncode == 0, ended.stderr
    link = place.path / ".local" / "bin" / "code-executor"
    assert os.readlink(link) == str(place.path / ".venv" / "bin" / "code-executor")
    assert "is not on your PATH" in ended.stdout
    on_path = f"{link.parent}:/usr/bin:/bin"
    again = install(place, PATH=on_path)
    assert again.returncode == 0, "it can be run again"
    assert "is not on your PATH" not in again.stdout
    assert place.run("code-executor", "--version", PATH=on_path).stdout == "asked for --version\n"
    share = place.path / ".local" / "share"
    for file, shell in (
        ("bash-completion/completions/code-executor", "bash"),
        ("zsh/site-functions/_code-executor", "zsh"),
    ):
        assert (share / file).read_text() == f"asked for completion {shell}\n"


def test_without_a_home_directory_in_the_environment_uninstalling_does_not_fail(place: Tree) -> None:
    ended = place.run("env", "-u", "HOME", f"XDG_DATA_HOME={place.path}", "scripts/install.sh", "uninstall")
    assert ended.returncode == 0, ended.stderr


def test_uninstalling_leaves_nothing_and_can_be_repeated(place: Tree) -> None:
    install(place)
    for _ in range(2):
        assert install(place, "uninstall").returncode == 0
    left = [path for path in (place.path / ".local").rglob("*") if not path.is_dir()]
    assert left == []


def test_a_command_of_another_is_neither_replaced_nor_removed(place: Tree) -> None:
    link = place.path / ".local" / "bin" / "code-executor"
    link.parent.mkdir(parents=True)
    link.symlink_to("/srv/other/.venv/bin/code-executor")
    refused = install(place)
    assert refused.returncode == 1
    assert "/srv/other/.venv/bin/code-executor" in refused.stderr
    assert "stays" in install(place, "uninstall").stdout
    assert os.readlink(link) == "/srv/other/.venv/bin/code-executor"
    assert install(place, FORCE="1").returncode == 0
    assert os.readlink(link).startswith(str(place.path))


def printed(shell: str) -> str:
    ended = CliRunner().invoke(app, ["completion", shell])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def completed_by_bash(directory: Path, *words: str) -> set[str]:
    """Ask bash itself, as it does when the key is pressed after these words."""
    script = directory / "completion"
    script.write_text(printed("bash"))
    asked = """
        . "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _code_executor
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    ended = subprocess.run(
        ("bash", "--norc", "-uc", asked, "bash", script, "code-executor", *words),
        cwd=directory,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return set(ended.stdout.split())


def test_bash_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    commands = completed_by_bash(tmp_path, "")
    assert {"run", "why", "keys", "doctor", "completion", "--help"} <= commands
    assert completed_by_bash(tmp_path, "ex") == {"executions"}
    assert {"--language", "--timeout", "--json"} <= completed_by_bash(tmp_path, "run", "--")
    assert completed_by_bash(tmp_path, "run", "--language", "") == {"typescript", "python"}
    assert completed_by_bash(tmp_path, "keys", "") == {"ensure", "rotate", "--help"}
    assert completed_by_bash(tmp_path, "keys", "rotate", "--h") == {"--help"}
    assert {"claude", "codex"} <= completed_by_bash(tmp_path, "connect", "c")
    assert completed_by_bash(tmp_path, "completion", "z") == {"zsh"}
    assert completed_by_bash(tmp_path, "watch", "--kind", "ex") == {"execution"}
    assert completed_by_bash(tmp_path, "watch", "--kind", "load,s") == {"load,server"}


def test_bash_completes_files_where_a_file_is_meant(tmp_path: Path) -> None:
    (tmp_path / "report.py").touch()
    assert completed_by_bash(tmp_path, "run", "rep") == {"report.py"}
    assert completed_by_bash(tmp_path, "run", "--images", "rep") == {"report.py"}
    assert completed_by_bash(tmp_path, "executions", "--caller", "rep") == set()


def test_every_command_and_option_is_completed() -> None:
    """Nothing is written by hand, so nothing can be forgotten."""
    scripts = printed("bash"), printed("zsh")
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        for script in scripts:
            assert name in script
            options = [each for parameter in command.params for each in parameter.opts if each.startswith("-")]
            assert [option for option in options if option not in script] == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_loads_the_completion_and_finds_commands_and_values(tmp_path: Path) -> None:
    (tmp_path / "_code-executor").write_text(printed("zsh"))
    asked = tmp_path / "ask.zsh"
    # A terminal of its own, in which the key is pressed; each reading waits for what it is to see.
    asked.write_text(
        """
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z "fpath=($1 \\$fpath); autoload -U compinit; compinit -u -D; unsetopt auto_menu; PS1=ok-"
        zpty -r z seen '*ok-*ok-*'
        zpty -w -n z $'code-executor run --language \t\t'
        zpty -r z seen '*python*typescript*' || zpty -r z seen '*typescript*python*'
        print -r -- $seen
        zpty -w -n z $'\x15code-executor comp\t'
        zpty -r z seen '*completion*'
        print -r -- $seen
        zpty -d z
        """
    )
    ended = subprocess.run(("zsh", "-f", asked, tmp_path), capture_output=True, text=True, timeout=30)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x08", " ", ended.stdout)
    assert {"python", "typescript", "completion"} <= set(shown.split()), ended.stdout + ended.stderr
