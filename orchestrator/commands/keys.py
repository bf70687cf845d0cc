"""The key files on the operator's side, and the hashes beside them, which are all that the daemon sees."""

from __future__ import annotations

import grp
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.access_files import HASH_SUFFIX, read_roles
from orchestrator.domain.access import hash_key

KEY_BYTES = 32
KEY_MODE = 0o640
HASH_MODE = 0o644
HASH_DIR_MODE = 0o755
GROUP_OF_ROLE = {"admin": "administrators", "developer": "developers"}


class UnknownRole(Exception):
    """The message says which roles there are."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    role: str
    name: str
    path: Path
    hash_path: Path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def mode(self) -> int:
        return self.path.stat().st_mode & 0o777

    @property
    def hash_matches(self) -> bool:
        return self.hash_path.exists() and self.hash_path.read_text().strip() == hash_key(self.read())

    def read(self) -> str:
        return self.path.read_text().strip()

    def make(self) -> None:
        write_atomically(self.path, secrets.token_hex(KEY_BYTES) + "\n", KEY_MODE)
        with suppress(KeyError, PermissionError):  # no such group, or not root: the owner still reads it
            os.chown(self.path, -1, grp.getgrnam(GROUP_OF_ROLE[self.role]).gr_gid)
        self.write_hash()

    def write_hash(self) -> None:
        self.hash_path.parent.mkdir(parents=True, exist_ok=True)
        self.hash_path.parent.chmod(HASH_DIR_MODE)  # the daemon reads it as another user, whatever the umask says
        write_atomically(self.hash_path, hash_key(self.read()) + "\n", HASH_MODE)


def key_files(roles_file: Path, secrets_dir: Path) -> list[KeyFile]:
    return [
        KeyFile(role, name, secrets_dir / f"{name}.key", secrets_dir / "hashes" / f"{name}{HASH_SUFFIX}")
        for role, entry in read_roles(roles_file).roles.items()
        for name in entry.keys
    ]


def ensure(files: list[KeyFile]) -> list[KeyFile]:
    """Make what is missing and mend hashes that do not match; a key that exists is never replaced."""
    made = [file for file in files if not file.exists]
    for file in made:
        file.make()
    for file in files:
        if not file.hash_matches:
            file.write_hash()
    return made


def rotate(files: list[KeyFile], role: str) -> list[KeyFile]:
    chosen = [file for file in files if file.role == role]
    if not chosen:
        known = ", ".join(sorted({file.role for file in files}))
        raise UnknownRole(f"No role '{role}' has keys in the role file. Name one of {known}.")
    for file in chosen:
        file.make()
    return chosen


def write_atomically(path: Path, text: str, mode: int) -> None:
    """Replace a file in one step, with the mode from the start: nobody reads half of it, or too early."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, mode)  # whatever the umask says
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)
