"""The virtual environments: .venv, and those of packages that only tests need."""

from __future__ import annotations

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
    return tree


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
