"""Runs the console's pure modules in Node.js and returns what they answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.unit.client_library.workspace import node

STATIC = Path(__file__).parents[3] / "orchestrator" / "faces" / "console" / "static"

_PROGRAM = """
import {readFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';
const {path, expression, names} = JSON.parse(readFileSync(0, 'utf-8'));
const module = await import(pathToFileURL(path));
const ask = new Function('module', ...Object.keys(names), `return (${expression})`);
console.log(JSON.stringify(await ask(module, ...Object.values(names)) ?? null));
"""


def ask(module: str, expression: str, **names: Any) -> Any:
    """Evaluate an expression that sees a module as `module`, and the names as values."""
    question = json.dumps({"path": str(STATIC / module), "expression": expression, "names": names})
    command = [node(), "--no-warnings", "--input-type=module", "--eval", _PROGRAM]
    completed = subprocess.run(command, input=question, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)
