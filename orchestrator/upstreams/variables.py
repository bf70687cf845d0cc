"""What ${NAME} stands for in the files of servers: a variable of the environment, or a secret in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Variables(Mapping[str, str]):
    """The environment goes first. Files are read whenever they are asked for, so that a new token needs no restart."""

    def __init__(self, environment: Mapping[str, str], secrets: Path) -> None:
        self._environment = environment
        self._secrets = secrets

    def __getitem__(self, name: str) -> str:
        if name in self._environment:
            return self._environment[name]
        if not _NAME.fullmatch(name):
            raise KeyError(name)
        try:
            return (self._secrets / name).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError):
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._environment, *self._names_of_files()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _names_of_files(self) -> list[str]:
        try:
            return sorted(file.name for file in self._secrets.iterdir() if _NAME.fullmatch(file.name))
        except OSError:
            return []
