"""Who may use what: the rules of the role file, and the callers' keys."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from orchestrator.adapters.access_files import RoleBook, RolesFileInvalid, read_role_book
from orchestrator.commands import keys
from orchestrator.commands.held import NotTold, ask
from orchestrator.commands.terminal import (
    EXIT_BAD_CONFIGURATION,
    EXIT_BAD_USE,
    err,
    fail,
    find_key_files,
    load_settings,
    out,
    plain,
)
from orchestrator.domain.access import Decision


def why(role: str, tool: Annotated[str, typer.Argument(help="SERVER/TOOL")]) -> None:
    """Say which rule allows or denies a tool to a role: in the running daemon, or else in the role file."""
    settings = load_settings()
    server, slash, name = tool.partition("/")
    if not slash:
        fail(f"TOOL must be SERVER/TOOL, not {tool!r}.", EXIT_BAD_USE)
    try:
        held = asyncio.run(ask(settings))
        book, difference = held.roles, held.other_roles(settings.roles_file)
    except NotTold as not_told:
        err.print(plain(f"code-executor: from {settings.roles_file}, for {not_told}"))
        try:
            book, difference = read_role_book(settings.roles_file), None
        except RolesFileInvalid as error:
            fail(str(error), EXIT_BAD_CONFIGURATION)
    if difference is not None:
        err.print(plain(f"code-executor: the daemon holds other roles than {settings.roles_file}: {difference}"))
    decision = _decision(book, role, server, name)
    out.print(plain(f"{'allowed' if decision.allowed else 'denied'}: {decision.rule}"))
    raise typer.Exit(0 if decision.allowed else 1)


def _decision(book: RoleBook, role: str, server: str, name: str) -> Decision:
    if role not in book.roles:
        fail(f"ROLE must be one of {', '.join(sorted(book.roles))}.", EXIT_BAD_USE)
    return book.roles[role].decide(server, name)


def ensure() -> None:
    """Make the key files that are missing and mend hashes that do not match."""
    for made in keys.ensure(find_key_files(load_settings())):
        err.print(plain(f"made {made.path.name} for role {made.role}"))


def rotate(role: Annotated[str, typer.Argument(help="The role whose keys are replaced.")]) -> None:
    """Replace a role's keys; the daemon takes the new ones within a second and refuses the old."""
    try:
        rotated = keys.rotate(find_key_files(load_settings()), role)
    except keys.UnknownRole as error:
        fail(str(error), EXIT_BAD_USE)
    for file in rotated:
        out.print(plain(f"rotated {file.path}"))
