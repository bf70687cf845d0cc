"""Runs modules of the console that talk to the daemon, in Node.js with as much of a browser as they need."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.unit.client_library.workspace import node
from tests.unit.console.javascript import STATIC

PAGE = Path(__file__).with_name("page.mjs")


def on_a_page(module: str, body: str, **names: Any) -> Any:
    """Run the body of an async function that sees the module, the page of page.mjs, `load` and the names."""
    question = json.dumps({"folder": str(STATIC), "module": module, "expression": body, "names": names})
    command = [node(), "--no-warnings", str(PAGE)]
    completed = subprocess.run(command, input=question, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)
