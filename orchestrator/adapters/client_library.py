"""The library that generated wrappers use, as files of every sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.domain.access import Role
from orchestrator.domain.execution import Language


class ClientLibrary:
    version = None  # it changes with the daemon only

    def __init__(self, directory: Path) -> None:
        self._files = {
            language: {
                f"servers/{file.name}": file.read_text()
                for file in sorted((directory / language).iterdir())
                if file.is_file()
            }
            for language in Language
        }

    def files(self, role: Role, language: Language) -> Mapping[str, str]:
        return self.of(language)

    def of(self, language: Language) -> Mapping[str, str]:
        return self._files[language]
