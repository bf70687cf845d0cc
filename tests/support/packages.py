"""The packages that the runner image promises to programs, and the versions that its locks pin."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.installation import PROJECT

LOCKS = PROJECT / "runner-image" / "packages"
PROGRAMS, CHECKERS = LOCKS / "programs", LOCKS / "checkers"
CONSOLE = PROJECT / "orchestrator" / "faces" / "console" / "packages"


def wanted_wheels(directory: Path) -> list[str]:
    return re.findall(r"^[\w.-]+", (directory / "requirements.in").read_text(), flags=re.MULTILINE)


def wanted_modules(directory: Path) -> list[str]:
    return list(json.loads((directory / "package.json").read_text())["dependencies"])


def pinned_wheels(directory: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (directory / "requirements.txt").read_text(), flags=re.MULTILINE))


def pinned_modules(directory: Path) -> dict[str, str]:
    locked = json.loads((directory / "package-lock.json").read_text())["packages"]
    return {path.removeprefix("node_modules/"): entry["version"] for path, entry in locked.items() if path}


def is_of_types(name: str) -> bool:
    """Such a package is for the checker; no program can import it."""
    return name.startswith("@types/")


PROMISED = {
    "python": wanted_wheels(PROGRAMS),
    "typescript": [name for name in wanted_modules(PROGRAMS) if not is_of_types(name)],
}
