"""A directory with wrappers and the client library, as a sandbox has it, and the means to run and check programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool
from orchestrator.wrappers import Shape, Wrappers, generate

ROOT = Path(__file__).parents[3]
CLIENT_LIBRARY = ROOT / "runner-image" / "client-library"
HOOKS = ROOT / "runner-image" / "runner" / "typescript" / "hooks.mjs"
SHARED_DATA = ROOT.parent / "shared" / "data"


def node() -> str:
    candidates = [os.environ.get("CODE_EXECUTOR_TEST_NODE"), str(ROOT / ".build" / "node" / "bin" / "node")]
    found = next((path for path in candidates if path and Path(path).exists()), None)
    if found is None:
        pytest.skip("Node.js 24 is not there: set CODE_EXECUTOR_TEST_NODE, or 'make up' fetches it")
    return found


def tsc() -> Path:
    path = Path(os.environ.get("CODE_EXECUTOR_TEST_TSC") or ROOT / ".build" / "tsc" / "node_modules" / ".bin" / "tsc")
    if not path.exists():
        pytest.skip("tsc is not there: 'npm install --prefix .build/tsc typescript @types/node@24' fetches it")
    return path.absolute()


@dataclass(frozen=True)
class Workspace:
    path: Path

    def add(self, wrappers: Wrappers) -> None:
        for language in Language:
            shutil.copytree(
                CLIENT_LIBRARY / language,
                self.path / "servers",
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        for path, source in wrappers.files.items():
            target = self.path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source, encoding="utf-8")

    def add_tools(self, *tools: Tool, observed: Mapping[str, Shape] | None = None) -> None:
        self.add(generate(tools, observed))

    def run_typescript(self, program: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        (self.path / "main.ts").write_text(program)
        options = ["--disable-warning=ExperimentalWarning", f"--import={HOOKS}"]
        return self._run([node(), *options, "main.ts"], environment)

    def run_python(self, program: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        (self.path / "main.py").write_text(program)
        return self._run([sys.executable, "-W", "error", "main.py"], environment)

    def _run(self, command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.path, env=dict(environment), capture_output=True, text=True, timeout=60, check=False
        )

    def check_typescript(self) -> str:
        compiler = tsc()
        options = {
            "strict": True,
            "noEmit": True,
            "module": "esnext",
            "moduleResolution": "bundler",
            "target": "es2023",
            "lib": ["es2023"],
            "types": ["node"],
            "typeRoots": [str(compiler.parents[1] / "@types")],
            "verbatimModuleSyntax": True,
            "erasableSyntaxOnly": True,
            "noUncheckedIndexedAccess": True,
            "noUnusedLocals": True,
        }
        configuration = {"compilerOptions": options, "include": ["**/*.ts"]}
        (self.path / "tsconfig.json").write_text(json.dumps(configuration))
        return self._run([str(compiler), "-p", "."], os.environ).stdout

    def check_python(self) -> str:
        # The standard library's types are the same every time.
        options = ["--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'wrappers'}"]
        command = [sys.executable, "-m", "mypy", *options, "-p", "servers"]
        completed = self._run(command, os.environ)
        return "" if completed.returncode == 0 else completed.stdout + completed.stderr


def recorded_tools(file_name: str) -> list[Tool]:
    path = SHARED_DATA / file_name
    if not path.exists():
        pytest.skip(f"the shared data is not there: {file_name}")
    recorded: dict[str, Any] = json.loads(path.read_text())
    return [_tool(server, tool) for server, entry in recorded.items() for tool in _listed(entry)]


def _listed(entry: Any) -> Iterable[Mapping[str, Any]]:
    return entry["tools"] if isinstance(entry, dict) else entry


def _tool(server: str, tool: Mapping[str, Any]) -> Tool:
    return Tool(
        server=server,
        name=tool["name"],
        description=tool.get("description") or "",
        input_schema=tool["inputSchema"],
        output_schema=tool.get("outputSchema"),
        annotations=tool.get("annotations") or {},
        title=tool.get("title"),
    )
