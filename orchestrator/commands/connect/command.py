"""The command itself."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.connect.entries import Client, Connection, NoWrapper, asks_for_key
from orchestrator.commands.connect.files import CannotMerge, Configuration, configuration
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_CANNOT_CALL,
    EXIT_CANNOT_WRITE,
    err,
    fail,
    find_key,
    load_settings,
    plain,
)
from orchestrator.settings import PREFIX, PROJECT, Settings

OF_THE_WRAPPER = ("ROLE", "ADMIN_GROUP", "DEVELOPER_GROUP", "CONTAINER")


def connect(
    client: Annotated[Client, typer.Argument(help="The MCP client to configure.")],
    write: Annotated[bool, typer.Option("--write", help="Merge it into the client's file, and try it.")] = False,
    over_stdio: Annotated[
        bool | None,
        typer.Option(
            "--stdio/--http", help="Through scripts/mcp-wrapper.sh, or over HTTP. By default what needs no key."
        ),
    ] = None,
    role: Annotated[str | None, typer.Option(help="Use this role's key instead of your group's.")] = None,
    inline_key: Annotated[bool, typer.Option("--inline-key", help="Write the key itself into the file.")] = False,
    test: Annotated[bool, typer.Option("--test/--no-test", help="Try the connection that was written.")] = True,
    directory: Annotated[Path, typer.Option(help="The project whose file is meant; not for codex.")] = Path(),
) -> None:
    """Show the configuration that connects an MCP client, or write it and try it."""
    settings = load_settings()
    if inline_key and (over_stdio or role):
        fail("--inline-key is for HTTP and writes the key that it finds: leave out --stdio and --role.", EXIT_BAD_USE)
    wrapper = PROJECT / "scripts" / "mcp-wrapper.sh"
    needs_stdio = wrapper.exists() and not inline_key and not client.asks_a_command_for_headers
    connection = Connection(
        url=settings.url,
        wrapper=wrapper if wrapper.exists() else None,
        inline_key=find_key(settings) if inline_key else None,
        over_stdio=needs_stdio if over_stdio is None else over_stdio,
        variables=variables_for_wrapper(settings, role),
    )
    try:
        found = configuration(client, connection, directory.resolve(), Path.home())
        if not write:
            typer.echo(found.text, nl=False)
            err.print(plain(found.advice))
            return
        done = f"{'wrote' if found.write(connection) else 'unchanged:'} {found.path}"
    except (CannotMerge, NoWrapper, OSError) as error:
        fail(str(error), EXIT_CANNOT_WRITE)
    err.print(plain(f"{done}; connected: {_try(found, settings, done)}" if test else done))
    if asks_for_key(client, connection):
        err.print(plain(f"{client.product} will ask for the key once: paste the content of your key file."))
    if test and os.geteuid() == 0 and (user := os.environ.get("SUDO_USER")):
        err.print(plain(f"It was tried as root. Run this without sudo to see whether it works for {user}."))


def variables_for_wrapper(settings: Settings, role: str | None) -> dict[str, str]:
    """Return what the wrapper must be told, so that it finds the same key when a client starts it."""
    chosen = {PREFIX + name: value for name in OF_THE_WRAPPER if (value := os.environ.get(PREFIX + name))}
    if role is not None:
        chosen[f"{PREFIX}ROLE"] = role
    if settings.secrets_dir != PROJECT / "secrets":
        chosen[f"{PREFIX}SECRETS_DIR"] = str(settings.secrets_dir.absolute())
    return chosen


def _try(found: Configuration, settings: Settings, done: str) -> str:
    """Return what the client will see, or end the command with why it will see nothing."""
    from orchestrator.commands.connect.trial import NotConnected, Surroundings, try_entry

    surroundings = Surroundings(os.environ, lambda: find_key(settings))
    try:
        return str(asyncio.run(try_entry(found.client, found.entry(), surroundings)))
    except NotConnected as error:
        fail(f"{done}, but the connection fails: {error}", EXIT_CANNOT_CALL)
