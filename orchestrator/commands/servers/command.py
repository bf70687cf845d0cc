"""The commands themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.table import Table

from orchestrator.commands.servers.adding import Yard
from orchestrator.commands.servers.entries import (
    NAME,
    BadEntry,
    Network,
    Options,
    ServersDirectory,
    check_name,
    why_taken,
)
from orchestrator.commands.servers.host import Host, HostFailed
from orchestrator.commands.servers.packages import NotRunnable
from orchestrator.commands.servers.tokens import BadToken, TokenFiles
from orchestrator.commands.servers.wishes import read_wish
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_CANNOT_CALL,
    EXIT_CANNOT_WRITE,
    AsJson,
    err,
    fail,
    load_settings,
    out,
    plain,
    print_json,
    print_table,
)
from orchestrator.settings import PROJECT, Settings
from orchestrator.upstreams.servers_file import HOST

servers_app = typer.Typer(
    help="Add, list, try and remove MCP servers of your own.", no_args_is_help=True, rich_markup_mode=None
)

INTERRUPTED = 130

EXAMPLES = """\b
Examples:
  code-executor servers add everything -- npx -y @modelcontextprotocol/server-everything@2026.8.31
  code-executor servers add clock -- uvx mcp-server-time==2026.10.19 --local-timezone UTC
  code-executor servers add github --env GITHUB_TOKEN --network internet -- npx -y some-github-server@1.2.3
  code-executor servers add weather --url https://weather.example/mcp --header 'Authorization: Bearer ${WEATHER_KEY}'
  code-executor servers add mine --url http://host.docker.internal:8000/mcp --host
"""

Name = Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")]


@servers_app.command(epilog=EXAMPLES)
def add(
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What runs it, after --: npx or uvx, the package with its version, and arguments."),
    ] = None,
    url: Annotated[str | None, typer.Option(help="The address of a server that runs already.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help="'Name: text with ${VARIABLE}' for --url, or 'Name' alone to be asked for the value."),
    ] = None,
    sse: Annotated[bool, typer.Option("--sse", help="The address speaks the older transport, HTTP with SSE.")] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(help="A variable of the server: KEY takes its value from your environment, or asks for it."),
    ] = None,
    network: Annotated[
        Network,
        typer.Option(help="What its container reaches: nothing, the stack's databases, or the internet."),
    ] = Network.NONE,
    host: Annotated[bool, typer.Option("--host", help=f"It may reach, or be on, this machine as {HOST}.")] = False,
    contents: Annotated[
        str | None, typer.Option(help="'list': programs always get the list of contents.", metavar="list")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(help="'execution': each execution has a session of its own at the --url.", metavar="execution"),
    ] = None,
    replace_it: Annotated[bool, typer.Option("--replace", help="Replace the server that has this name.")] = False,
) -> None:
    """Add a server, or give one that is there new tokens. A package is fetched and pinned once, and runs in a container
    of its own without a network, unless --network says otherwise.
    """
    from orchestrator.commands.servers.report import report

    settings = load_settings()
    yard = _yard(settings)
    if contents not in (None, "list") or session not in (None, "execution"):
        fail("--contents must be 'list' and --session 'execution'.", EXIT_BAD_USE)
    options = Options(contents == "list", session, host)
    try:
        yard.machine.require_project()
        check_name(name, yard.directory, PROJECT, _servers_file(settings))
        wish = read_wish(
            name,
            options,
            url=url,
            sse=sse,
            headers=header or [],
            command=command or [],
            env=env or [],
            network=network,
        )
        with yard.machine.tree_locked():
            entry = yard.add(wish, replace_it=replace_it)
    except (BadEntry, BadToken, NotRunnable) as error:
        fail(str(error), EXIT_BAD_USE)
    except HostFailed as error:
        _end(error)
    except KeyboardInterrupt:
        fail("Interrupted; nothing was added.", INTERRUPTED)
    except OSError as error:
        fail(f"{error.filename or settings.servers_dir} cannot be written ({error.strerror}).", EXIT_CANNOT_WRITE)
    report(settings, yard.machine, yard.directory, name, entry)


@servers_app.command("list")
def list_servers(as_json: AsJson = False) -> None:
    """List your own servers and those of the stack, with what the daemon says of each."""
    from orchestrator.commands.servers.report import states_of

    settings = load_settings()
    states = states_of(settings)
    directory = ServersDirectory(settings.servers_dir)
    own = {name: _described(directory, name) for name in directory.names()}
    rows = []
    for name in dict.fromkeys([*own, *(states or {})]):
        taken = why_taken(name, directory, PROJECT, _servers_file(settings)) if name in own else None
        state = f"not used: {taken}" if taken else _state(states, name)
        rows.append((name, *own.get(name, ("", "")), state))
    if as_json:
        keys = ("name", "runs", "network", "state")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    table = Table("Server", "Runs", "Network", "State", box=None)
    for row in rows:
        table.add_row(*(plain(cell or "(of the stack)" if at == 1 else cell) for at, cell in enumerate(row)))
    print_table(out, table)
    if states is None:
        err.print(plain("The daemon does not answer; start it with 'make up'."))


@servers_app.command()
def remove(name: Name) -> None:
    """Remove a server of your own: its entry, tokens, container, network, image and packages."""
    yard = _yard(load_settings())
    if not NAME.fullmatch(name):
        fail("NAME must be the name of a server of your own; 'servers list' shows them.", EXIT_BAD_USE)
    try:
        yard.machine.require_project()
        with yard.machine.tree_locked():
            existed = yard.remove(name)
    except HostFailed as error:
        _end(error)
    except KeyboardInterrupt:
        fail(f"Interrupted. Run 'code-executor servers remove {name}' again to finish.", INTERRUPTED)
    out.print(plain(f"removed {name}" if existed else f"There is no server {name} of your own; nothing was removed."))


@servers_app.command("test")
def try_one(
    name: Annotated[str, typer.Argument(help="Any server, of your own or not.")], as_json: AsJson = False
) -> None:
    """Connect to a server, list its tools with what each costs a model in tokens, or say what is wrong."""
    from orchestrator.commands.servers.report import show, try_it
    from orchestrator.commands.servers.trial import UNKNOWN, Trial

    settings = load_settings()
    yard = _yard(settings)
    trial = try_it(settings, yard.machine, name)
    if trial is None:
        if as_json:
            out.print(plain(Trial(name, False, UNKNOWN, ()).to_json()))
            raise typer.Exit(1)
        known = ", ".join(_own_names(settings)) or "none yet"
        fail(f"There is no server {name}; of your own there are: {known}.", EXIT_BAD_USE)
    if as_json:
        hide = TokenFiles(settings.secrets_dir).hide
        problem = hide(trial.problem) if trial.problem is not None else None
        out.print(plain(replace(trial, problem=problem).to_json()))
        raise typer.Exit(0 if trial.connected else 1)
    show(settings, yard.machine, yard.directory, trial)
    raise typer.Exit(0 if trial.connected else EXIT_CANNOT_CALL)


def _state(states: Mapping[str, str] | None, name: str) -> str:
    return "" if states is None else states.get(name, "not taken up by the daemon; see 'make logs'")


def _described(directory: ServersDirectory, name: str) -> tuple[str, str]:
    try:
        entry = directory.entry(name) or {}
    except BadEntry as error:
        return str(error), ""
    container = entry.get("container")
    if isinstance(container, dict):
        return str(container.get("run", "")), str(container.get("network", ""))
    return str(entry.get("url", entry.get("command", ""))), "host" if entry.get("host") is True else ""


def _yard(settings: Settings) -> Yard:
    machine = Host(PROJECT, os.environ.get("STACK_PREFIX", ""))
    return Yard(ServersDirectory(settings.servers_dir), TokenFiles(settings.secrets_dir), machine)


def _own_names(settings: Settings) -> list[str]:
    return ServersDirectory(settings.servers_dir).names()


def _servers_file(settings: Settings) -> Path:
    """Return the file that the daemon of `make up` reads: the user's own, or the one that was written for it."""
    if "servers_file" in settings.model_fields_set:
        return settings.servers_file
    return PROJECT / ".build" / "stack" / "daemon" / "servers.json"


def _end(error: HostFailed) -> NoReturn:
    if str(error):
        fail(str(error), EXIT_CANNOT_CALL)
    raise typer.Exit(1)
