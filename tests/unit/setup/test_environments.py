"""The virtual environments: .venv, and those of packages that only tests need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.setup.machine import Tree

# Makes an environment whose commands name the place where it was made, as the real one does.
PYTHON = """
case "$*" in
"-m venv "*)
    place=${!#}
    mkdir -p "$place/bin"
    cp "$0" "$place/bin/python"
    echo "#!$place/bin/python3" >"$place/bin/pip"
    ;;
esac"""


@pytest.fixture
def machine(tree: Tree) -> Tree:
    tree.command("python3", PYTHON)
    (tree.path / ".venv" / "bin" / "python").unlink()
    (tree.path / "pyproject.toml").touch()
    (tree.path / "orchestrator").mkdir()
    (tree.path / "orchestrator" / "constraints.txt").touch()
    return tree


def as_if_moved_here(environment: Path) -> None:
    """From a place whose path ends like the new one; what is stamped with its path has another stamp."""
    pip = environment / "bin" / "pip"
    pip.write_text(pip.read_text().replace("#!", "#!/mnt"))
    (environment / ".inputs").unlink(missing_ok=True)


def made(tree: Tree) -> list[str]:
    return [call.split()[-1] for call in tree.calls() if call.startswith("python3 -m venv")]


def installed(tree: Tree) -> list[str]:
    return [call.split()[-1] for call in tree.calls() if "-m pip install" in call]


def test_a_package_for_the_tests_is_installed_once_into_an_environment_of_its_own(machine: Tree) -> None:
    for _ in range(2):
        assert machine.run("scripts/synapse.sh").returncode == 0
    assert made(machine) == [str(machine.path / ".build" / "synapse")]
    assert installed(machine) == ["matrix-synapse>=1.163,<1.164"]


def test_a_package_that_cannot_be_installed_is_tried_again(machine: Tree) -> None:
    machine.command("python3", f'{PYTHON}\ncase "$*" in *"pip install"*) echo "no such host" >&2; exit 1 ;; esac')
    ended = machine.run("scripts/synapse.sh")
    assert ended.returncode == 1
    assert "no such host" in ended.stderr
    assert "Make 'pip download matrix-synapse' work" in ended.stderr
    machine.command("python3", PYTHON)
    assert machine.run("scripts/synapse.sh").returncode == 0
    assert len(made(machine)) == 2


def test_a_package_for_the_tests_is_installed_anew_in_a_tree_that_was_moved(machine: Tree) -> None:
    assert machine.run("scripts/synapse.sh").returncode == 0
    as_if_moved_here(machine.path / ".build" / "synapse")
    assert machine.run("scripts/synapse.sh").returncode == 0
    assert len(made(machine)) == 2


def test_the_project_is_installed_again_only_when_its_requirements_change(machine: Tree) -> None:
    for requirements in ("", "", "changed"):
        (machine.path / "pyproject.toml").write_text(requirements)
        assert machine.run("scripts/venv.sh").returncode == 0
    assert made(machine) == [str(machine.path / ".venv")]
    assert len(installed(machine)) == 2


def test_a_tree_that_was_moved_gets_a_new_environment(machine: Tree) -> None:
    assert machine.run("scripts/venv.sh").returncode == 0
    as_if_moved_here(machine.path / ".venv")
    (machine.path / ".venv" / "bin" / "tool").touch()
    assert machine.run("scripts/venv.sh").returncode == 0
    assert len(made(machine)) == 2
    assert not (machine.path / ".venv" / "bin" / "tool").exists()


@pytest.mark.parametrize("second_line", ["'''exec' {}/bin/python", "'''exec' \"{}/bin/python\""])
def test_an_environment_at_a_long_path_or_one_with_spaces_is_kept(machine: Tree, second_line: str) -> None:
    assert machine.run("scripts/venv.sh").returncode == 0
    environment = machine.path / ".venv"
    (environment / "bin" / "pip").write_text(f"#!/bin/sh\n{second_line.format(environment)}\n")
    (environment / ".inputs").unlink()
    assert machine.run("scripts/venv.sh").returncode == 0
    assert len(made(machine)) == 1


def test_the_environment_of_another_tree_is_not_emptied_through_a_link(machine: Tree) -> None:
    assert machine.run("scripts/venv.sh").returncode == 0
    of_another = machine.path / "of-another"
    (machine.path / ".venv").rename(of_another)
    as_if_moved_here(of_another)
    os.symlink(of_another, machine.path / ".venv")
    assert machine.run("scripts/venv.sh").returncode == 0
    assert not (machine.path / ".venv").is_symlink()
    assert (of_another / "bin" / "pip").exists()
