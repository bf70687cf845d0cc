"""The command line: code-executor."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import structlog
import typer

from orchestrator import __version__
from orchestrator.adapters.access_files import RolesFileInvalid, wait_for_roles
from orchestrator.commands.access import ensure, rotate, why
from orchestrator.commands.completion import completion
from orchestrator.commands.config import config
from orchestrator.commands.connect import connect
from orchestrator.commands.console import console
from orchestrator.commands.executions import executions, show
from orchestrator.commands.files import files, uploads
from orchestrator.commands.follow import cancel, follow
from orchestrator.commands.run import run
from orchestrator.commands.servers import servers_app
from orchestrator.commands.skills import skills_app
from orchestrator.commands.terminal import (
    EXIT_BAD_CONFIGURATION,
    EXIT_CANNOT_START,
    AsJson,
    fail,
    find_key,
    load_settings,
    out,
    plain,
    print_json,
)
from orchestrator.commands.tools import tools
from orchestrator.commands.top import top
from orchestrator.commands.watch import watch
from orchestrator.commands.workspaces import workspaces_app
from orchestrator.settings_in_effect import unknown_settings

ROLES_SECONDS = 5.0

app = typer.Typer(
    name="code-executor",
    help="Runs TypeScript and Python in fresh, locked-down, single-use containers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
keys_app = typer.Typer(help="Make and rotate the callers' keys.", no_args_is_help=True)


def main() -> None:
    app()


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


def serve() -> None:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C."""
    import uvloop

    from orchestrator.daemon import serve as serve_daemon
    from orchestrator.logs import configure_logs

    settings = load_settings(env_file=None)  # whoever starts the daemon gives it an environment
    configure_logs(settings.log_level, settings.log_format)
    for unknown in unknown_settings():
        structlog.get_logger().warning("settings.unknown", name=unknown.name, meant=unknown.meant)
    wait_for_roles(settings.roles_file, ROLES_SECONDS)
    try:
        uvloop.run(serve_daemon(settings))
    except RolesFileInvalid as error:
        fail(str(error), EXIT_BAD_CONFIGURATION)
    except OSError as error:
        fail(f"The daemon cannot start: {error}.", EXIT_CANNOT_START)


def launcher(
    leashed: Annotated[bool, typer.Option("--leashed", help="End when stdin ends.")] = False,
    owner: Annotated[str | None, typer.Option(help="The installation's name; by default one of its own.")] = None,
) -> None:
    """Run the launcher, which alone holds the engine's socket, until SIGTERM or Ctrl-C."""
    from orchestrator.launcher import serve as serve_launcher
    from orchestrator.logs import configure_logs

    settings = load_settings(env_file=None)
    configure_logs(settings.log_level, settings.log_format)
    try:
        serve_launcher(settings, owner, leashed=leashed)
    except (ValueError, OSError) as error:
        fail(f"The launcher cannot start: {error}.", EXIT_CANNOT_START)


def mcp() -> None:
    """Speak MCP on stdin and stdout, for a client that starts its servers; the daemon does the work."""
    from orchestrator.commands.standard_streams import speak_mcp

    settings = load_settings()
    key = find_key(settings)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(speak_mcp(settings.url, key))


def doctor(as_json: AsJson = False) -> None:
    """Check engine, image, network, port, keys and roles; each finding with its fix."""
    from orchestrator.commands.doctor import examine
    from orchestrator.domain.sandbox import Verdict

    findings = asyncio.run(examine(load_settings()))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        colours = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}
        for finding in findings:
            verdict = plain(f"{finding.verdict.value:8}", colours[finding.verdict])
            out.print(verdict, plain(f"{finding.check}: {finding.detail}"))
            if finding.fix:
                out.print(plain(f"         fix: {finding.fix}"))
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(1)


COMMANDS = (
    *(serve, launcher, mcp, connect, run, follow, cancel, tools, executions, show, files, uploads),
    *(console, watch, top, why, doctor, config, completion),
)
for command in COMMANDS:
    app.command()(command)
for key_command in (ensure, rotate):
    keys_app.command()(key_command)
app.add_typer(keys_app, name="keys")
app.add_typer(servers_app, name="servers")
app.add_typer(skills_app, name="skills")
app.add_typer(workspaces_app, name="workspaces")
