"""The configuration that makes an MCP client use this daemon: shown, or merged into the client's file."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from orchestrator.commands.keys import write_atomically
from orchestrator.commands.terminal import EXIT_CANNOT_WRITE, Json, err, fail, find_key, load_settings, plain
from orchestrator.settings import PROJECT

NAME = "code-executor"
KEY_VARIABLE = "CODE_EXECUTOR_KEY"
INPUT_ID = "code-executor-key"
KEY_INPUT = {
    "type": "promptString",
    "id": INPUT_ID,
    "description": "Key of the MCP Code Executor",
    "password": True,
}
WITH_A_KEY_INSIDE = 0o600
WITHOUT = 0o644


class Client(StrEnum):
    CLAUDE = "claude"
    CURSOR = "cursor"
    CODEX = "codex"
    VSCODE = "vscode"


class CannotMerge(Exception):
    """The message names the file and says what to do with it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a client reaches the daemon: over HTTP, or over stdio through the wrapper script."""

    url: str
    wrapper: Path | None = None
    inline_key: str | None = None
    over_stdio: bool = False

    @property
    def endpoint(self) -> str:
        return f"{self.url.rstrip('/')}/mcp"


@dataclass(frozen=True, slots=True)
class Configuration:
    client: Client
    path: Path
    text: str
    advice: str

    def write(self, connection: Connection) -> bool:
        """Merge it into the client's file, and return whether that had to change."""
        exists = self.path.exists()
        before = self.path.read_text() if exists else ""
        after = merged(self.client, before, connection, self.path)
        if after == before:
            return False
        mode = self.path.stat().st_mode & 0o777 if exists else WITHOUT
        write_atomically(self.path, after, mode if connection.inline_key is None else WITH_A_KEY_INSIDE)
        return True


def connect(
    client: Annotated[Client, typer.Argument(help="The MCP client to configure.")],
    write: Annotated[bool, typer.Option("--write", help="Merge it into the client's file.")] = False,
    stdio: Annotated[bool, typer.Option("--stdio", help="Through scripts/mcp-wrapper.sh instead of HTTP.")] = False,
    inline_key: Annotated[bool, typer.Option("--inline-key", help="Write the key itself into the file.")] = False,
    directory: Annotated[Path, typer.Option(help="The project whose file is meant; not for codex.")] = Path(),
) -> None:
    """Show the configuration that connects an MCP client, or write it."""
    settings = load_settings()
    wrapper = PROJECT / "scripts" / "mcp-wrapper.sh"
    connection = Connection(
        url=settings.url,
        wrapper=wrapper if wrapper.exists() else None,
        inline_key=find_key(settings) if inline_key else None,
        over_stdio=stdio,
    )
    try:
        found = configuration(client, connection, directory.resolve(), Path.home())
        if not write:
            typer.echo(found.text, nl=False)
            err.print(plain(found.advice))
        else:
            err.print(plain(f"{'wrote' if found.write(connection) else 'unchanged:'} {found.path}"))
    except (CannotMerge, OSError) as error:
        fail(str(error), EXIT_CANNOT_WRITE)


def configuration(client: Client, connection: Connection, directory: Path, home: Path) -> Configuration:
    path = {
        Client.CLAUDE: directory / ".mcp.json",
        Client.CURSOR: directory / ".cursor" / "mcp.json",
        Client.VSCODE: directory / ".vscode" / "mcp.json",
        Client.CODEX: home / ".codex" / "config.toml",
    }[client]
    text = merged(client, "", connection, path)
    advice = [f"This belongs in {path}; --write puts it there."]
    if client is Client.CLAUDE:
        advice.append(f"Or: claude mcp add-json {NAME} {shlex.quote(json.dumps(claude_entry(connection)))}")
    asks_for_key = client is Client.VSCODE or (client is Client.CLAUDE and connection.wrapper is not None)
    if not (connection.over_stdio or connection.inline_key is not None or asks_for_key):
        advice.append(
            f"The client reads the key from {KEY_VARIABLE}: export {KEY_VARIABLE}=$(cat KEYFILE) before it starts."
        )
    return Configuration(client, path, text, "\n".join(advice))


def merged(client: Client, existing: str, connection: Connection, path: Path) -> str:
    """Return the text of the client's file with our entry in it; everything else stays."""
    stdio = connection.over_stdio
    match client:
        case Client.CLAUDE:
            return _merged_json(existing, path, "mcpServers", claude_entry(connection))
        case Client.CURSOR:
            http = {"url": connection.endpoint, "headers": _headers(connection, f"${{env:{KEY_VARIABLE}}}")}
            return _merged_json(existing, path, "mcpServers", _stdio(connection) if stdio else http)
        case Client.VSCODE:
            headers = _headers(connection, f"${{input:{INPUT_ID}}}")
            http = {"type": "http", "url": connection.endpoint, "headers": headers}
            entry = {"type": "stdio", **_stdio(connection)} if stdio else http
            asks_for_key = not stdio and connection.inline_key is None
            return _merged_json(existing, path, "servers", entry, KEY_INPUT if asks_for_key else None)
        case Client.CODEX:
            return _merged_toml(existing, path, _codex_table(connection))
        case _:
            assert_never(client)


def claude_entry(connection: Connection) -> Json:
    if connection.over_stdio:
        return {"type": "stdio", **_stdio(connection)}
    entry = {"type": "http", "url": connection.endpoint}
    if connection.inline_key is None and connection.wrapper is not None:
        return {**entry, "headersHelper": f"{shlex.quote(str(connection.wrapper))} --headers"}
    return {**entry, "headers": _headers(connection, f"${{{KEY_VARIABLE}}}")}


def _codex_table(connection: Connection) -> str:
    quoted = json.dumps  # a basic string of TOML has the same escapes
    lines = [f"[mcp_servers.{NAME}]"]
    if connection.over_stdio:
        lines.append(f"command = {quoted(_stdio(connection)['command'])}")
    else:
        lines.append(f"url = {quoted(connection.endpoint)}")
        if connection.inline_key is None:
            lines.append(f'bearer_token_env_var = "{KEY_VARIABLE}"')
        else:
            lines.append(f"http_headers = {{ Authorization = {quoted(f'Bearer {connection.inline_key}')} }}")
    return "\n".join(lines) + "\n"


def _stdio(connection: Connection) -> Json:
    if connection.wrapper is None:
        raise CannotMerge("There is no scripts/mcp-wrapper.sh beside this installation. Connect over HTTP instead.")
    return {"command": str(connection.wrapper)}


def _headers(connection: Connection, reference: str) -> Json:
    return {"Authorization": f"Bearer {connection.inline_key or reference}"}


def _merged_json(existing: str, path: Path, section: str, entry: Json, key_input: Json | None = None) -> str:
    try:
        document = json.loads(existing) if existing.strip() else {}
    except ValueError as error:
        # Comments are lost when such a file is written again, so it is left alone.
        raise CannotMerge(f"{path} is not plain JSON ({error}). Add the entry by hand.") from error
    if not isinstance(document, dict):
        raise CannotMerge(f"{path} is not a JSON object. Add the entry by hand.")
    servers = document.setdefault(section, {})
    if not isinstance(servers, dict):
        raise CannotMerge(f"{path}: {section} must be an object. Correct the file, then run this again.")
    servers[NAME] = entry
    if key_input:
        inputs = document.setdefault("inputs", [])
        if key_input["id"] not in {item.get("id") for item in inputs if isinstance(item, dict)}:
            inputs.append(key_input)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _merged_toml(existing: str, path: Path, table: str) -> str:
    """Replace our table in the text, so that comments stay, and check that the result says what was meant."""
    try:
        before = tomllib.loads(existing)
    except tomllib.TOMLDecodeError as error:
        raise CannotMerge(f"{path} is not TOML ({error}). Correct the file, then run this again.") from error
    ours = re.compile(rf"^\[mcp_servers\.(?:{NAME}|\"{NAME}\")(?:\.[^\]]*)?\]\s*(?:#.*)?$")
    lines, inside = [], False
    for line in existing.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = ours.match(line.strip()) is not None
        if not inside:
            lines.append(line)
    kept = "".join(lines).rstrip("\n")
    after = f"{kept}\n\n{table}" if kept else table
    wanted = {**before, "mcp_servers": {**before.get("mcp_servers", {}), **tomllib.loads(table)["mcp_servers"]}}
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(after) == wanted:
            return after
    raise CannotMerge(f"{path} writes [mcp_servers] in a way that cannot be extended safely. Add the entry by hand.")
