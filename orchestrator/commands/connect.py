"""The configuration that makes an MCP client use this daemon: shown, or merged into the client's file."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

from orchestrator.commands.keys import write_atomically

Json = dict[str, Any]

NAME = "code-executor"
KEY_VARIABLE = "CODE_EXECUTOR_KEY"
INPUT_ID = "code-executor-key"
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
        """Whether the file had to change; what else is in it stays."""
        before = self.path.read_text() if self.path.exists() else ""
        after = merged(self.client, before, connection, self.path)
        if after == before:
            return False
        holds_key = connection.inline_key is not None
        write_atomically(self.path, after, WITH_A_KEY_INSIDE if holds_key else _mode_of(self.path))
        return True


def configuration(client: Client, connection: Connection, directory: Path, home: Path) -> Configuration:
    path = _path(client, directory, home)
    return Configuration(client, path, merged(client, "", connection, path), _advice(client, connection, path))


def merged(client: Client, existing: str, connection: Connection, path: Path) -> str:
    match client:
        case Client.CLAUDE:
            return _merged_json(existing, path, "mcpServers", claude_entry(connection))
        case Client.CURSOR:
            return _merged_json(existing, path, "mcpServers", _cursor_entry(connection))
        case Client.VSCODE:
            return _merged_json(existing, path, "servers", _vscode_entry(connection), _vscode_inputs(connection))
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


def _cursor_entry(connection: Connection) -> Json:
    if connection.over_stdio:
        return _stdio(connection)
    return {"url": connection.endpoint, "headers": _headers(connection, f"${{env:{KEY_VARIABLE}}}")}


def _vscode_entry(connection: Connection) -> Json:
    if connection.over_stdio:
        return {"type": "stdio", **_stdio(connection)}
    headers = _headers(connection, f"${{input:{INPUT_ID}}}")
    return {"type": "http", "url": connection.endpoint, "headers": headers}


def _vscode_inputs(connection: Connection) -> list[Json]:
    if connection.over_stdio or connection.inline_key is not None:
        return []
    description = "Key of the MCP Code Executor"
    return [{"type": "promptString", "id": INPUT_ID, "description": description, "password": True}]


def _codex_table(connection: Connection) -> str:
    lines = [f"[mcp_servers.{NAME}]"]
    if connection.over_stdio:
        lines.append(f"command = {_toml_string(_stdio(connection)['command'])}")
    else:
        lines.append(f"url = {_toml_string(connection.endpoint)}")
        lines.append(_codex_key(connection))
    return "\n".join(lines) + "\n"


def _codex_key(connection: Connection) -> str:
    if connection.inline_key is None:
        return f'bearer_token_env_var = "{KEY_VARIABLE}"'
    return f"http_headers = {{ Authorization = {_toml_string(f'Bearer {connection.inline_key}')} }}"


def _stdio(connection: Connection) -> Json:
    if connection.wrapper is None:
        raise CannotMerge("There is no scripts/mcp-wrapper.sh beside this installation; connect over HTTP instead.")
    return {"command": str(connection.wrapper)}


def _headers(connection: Connection, reference: str) -> Json:
    return {"Authorization": f"Bearer {connection.inline_key or reference}"}


def _merged_json(existing: str, path: Path, section: str, entry: Json, inputs: list[Json] | None = None) -> str:
    document = _parsed_json(existing, path)
    servers = document.setdefault(section, {})
    if not isinstance(servers, dict):
        raise CannotMerge(f"{path}: {section} is not an object; correct the file, then run this again.")
    servers[NAME] = entry
    if inputs:
        asked = {item.get("id") for item in document.get("inputs", []) if isinstance(item, dict)}
        document.setdefault("inputs", []).extend(item for item in inputs if item["id"] not in asked)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _parsed_json(existing: str, path: Path) -> Json:
    if not existing.strip():
        return {}
    try:
        document = json.loads(existing)
    except ValueError as error:
        # Comments are lost when such a file is written again, so it is left alone.
        raise CannotMerge(f"{path} is not plain JSON ({error}); add the entry by hand.") from error
    if not isinstance(document, dict):
        raise CannotMerge(f"{path} is not a JSON object; add the entry by hand.")
    return document


def _merged_toml(existing: str, path: Path, table: str) -> str:
    before = _parsed_toml(existing, path)
    kept = _without_table(existing).rstrip("\n")
    after = f"{kept}\n\n{table}" if kept else table
    wanted = {**before, "mcp_servers": {**before.get("mcp_servers", {}), **tomllib.loads(table)["mcp_servers"]}}
    if _parsed_toml(after, path) != wanted:
        raise CannotMerge(
            f"{path} writes [mcp_servers] in a way that cannot be extended safely; add the entry by hand."
        )
    return after


def _parsed_toml(text: str, path: Path) -> Json:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotMerge(f"{path} is not TOML ({error}); correct it, then run this again.") from error


def _without_table(text: str) -> str:
    ours = re.compile(rf"^\[mcp_servers\.(?:{NAME}|\"{NAME}\")(?:\.[^\]]*)?\]\s*(?:#.*)?$")
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = ours.match(line.strip()) is not None
        if not inside:
            kept.append(line)
    return "".join(kept)


def _toml_string(text: str) -> str:
    return json.dumps(text)  # a basic string of TOML has the same escapes


def _path(client: Client, directory: Path, home: Path) -> Path:
    match client:
        case Client.CLAUDE:
            return directory / ".mcp.json"
        case Client.CURSOR:
            return directory / ".cursor" / "mcp.json"
        case Client.VSCODE:
            return directory / ".vscode" / "mcp.json"
        case Client.CODEX:
            return home / ".codex" / "config.toml"
        case _:
            assert_never(client)


def _advice(client: Client, connection: Connection, path: Path) -> str:
    lines = [f"This belongs into {path}; --write puts it there."]
    if client is Client.CLAUDE:
        entry = json.dumps(claude_entry(connection))
        lines.append(f"Or: claude mcp add-json {NAME} {shlex.quote(entry)}")
    if _reads_variable(client, connection):
        lines.append(
            f"The client reads the key from {KEY_VARIABLE}: export {KEY_VARIABLE}=$(cat KEYFILE) before it starts."
        )
    return "\n".join(lines)


def _reads_variable(client: Client, connection: Connection) -> bool:
    if connection.over_stdio or connection.inline_key is not None or client is Client.VSCODE:
        return False
    return client is not Client.CLAUDE or connection.wrapper is None


def _mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777 if path.exists() else WITHOUT
