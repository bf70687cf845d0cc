"""The daemon of an installation as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.testbed.installation import PROJECT, Installation
from orchestrator.settings import PREFIX


def serve(installation: Installation, log: Path) -> subprocess.Popen[bytes]:
    """Start it in a session of its own: Ctrl-C ends whoever started it, who then stops it in good order."""
    command = [sys.executable, "-m", "orchestrator", "serve"]
    environment = _environment(installation)
    with log.open("wb") as stderr:
        return subprocess.Popen(command, env=environment, stderr=stderr, cwd=PROJECT, start_new_session=True)


def _environment(installation: Installation) -> dict[str, str]:
    """The installation's settings and none of the developer's own."""
    settings = installation.settings
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    chosen = {f"{PREFIX}{name.upper()}": str(getattr(settings, name)) for name in settings.model_fields_set}
    return {**inherited, **chosen, f"{PREFIX}LOG_FORMAT": "json"}


def listening_port(log: Path) -> int | None:
    lines = log.read_text().splitlines() if log.exists() else []
    return next((int(json.loads(line)["port"]) for line in lines if '"daemon.listening"' in line), None)
