"""Where the benchmark finds things."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build"
RESULTS = ROOT / "bench" / "results"
QUICK_RESULTS = BUILD / "bench"
SPEED_PAGE = ROOT / "docs" / "speed.md"
SECCOMP = ROOT / "runner-image" / "seccomp.json"
RUNNER_IMAGE = os.environ.get("CODE_EXECUTOR_RUNNER_IMAGE") or "mcp-code-executor/runner:latest"
MEMORY_SERVER = BUILD / "mcp-servers/node_modules/@modelcontextprotocol/server-memory/dist/index.js"


def _first(*candidates: str | Path | None) -> Path:
    return next(Path(candidate) for candidate in candidates if candidate and Path(candidate).exists())


# The same versions as in the runner image, where the machine has them: the interpreter must not make the difference.
NODE = _first(BUILD / "node" / "bin" / "node", shutil.which("node"), "/")
PYTHON = _first("/usr/bin/python3", shutil.which("python3"))
