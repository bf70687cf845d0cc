from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runner.supervised import RUNNER, Supervised

Start = Callable[..., Supervised]

# The supervisor's modules are not installed anywhere: in the image they lie beside supervisor.py.
sys.path.insert(0, str(RUNNER))


@cache
def node() -> str | None:
    candidates = (
        os.environ.get("CODE_EXECUTOR_TEST_NODE"),
        str(RUNNER.parents[1] / ".build" / "node" / "bin" / "node"),
        shutil.which("node"),
    )
    return next((path for path in candidates if path and _is_recent_enough(path)), None)


def _is_recent_enough(path: str) -> bool:
    if not Path(path).exists():
        return False
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.removeprefix("v").split(".")[0]) >= 24


@pytest.fixture(scope="session")
def node_path() -> str:
    path = node()
    if path is None:
        pytest.skip("no Node.js 24: set CODE_EXECUTOR_TEST_NODE to its binary")
    return path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts supervisors that do not outlive the test."""
    with ExitStack() as stack:

        def start(language: str, interpreter: str, **options: Any) -> Supervised:
            return stack.enter_context(Supervised(language, tmp_path, interpreter, **options))

        yield start


@pytest.fixture
def python(start: Start) -> Supervised:
    return start("python", sys.executable)


@pytest.fixture
def typescript(start: Start, node_path: str) -> Supervised:
    return start("typescript", node_path)
