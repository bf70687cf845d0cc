"""The clients of others that tests start, each in an environment of its own."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.unit.setup.machine import PROJECT, Tree

LOCKS = "tests/clients/environments"

NPM = """
case "$PWD" in */broken) exit 1 ;; esac
mkdir -p node_modules/.bin"""


@pytest.fixture
def machine(tree: Tree) -> Tree:
    """With two clients of each kind; Node.js is there already."""
    for name, lock in {"alpha": "package-lock.json", "beta": "requirements.txt"}.items():
        (tree.path / LOCKS / name).mkdir(parents=True)
        (tree.path / LOCKS / name / lock).write_text("")
    (tree.path / LOCKS / "alpha" / "package.json").write_text("{}")
    shutil.copy(PROJECT / "scripts" / "clients.sh", tree.path / "scripts" / "clients.sh")
    (tree.path / "scripts" / "node.sh").write_text("#!/bin/sh\n")
    python = tree.path / ".venv" / "bin" / "python"
    python.unlink()
    python.write_text(f'#!/bin/sh\necho "python $*" >>"{tree.path}/calls"\n')
    python.chmod(0o755)
    tree.command("npm", NPM)
    return tree


def fetched(tree: Tree) -> list[str]:
    return sorted(call.split()[0] for call in tree.calls() if call.startswith(("npm install", "python -m pip")))


def test_each_client_is_installed_once(machine: Tree) -> None:
    for _ in range(2):
        assert machine.run("scripts/clients.sh").returncode == 0
    assert fetched(machine) == ["npm", "python"]
    assert (machine.path / ".build/clients/alpha/node_modules").is_dir()


def test_only_those_that_are_named_are_installed(machine: Tree) -> None:
    assert machine.run("scripts/clients.sh", "alpha").returncode == 0
    assert fetched(machine) == ["npm"]


def test_a_client_whose_lock_changed_is_installed_again_and_no_other(machine: Tree) -> None:
    machine.run("scripts/clients.sh")
    (machine.path / LOCKS / "beta" / "requirements.txt").write_text("beta==2\n")
    assert machine.run("scripts/clients.sh").returncode == 0
    assert fetched(machine) == ["npm", "python", "python"]


def test_a_client_that_cannot_be_installed_is_tried_again(machine: Tree) -> None:
    shutil.copytree(machine.path / LOCKS / "alpha", machine.path / LOCKS / "broken")
    for _ in range(2):
        ended = machine.run("scripts/clients.sh")
        assert ended.returncode == 1
        assert "installing MCP clients: " in ended.stdout
    assert fetched(machine) == ["npm", "npm", "npm", "python"]


def test_an_unknown_client_is_refused(machine: Tree) -> None:
    ended = machine.run("scripts/clients.sh", "gamma")
    assert ended.returncode == 1
    assert "There is no client 'gamma'" in ended.stderr


def test_clients_are_pinned_with_their_digests_and_without_addresses() -> None:
    locks = sorted((PROJECT / LOCKS).glob("*/package-lock.json"))
    assert len(locks) == 6
    for lock in locks:
        packages = json.loads(lock.read_text())["packages"]
        fetched_ones = [entry for path, entry in packages.items() if path and not entry.get("inBundle")]
        assert all("integrity" in entry and "resolved" not in entry for entry in fetched_ones), lock
