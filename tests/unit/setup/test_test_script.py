"""What the scripts that run tests tell of those that fail."""

from __future__ import annotations

import shutil

import pytest

from tests.unit.setup.machine import PROJECT, Tree


@pytest.fixture
def machine(tree: Tree) -> Tree:
    """With a pytest that ends as PYTEST_ENDS says, and everything that tests need."""
    for name in ("clients.sh", "browser.sh", "stack.sh"):
        (tree.path / "scripts" / name).write_text("#!/bin/sh\n")
        (tree.path / "scripts" / name).chmod(0o755)
    shutil.copy(PROJECT / "scripts" / "test.sh", tree.path / "scripts" / "test.sh")
    pytest_ = tree.path / ".venv" / "bin" / "pytest"
    pytest_.write_text(f'#!/bin/sh\necho "pytest $*" >>"{tree.path}/calls"\nexit "$PYTEST_ENDS"\n')
    pytest_.chmod(0o755)
    return tree


@pytest.mark.parametrize("which", ["unit", "clients", "servers", "console", "screenshots"])
@pytest.mark.parametrize("ends", [0, 1])
def test_a_run_of_tests_ends_as_they_do_and_runs_no_others(machine: Tree, which: str, ends: int) -> None:
    ended = machine.run("scripts/test.sh", which, PYTEST_ENDS=str(ends), TEST_SERVERS="minio")
    assert (ended.returncode, ended.stderr) == (ends, "")
    assert len([call for call in machine.calls() if call.startswith("pytest ")]) == 1
