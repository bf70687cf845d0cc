"""The files that a sandbox is prepared with, gathered from whoever contributes some."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import monotonic
from typing import Protocol

from orchestrator.domain.access import SKILLS, AccessBook, Role
from orchestrator.domain.execution import Language, Recipe

Files = Mapping[str, str]

NOBODY = Role("(nobody)", frozenset(), denied_tools=(f"{SKILLS}/*",))  # whose sandboxes have no tool and no skill
WANTED_SECONDS = 600.0  # for which such sandboxes are kept warm after somebody has used one


class Contributor(Protocol):
    """Knows one kind of files, such as wrappers."""

    @property
    def version(self) -> object:
        """Another value as soon as the files of any role may differ from before."""

    def files(self, role: Role, language: Language) -> Files:
        """Return texts by their path in the workspace."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The files of every role, as they were at one time."""

    versions: tuple[object, ...] = ()
    provisions: Mapping[tuple[Role, Language], tuple[Recipe, Files]] = field(default_factory=dict)


class Provisions:
    """What was gathered last stays in force until something newer is put in its place."""

    def __init__(self, contributors: Sequence[Contributor]) -> None:
        self._contributors = tuple(contributors)
        self._in_force = Gathered()
        self._bare_wanted_until = 0.0

    def gather(self, roles: Iterable[Role]) -> Gathered:
        """Gather what has changed. It may take seconds, so do it in a thread; contributors must allow for that."""
        versions = tuple(contributor.version for contributor in self._contributors)
        known = self._in_force.provisions if versions == self._in_force.versions else {}
        wanted = [(role, language) for role in {*roles, NOBODY} for language in Language]
        return Gathered(versions, {each: known.get(each) or self._gather_for(*each) for each in wanted})

    def put_in_force(self, gathered: Gathered) -> None:
        self._in_force = gathered

    async def for_role(self, role: Role, language: Language) -> tuple[Recipe, Files]:
        """Return the files of a role's sandboxes, and the recipe that names them by their content."""
        found = self._in_force.provisions.get((role, language))
        if found is None:  # the role is new, and nobody has gathered for it so far
            found = await asyncio.to_thread(self._gather_for, role, language)
            known = {**self._in_force.provisions, (role, language): found}
            self._in_force = replace(self._in_force, provisions=known)
        return found

    async def bare(self, language: Language) -> tuple[Recipe, Files]:
        """Return what every sandbox has: for a program that gets the little that it needs besides."""
        self._bare_wanted_until = monotonic() + WANTED_SECONDS
        return await self.for_role(NOBODY, language)

    def recipes(self, book: AccessBook) -> dict[Recipe, Files]:
        """Return everything that a warm sandbox could be wanted for."""
        roles = {*book.roles.values(), *((NOBODY,) if monotonic() < self._bare_wanted_until else ())}
        return dict(found for (role, _), found in self._in_force.provisions.items() if role in roles)

    def _gather_for(self, role: Role, language: Language) -> tuple[Recipe, Files]:
        files: dict[str, str] = {}
        for contributor in self._contributors:
            given = contributor.files(role, language)
            if twice := files.keys() & given.keys():
                raise ValueError(f"two contributors give {min(twice)}")
            files.update(given)
        return prepared_recipe(language, files), files


def prepared_recipe(language: Language, files: Files) -> Recipe:
    """Name what a sandbox is prepared with by its content."""
    return Recipe(language, _digest(files))


def _digest(files: Files) -> str:
    digest = sha256()
    for path in sorted(files):
        for part in (path, files[path]):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8) + encoded)
    return digest.hexdigest()
