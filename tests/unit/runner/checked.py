"""Lets the runner's check look at programs, beside the wrappers of a few servers, outside of any sandbox."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.domain.tools import Tool
from orchestrator.wrappers.shapes import Shape, observe
from tests.unit.client_library.workspace import ROOT, Workspace, node
from tests.unit.runner.supervised import RUNNER

CHECKERS = ROOT / ".build" / "checkers" / "bin"
PROGRAMS = Path(__file__).parent / "programs"
SUFFIXES = {"typescript": "ts", "python": "py"}
OBSERVED = {"observed_one": {"a": 1, "b": {"c": "x"}}, "observed_list": [{"id": 1, "name": "x"}]}


@dataclass(frozen=True, slots=True)
class Told:
    line: int
    column: int
    message: str

    @property
    def without_usage(self) -> str:
        return self.message.partition(" Usage: ")[0]


@dataclass(frozen=True, slots=True)
class Written:
    """A program with what must be told of it."""

    name: str
    code: str
    mistakes: tuple[Told, ...] = ()


@dataclass(frozen=True)
class Checked:
    workspace: Path

    def check(self, code: str | bytes, language: str) -> list[Told]:
        path = self.workspace / f"main.{SUFFIXES[language]}"
        path.write_bytes(code if isinstance(code, bytes) else code.encode())
        command = [sys.executable, "-I", "-S", "-B", str(RUNNER / "checker.py"), language, str(self.workspace)]
        ended = subprocess.run(command, env=environment(), capture_output=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        return [Told(**mistake) for mistake in json.loads(ended.stdout)["mistakes"]]

    def typescript(self, code: str | bytes) -> list[Told]:
        return self.check(code, "typescript")

    def python(self, code: str | bytes) -> list[Told]:
        return self.check(code, "python")


def environment() -> dict[str, str]:
    """Name the checkers that the image gets; without them there is nothing to test."""
    found = {
        "CODE_EXECUTOR_TY": os.environ.get("CODE_EXECUTOR_TY") or str(CHECKERS / "ty"),
        "CODE_EXECUTOR_TSC": os.environ.get("CODE_EXECUTOR_TSC") or str(CHECKERS / "typescript" / "tsc"),
    }
    if missing := [path for path in found.values() if not Path(path).exists()]:
        pytest.skip(f"{missing[0]} is not there: 'make image' fetches it")
    return {
        **found,
        "CODE_EXECUTOR_NODE": node(),
        "CODE_EXECUTOR_PACKAGES": os.environ.get("CODE_EXECUTOR_PACKAGES", ""),
    }


def make_workspace(path: Path, tools: Iterable[Tool], observed: dict[str, Shape] | None = None) -> Checked:
    Workspace(path).add_tools(*tools, observed=observed)
    return Checked(path)


def sample_tools() -> list[Tool]:
    servers: dict[str, list[dict[str, Any]]] = json.loads((PROGRAMS / "servers.json").read_text())
    return [
        Tool(server, tool["name"], "A tool.", tool["inputSchema"], tool.get("outputSchema"))
        for server, tools in servers.items()
        for tool in tools
    ]


def sample_shapes(tools: Iterable[Tool]) -> dict[str, Shape]:
    seen = {tool.path: observe({"content": [text(OBSERVED[tool.name])]}) for tool in tools if tool.name in OBSERVED}
    return {path: shape for path, shape in seen.items() if shape is not None}


def text(value: object) -> dict[str, str]:
    return {"type": "text", "text": json.dumps(value)}


def written(file_name: str) -> Iterator[Written]:
    """Read programs: each begins with `### NAME`, then `#= LINE:COLUMN MESSAGE` for each mistake."""
    parts = re.split(r"^### (.*)\n", (PROGRAMS / file_name).read_text(), flags=re.MULTILINE)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):
        mistakes = re.findall(r"^#= (\d+):(\d+) (.*)\n", part, flags=re.MULTILINE)
        code = re.sub(r"^#= .*\n", "", part, flags=re.MULTILINE)
        yield Written(name, code, tuple(Told(int(line), int(column), said) for line, column, said in mistakes))
