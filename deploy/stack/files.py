from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str, mode: int) -> bool:
    """Write a file that appears complete and with its mode, and return whether it was new or another."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.chmod(mode)
    new.replace(path)
    return True
