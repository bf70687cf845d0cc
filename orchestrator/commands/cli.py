"""The command line: code-executor."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import quote

import typer
from pydantic import SecretStr, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orchestrator import __version__
from orchestrator.adapters.access_files import RolesFileInvalid, read_book
from orchestrator.commands import keys
from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.connect import CannotMerge, Client, Connection, configuration
from orchestrator.commands.executions import NotATime, moment, print_list, print_one
from orchestrator.domain.execution import Language, Outcome
from orchestrator.settings import ENV_FILE, PREFIX, PROJECT, Settings

app = typer.Typer(
    name="code-executor",
    help="Runs TypeScript and Python in fresh, locked-down, single-use containers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
keys_app = typer.Typer(help="Make and rotate the callers' keys.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Endings without an exit code of the program get the one that shells use for the like.
EXIT_OF_OUTCOME = {
    Outcome.TIMED_OUT: 124,
    Outcome.OUT_OF_MEMORY: 137,
    Outcome.OUTPUT_LIMIT: 141,
    Outcome.CANCELLED: 130,
    Outcome.SANDBOX_ERROR: 70,
}
EXIT_CANNOT_CALL = 69
EXIT_BAD_USE = 64
LANGUAGE_OF_SUFFIX = {suffix: language for language in Language for suffix in language.suffixes}
STDIN = "-"


def main() -> None:
    app()


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


@app.command()
def serve() -> None:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C."""
    import uvloop

    from orchestrator.daemon import serve as serve_daemon
    from orchestrator.logs import configure_logs

    settings = _settings(env_file=None)  # whoever starts the daemon gives it an environment
    configure_logs(settings.log_level, settings.log_format)
    try:
        uvloop.run(serve_daemon(settings))
    except RolesFileInvalid as error:
        _fail(str(error), 78)
    except OSError as error:
        _fail(f"The daemon cannot start: {error}.", 71)


@app.command()
def mcp() -> None:
    """Speak MCP on stdin and stdout, for a client that starts its servers; the daemon does the work."""
    from orchestrator.commands.standard_streams import speak_mcp

    settings = _settings()
    key = _key(settings)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(speak_mcp(settings.url, key))


@app.command()
def connect(
    client: Annotated[Client, typer.Argument(help="The MCP client to configure.")],
    write: Annotated[bool, typer.Option("--write", help="Merge it into the client's file.")] = False,
    stdio: Annotated[bool, typer.Option("--stdio", help="Through scripts/mcp-wrapper.sh instead of HTTP.")] = False,
    inline_key: Annotated[bool, typer.Option("--inline-key", help="Write the key itself into the file.")] = False,
    directory: Annotated[Path, typer.Option(help="The project whose file is meant; not for codex.")] = Path(),
) -> None:
    """Show the configuration that connects an MCP client, or write it."""
    settings = _settings()
    wrapper = PROJECT / "scripts" / "mcp-wrapper.sh"
    connection = Connection(
        url=settings.url,
        wrapper=wrapper if wrapper.exists() else None,
        inline_key=_key(settings) if inline_key else None,
        over_stdio=stdio,
    )
    try:
        found = configuration(client, connection, directory.resolve(), Path.home())
        if not write:
            typer.echo(found.text, nl=False)
            err.print(found.advice, markup=False)
        else:
            err.print(f"{'wrote' if found.write(connection) else 'unchanged:'} {found.path}", markup=False)
    except (CannotMerge, OSError) as error:
        _fail(str(error), 73)


@app.command()
def run(
    file: Annotated[str, typer.Argument(help="The program's file, or - for standard input.")],
    language: Annotated[Language | None, typer.Option(help="Else by the file's ending; - is TypeScript.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for the program, at most 300.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a program; its output is streamed and its exit code is this command's."""
    settings = _settings()
    code = _read_program(file)
    chosen = language or LANGUAGE_OF_SUFFIX.get(Path(file).suffix, Language.TYPESCRIPT)
    client = ApiClient(settings.url, _key(settings))
    try:
        result = asyncio.run(_run(client, code, chosen, timeout, as_json))
    except CallFailed as error:
        _fail(str(error), EXIT_CANNOT_CALL)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_OF_OUTCOME[Outcome.CANCELLED]) from None
    if as_json:
        out.print_json(json.dumps(result))
    raise typer.Exit(_exit_code(result))


@app.command()
def tools(
    query: Annotated[list[str] | None, typer.Argument(help="What is looked for; several wishes at once work.")] = None,
    server: Annotated[str | None, typer.Option(help="Only tools of this server.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the tools that your key may use, or search them."""
    narrowed = [("server", server)] if server else []
    wishes = [("q", wish) for wish in query or []]
    found = _get("/tools/search" if wishes else "/tools", [*wishes, *narrowed, ("detail", "description")])
    if as_json:
        out.print_json(json.dumps(found))
        return
    for place, name, description in _rows(found["tools"]):
        out.print(f"[bold]{escape(f'{place}/{name}')}[/]  {escape(description)}", highlight=False)


@app.command()
def executions(
    outcome: Annotated[Outcome | None, typer.Option(help="Only those that ended so.")] = None,
    caller: Annotated[str | None, typer.Option(help="Only those of the key with this name.")] = None,
    language: Annotated[Language | None, typer.Option(help="Only programs in this language.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only those that called it: SERVER/TOOL, or a SERVER.")] = None,
    since: Annotated[str | None, typer.Option(help="At or after: 15m, 2h or 7d ago, or a time.")] = None,
    until: Annotated[str | None, typer.Option(help="Before: 15m, 2h or 7d ago, or a time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List what ran, newest first: your own, or everybody's if your role sees all."""
    try:
        times = {name: moment(text) for name, text in (("since", since), ("until", until)) if text}
    except NotATime as error:
        _fail(str(error), EXIT_BAD_USE)
    chosen = {"outcome": outcome, "caller": caller, "language": language, "tool": tool, **times, "limit": limit}
    found = _get("/executions", [(name, str(value)) for name, value in chosen.items() if value is not None])
    if as_json:
        out.print_json(json.dumps(found))
    elif found["executions"]:
        print_list(out, found["executions"])
    else:
        err.print("Nothing fits.")


@app.command()
def show(
    execution_id: Annotated[str | None, typer.Argument(metavar="ID", help="Else the newest that you see.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one execution: how it ended, its tool calls and what it printed."""
    if execution_id is None:
        newest = _get("/executions", [("limit", "1"), ("kind", "program")])["executions"]
        if not newest:
            _fail("Nothing has run yet.", EXIT_CANNOT_CALL)
        execution_id = str(newest[0]["executionId"])
    found = _get(f"/executions/{quote(execution_id, safe='')}")
    if as_json:
        out.print_json(json.dumps(found))
    else:
        print_one(out, found)


@app.command()
def why(role: str, tool: Annotated[str, typer.Argument(help="SERVER/TOOL")]) -> None:
    """Say which rule of the role file allows or denies a tool to a role."""
    settings = _settings()
    try:
        book = read_book(settings.roles_file, settings.keys_dir)
    except RolesFileInvalid as error:
        _fail(str(error), 78)
    server, slash, name = tool.partition("/")
    if role not in book.roles or not slash:
        _fail(f"Say a role ({', '.join(sorted(book.roles))}) and SERVER/TOOL.", EXIT_BAD_USE)
    decision = book.roles[role].decide(server, name)
    out.print(f"{'allowed' if decision.allowed else 'denied'}: {decision.rule}", highlight=False, markup=False)
    raise typer.Exit(0 if decision.allowed else 1)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check engine, image, network, port, keys and roles; each finding with its fix."""
    from orchestrator.commands.doctor import examine
    from orchestrator.domain.sandbox import Verdict

    findings = asyncio.run(examine(_settings()))
    if as_json:
        out.print_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        colours = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}
        for finding in findings:
            colour = colours[finding.verdict]
            found = escape(f"{finding.check}: {finding.detail}")
            out.print(f"[{colour}]{finding.verdict.value:8}[/] {found}", highlight=False)
            if finding.fix:
                out.print(f"         fix: {finding.fix}", highlight=False, markup=False)
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(1)


@app.command()
def config(as_json: AsJson = False) -> None:
    """Show the effective settings; secrets are masked."""
    settings = _settings()
    values = {name: _shown(getattr(settings, name)) for name in Settings.model_fields}
    if as_json:
        out.print_json(json.dumps(values))
        return
    table = Table("Setting", "Value", "From", box=None)
    for name, value in values.items():
        origin = "environment or .env" if name in settings.model_fields_set else "default"
        table.add_row(f"{PREFIX}{name.upper()}", str(value), origin)
    out.print(table)


@keys_app.command("ensure")
def ensure_keys() -> None:
    """Make the key files that are missing and mend hashes that do not fit."""
    for made in keys.ensure(_key_files()):
        err.print(f"made {made.path.name} for role {made.role}")


@keys_app.command("rotate")
def rotate_keys(role: Annotated[str, typer.Argument(help="The role whose keys are replaced.")]) -> None:
    """Replace a role's keys; the daemon takes the new ones within a second and refuses the old."""
    try:
        rotated = keys.rotate(_key_files(), role)
    except keys.UnknownRole as error:
        _fail(str(error), EXIT_BAD_USE)
    for file in rotated:
        out.print(f"rotated {file.path}", highlight=False)


def _get(path: str, parameters: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    settings = _settings()
    client = ApiClient(settings.url, _key(settings))
    try:
        return asyncio.run(client.get(path, parameters))
    except CallFailed as error:
        _fail(str(error), EXIT_CANNOT_CALL)


def _rows(listed: Any) -> list[tuple[str, str, str]]:
    """Search answers with a list, best first; a listing with tools by server."""
    if isinstance(listed, list):
        return [(tool["server"], tool["name"], tool["description"]) for tool in listed]
    return [(server, name, text) for server, tools in listed.items() for name, text in tools.items()]


async def _run(client: ApiClient, code: str, language: Language, seconds: float | None, quiet: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    async for event in client.execute(code, language.value, seconds):
        if event.name == "result":
            result = event.fields
        elif event.name in ("stdout", "stderr") and not quiet:
            _write(sys.stdout if event.name == "stdout" else sys.stderr, event.fields["text"])
    if not result:
        raise CallFailed("The daemon went away before the program ended.")
    if not quiet and result["outcome"] not in (Outcome.COMPLETED, Outcome.FAILED):
        err.print(f"code-executor: {_explanation(result)}", markup=False)
    return result


def _write(stream: Any, text: str) -> None:
    stream.write(text)
    stream.flush()


def _explanation(result: dict[str, Any]) -> str:
    limits = result["limits"]
    match Outcome(result["outcome"]):
        case Outcome.TIMED_OUT:
            return f"timed out after {limits['timeoutSeconds']:g} s"
        case Outcome.OUT_OF_MEMORY:
            return f"out of memory: the limit is {limits['memoryBytes'] // 1024**2} MiB"
        case Outcome.OUTPUT_LIMIT:
            return f"output limit: at most {limits['maxOutputBytes']} bytes a stream"
        case Outcome.SANDBOX_ERROR:
            return f"the sandbox failed, not the program: {result['error']['detail']} ({result['error']['code']})"
        case other:
            return other.value


def _exit_code(result: dict[str, Any]) -> int:
    outcome = Outcome(result["outcome"])
    return EXIT_OF_OUTCOME[outcome] if outcome in EXIT_OF_OUTCOME else int(result["exitCode"])


def _read_program(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"{file} cannot be read: {error}.", EXIT_BAD_USE)


def _key(settings: Settings) -> str:
    if settings.key is not None:
        return settings.key.get_secret_value()
    for file in _key_files():
        with suppress(OSError):
            return file.read()
    return _fail(f"No readable key in {settings.secrets_dir}; set {PREFIX}KEY or run 'make up'.", EXIT_CANNOT_CALL)


def _key_files() -> list[keys.KeyFile]:
    settings = _settings()
    try:
        return keys.key_files(settings.roles_file, settings.secrets_dir)
    except RolesFileInvalid as error:
        _fail(str(error), 78)


def _settings(env_file: Path | None = ENV_FILE) -> Settings:
    """A command sees what make sees: the environment, then .env, unless that is for another user's eyes."""
    readable = env_file is not None and os.access(env_file, os.R_OK)
    try:
        return Settings(_env_file=env_file if readable else None)
    except ValidationError as error:
        first = error.errors()[0]
        _fail(f"{PREFIX}{str(first['loc'][0]).upper()}: {first['msg']}.", 78)


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "********"
    return str(value) if isinstance(value, Path) else value


def _fail(message: str, exit_code: int) -> NoReturn:
    err.print(f"code-executor: {message}", markup=False)
    raise typer.Exit(exit_code)
