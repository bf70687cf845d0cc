"""What each MCP client wants to be told about the daemon."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from orchestrator.commands.terminal import Json

NAME = "code-executor"
KEY_VARIABLE = "CODE_EXECUTOR_KEY"
URL_VARIABLE = "CODE_EXECUTOR_URL"
INPUT_ID = "code-executor-key"
KEY_INPUT = {
    "type": "promptString",
    "id": INPUT_ID,
    "description": "Key of the MCP Code Executor",
    "password": True,
}


class Client(StrEnum):
    CLAUDE = "claude"
    CURSOR = "cursor"
    CODEX = "codex"
    VSCODE = "vscode"

    @property
    def product(self) -> str:
        return {Client.CLAUDE: "Claude Code", Client.VSCODE: "VS Code"}.get(self, self.value.title())

    @property
    def asks_a_command_for_headers(self) -> bool:
        """Tell whether it can use HTTP with neither a key in its file nor a variable in its environment."""
        return self is Client.CLAUDE


class NoWrapper(Exception):
    """The message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a client reaches the daemon: over HTTP, or over stdio through the wrapper script."""

    url: str
    wrapper: Path | None = None
    inline_key: str | None = None
    over_stdio: bool = False
    # For the wrapper. They are part of the entry because clients pass on only some of their environment, if any.
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"{self.url.rstrip('/')}/mcp"

    @property
    def headers_command(self) -> str:
        assignments = [f"{name}={value}" for name, value in self.variables.items()]
        command = [*(["env", *assignments] if assignments else []), str(self.wrapper), "--headers"]
        return shlex.join(command)

    @property
    def stdio(self) -> Json:
        if self.wrapper is None:
            raise NoWrapper("There is no scripts/mcp-wrapper.sh beside this installation. Connect with --http instead.")
        return {"command": str(self.wrapper), "env": {URL_VARIABLE: self.url, **self.variables}}

    def headers(self, reference: str) -> Json:
        return {"Authorization": f"Bearer {self.inline_key or reference}"}


def entry_for(client: Client, connection: Connection) -> Json:
    http: Json = {"url": connection.endpoint}
    match client:
        case Client.CLAUDE:
            # Otherwise its tools are hidden from the model until it searches for them.
            return {**_claude(connection), "alwaysLoad": True}
        case Client.CURSOR:
            headers = connection.headers(f"${{env:{KEY_VARIABLE}}}")
            return connection.stdio if connection.over_stdio else {**http, "headers": headers}
        case Client.VSCODE:
            headers = connection.headers(f"${{input:{INPUT_ID}}}")
            if connection.over_stdio:
                return {"type": "stdio", **connection.stdio}
            return {"type": "http", **http, "headers": headers}
        case Client.CODEX:
            if connection.over_stdio:
                return connection.stdio
            if connection.inline_key is None:
                return {**http, "bearer_token_env_var": KEY_VARIABLE}
            return {**http, "http_headers": connection.headers("")}
        case _:
            assert_never(client)


def _claude(connection: Connection) -> Json:
    if connection.over_stdio:
        return {"type": "stdio", **connection.stdio}
    entry = {"type": "http", "url": connection.endpoint}
    if connection.inline_key is None and connection.wrapper is not None:
        return {**entry, "headersHelper": connection.headers_command}
    return {**entry, "headers": connection.headers(f"${{{KEY_VARIABLE}}}")}


def asks_for_key(client: Client, connection: Connection) -> bool:
    """Tell whether the client will ask the user for the key."""
    return client is Client.VSCODE and not connection.over_stdio and connection.inline_key is None


def reads_key_variable(client: Client, connection: Connection) -> bool:
    """Tell whether the client will look for the key in its environment."""
    has_key = connection.over_stdio or connection.inline_key is not None
    runs_helper = client.asks_a_command_for_headers and connection.wrapper is not None
    return not (has_key or runs_helper or asks_for_key(client, connection))
