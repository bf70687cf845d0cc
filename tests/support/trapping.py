"""The product's own filter, but for what it does to a refused call: it kills, which nothing else does.

The product answers EPERM, and so does the kernel to whoever lacks a right. Here the two can be told apart.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.installation import PROJECT, Installation


def trapping_installation(directory: Path, **overrides: Any) -> Installation:
    profile = json.loads((PROJECT / "runner-image" / "seccomp.json").read_text())
    del profile["defaultErrnoRet"]
    file = directory / "trapping.json"
    file.write_text(json.dumps(profile | {"defaultAction": "SCMP_ACT_TRAP"}))
    return Installation.create(directory, seccomp_file=file, warm_floor=0, warm_ceiling=0, **overrides)
