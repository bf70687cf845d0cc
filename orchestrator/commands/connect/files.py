"""The client's file: where it is, how our entry is merged into it, and how it is read back."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator.commands.connect.entries import (
    KEY_INPUT,
    KEY_VARIABLE,
    NAME,
    Client,
    Connection,
    asks_for_key,
    entry_for,
    reads_key_variable,
)
from orchestrator.commands.keys import write_atomically
from orchestrator.commands.terminal import Json

WITH_A_KEY_INSIDE = 0o600
WITHOUT = 0o644
SECTION = {
    Client.CLAUDE: "mcpServers",
    Client.CURSOR: "mcpServers",
    Client.VSCODE: "servers",
    Client.CODEX: "mcp_servers",
}


class CannotMerge(Exception):
    """The message names the file and says what to do with it."""


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

    def entry(self) -> Json:
        """Return our entry as it stands in the file, for whoever does with it what the client does."""
        read = tomllib.loads if self.client is Client.CODEX else json.loads
        entry: Json = read(self.path.read_text())[SECTION[self.client]][NAME]
        return entry


def configuration(client: Client, connection: Connection, directory: Path, home: Path) -> Configuration:
    path = {
        Client.CLAUDE: directory / ".mcp.json",
        Client.CURSOR: directory / ".cursor" / "mcp.json",
        Client.VSCODE: directory / ".vscode" / "mcp.json",
        Client.CODEX: home / ".codex" / "config.toml",
    }[client]
    text = merged(client, "", connection, path)
    advice = [f"This belongs in {path}; --write puts it there and tries the connection."]
    if client is Client.CLAUDE:
        advice.append(f"Or: claude mcp add-json {NAME} {shlex.quote(json.dumps(entry_for(client, connection)))}")
    if reads_key_variable(client, connection):
        advice.append(
            f"The client reads the key from {KEY_VARIABLE}: export {KEY_VARIABLE}=$(cat KEYFILE) before it starts."
        )
    return Configuration(client, path, text, "\n".join(advice))


def merged(client: Client, existing: str, connection: Connection, path: Path) -> str:
    """Return the text of the client's file with our entry in it; everything else stays."""
    entry = entry_for(client, connection)
    if client is Client.CODEX:
        return _merged_toml(existing, path, _toml_table(entry))
    key_input = KEY_INPUT if asks_for_key(client, connection) else None
    return _merged_json(existing, path, SECTION[client], entry, key_input)


def _toml_table(entry: Json) -> str:
    quoted = partial(json.dumps, ensure_ascii=False)  # a basic string of TOML has the same escapes
    lines = [f"[mcp_servers.{NAME}]"]
    for name, value in entry.items():
        if isinstance(value, dict):
            pairs = ", ".join(f"{key} = {quoted(text)}" for key, text in value.items())
            lines.append(f"{name} = {{ {pairs} }}")
        else:
            lines.append(f"{name} = {quoted(value)}")
    return "\n".join(lines) + "\n"


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
