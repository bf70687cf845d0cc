"""The files that a sandbox is prepared with, gathered from whoever contributes some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from orchestrator.domain.access import AccessBook, Role
from orchestrator.domain.execution import Language, Recipe

Files = Mapping[str, str]


class Contributor(Protocol):
    """Knows one kind of files, such as wrappers."""

    @property
    def version(self) -> object:
        """Another value as soon as the files of any role may differ from before."""

    def files(self, role: Role, language: Language) -> Files:
        """Return texts by their path in the workspace."""


class Provisions:
    """Gathers anew only when a contributor or the role has changed."""

    def __init__(self, contributors: Sequence[Contributor]) -> None:
        self._contributors = tuple(contributors)
        self._gathered: dict[tuple[Role, Language], tuple[Recipe, Files]] = {}
        self._gathered_for: tuple[object, ...] = ()

    def for_role(self, role: Role, language: Language) -> tuple[Recipe, Files]:
        """Return the files of a role's sandboxes, and the recipe that names them by their content."""
        versions = tuple(contributor.version for contributor in self._contributors)
        if versions != self._gathered_for:
            self._gathered, self._gathered_for = {}, versions
        if (role, language) not in self._gathered:
            files: dict[str, str] = {}
            for contributor in self._contributors:
                given = contributor.files(role, language)
                if twice := files.keys() & given.keys():
                    raise ValueError(f"two contributors give {min(twice)}")
                files.update(given)
            self._gathered[role, language] = Recipe(language, _digest(files)), files
        return self._gathered[role, language]

    def recipes(self, book: AccessBook) -> dict[Recipe, Files]:
        """Return everything that a warm sandbox could be wanted for."""
        return dict(self.for_role(role, language) for role in book.roles.values() for language in Language)


def _digest(files: Files) -> str:
    digest = sha256()
    for path in sorted(files):
        for part in (path, files[path]):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8) + encoded)
    return digest.hexdigest()
