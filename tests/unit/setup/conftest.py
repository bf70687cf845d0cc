from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.unit.setup.machine import PROJECT, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name in ("deploy", "scripts"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    shutil.copy(PROJECT / "roles.json", tmp_path / "roles.json")
    tmp_path.chmod(0o755)  # as a clone has it; pytest's own are for nobody else
    made = Tree(tmp_path)
    made.commands.mkdir()
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    os.symlink(sys.executable, tools / "python")
    (tools / "code-executor").write_text("#!/bin/sh\nmkdir -p secrets/hashes\n")
    (tools / "code-executor").chmod(0o755)
    return made
