"""What the commands say of a server: whether it answers, what its tools cost, who sees it, or what is wrong."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import typer

from orchestrator.adapters.access_files import RolesFileInvalid, read_roles
from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.servers.entries import NAME, BadEntry, Json, Network, ServersDirectory
from orchestrator.commands.servers.host import Host
from orchestrator.commands.servers.tokens import TokenFiles
from orchestrator.commands.servers.trial import UNKNOWN, Trial, find_entry, fixes, try_server
from orchestrator.commands.terminal import EXIT_BAD_CONFIGURATION, EXIT_CANNOT_CALL, err, fail, out, plain
from orchestrator.domain.access import ANY_SERVER
from orchestrator.settings import Settings
from orchestrator.upstreams.servers_file import ServersFileInvalid

START_SECONDS = 90.0
TAKEN_UP_SECONDS = 20.0
LOOK_SECONDS = 0.5
LOG_LINES_SHOWN = 8


def report(settings: Settings, machine: Host, directory: ServersDirectory, name: str, entry: Json) -> None:
    """Say what came of it: whether the server answers, what it costs, and who sees it."""
    container = entry.get("container")
    if container is not None:
        network = Network(container["network"])
        out.print(plain(f"added {name}: {container['run']}"))
        out.print(plain(f"  network {network.value}: {network.reach}"))
    else:
        out.print(plain(f"added {name}: {entry['url']}"))
    if not machine.daemon_runs():
        out.print(plain("The daemon does not run; 'make up' starts it, and this server with it."))
        return
    if not machine.daemon_reads_own_servers():
        fail("The daemon that runs is of an earlier version; 'make up' replaces it, and starts this server.", 1)
    err.print(plain("  waiting for its answer …"))
    trial = _first_answer(settings, machine, name, starts=container is not None)
    if trial is None:
        fail(f"{name} was added, but the daemon does not know it; see 'make logs'.", EXIT_CANNOT_CALL)
    if trial.connected:
        _wait_until_taken_up(settings, name)
    show(settings, machine, directory, trial)
    if not trial.connected:
        raise typer.Exit(EXIT_CANNOT_CALL)


def _first_answer(settings: Settings, machine: Host, name: str, *, starts: bool) -> Trial | None:
    """Try a server that was just added; one whose container has just been started gets the time that it takes."""
    give_up = time.monotonic() + START_SECONDS
    while True:
        trial = try_it(settings, machine, name)
        state = machine.container(machine.container_of(name)) if starts else None
        starting = state is not None and state.status == "running" and state.restarts == 0
        if trial is None or trial.connected or not starting or time.monotonic() > give_up:
            return trial


def try_it(settings: Settings, machine: Host, name: str) -> Trial | None:
    """Try it where the daemon is, because only there its network is; without a daemon in a container, from here."""
    if machine.daemon_runs():
        told = machine.try_in_daemon(name)
        try:
            trial = Trial.from_json(told or "")
        except ValueError:
            fail("The daemon's container could not be asked; 'make up' brings it up to date.", EXIT_CANNOT_CALL)
        return None if trial.problem == UNKNOWN else trial
    try:
        entry = find_entry(settings, name)
    except ServersFileInvalid as error:
        fail(str(error), EXIT_BAD_CONFIGURATION)
    return asyncio.run(try_server(entry, settings)) if entry is not None else None


def show(settings: Settings, machine: Host, directory: ServersDirectory, trial: Trial) -> None:
    if trial.connected:
        out.print(plain(f"{trial.server}: connected, {len(trial.tools)} tools, {trial.tokens} tokens of definitions"))
        for tool in trial.tools:
            out.print(plain(f"  {tool.tokens:6}  {tool.name}"))
        if trial.problem:
            out.print(plain(f"  {trial.problem}"))
        _show_roles(settings, trial)
        return
    hide = TokenFiles(settings.secrets_dir).hide
    err.print(plain(f"{trial.server} does not answer: {hide(trial.problem or 'it is still starting')}."))
    with suppress(BadEntry):
        entry = directory.entry(trial.server) if NAME.fullmatch(trial.server) else None
        service = machine.container_of(trial.server)
        log = hide(machine.log_of(service)) if entry and "container" in entry else ""
        for fix in fixes(entry, trial, machine.container(service), log):
            err.print(plain(f"  fix: {fix}"))
        for line in log.splitlines()[-LOG_LINES_SHOWN:]:
            err.print(plain(f"  log: {line[:500]}"))


def _show_roles(settings: Settings, trial: Trial) -> None:
    try:
        roles = read_roles(settings.roles_file).roles
    except RolesFileInvalid as error:
        fail(str(error), EXIT_BAD_CONFIGURATION)
    seeing = [name for name, role in roles.items() if trial.server in role.servers or ANY_SERVER in role.servers]
    others = [name for name in roles if name not in seeing]
    out.print(plain(f"  seen by: {', '.join(seeing) or 'no role'}"))
    if others:
        out.print(
            plain(
                f'  not seen by: {", ".join(others)}. To change that, add "{trial.server}" to "servers" of the role in '
                f"{settings.roles_file}."
            )
        )


def _wait_until_taken_up(settings: Settings, name: str) -> None:
    """The daemon looks at its files every few seconds; wait until it has the tools, so that a program finds them."""
    give_up = time.monotonic() + TAKEN_UP_SECONDS
    while time.monotonic() < give_up:
        if (states_of(settings) or {}).get(name, "").startswith("connected"):
            return
        time.sleep(LOOK_SECONDS)
    err.print(plain("The daemon has not taken it up yet; 'code-executor servers list' shows when it has."))


def states_of(settings: Settings) -> dict[str, str] | None:
    """Return what the daemon says of each server, or None if it does not answer."""
    try:
        health = asyncio.run(ApiClient(settings.url, "").get("/health"))
    except CallFailed:
        return None
    return {str(name): str(state) for name, state in health.get("upstreams", {}).items()}
