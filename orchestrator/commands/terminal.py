"""What every command shares: where it prints, its settings and key, how it asks the daemon, and how it fails."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.adapters.access_files import RolesFileInvalid
from orchestrator.commands import keys
from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.domain.chat import printable
from orchestrator.service.complaints import requirement
from orchestrator.service.schemas import schema_of
from orchestrator.settings import ENV_FILE, PREFIX, Settings
from orchestrator.settings_in_effect import unknown_settings

Json = dict[str, Any]

EXIT_BAD_USE = 64
EXIT_CANNOT_CALL = 69
EXIT_CANNOT_START = 71
EXIT_CANNOT_WRITE = 73
EXIT_BAD_CONFIGURATION = 78
_WIDER_THAN_ANY_ROW = 100_000

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def plain(text: str, style: str = "") -> Text:
    """Return text of strangers as text: neither rich nor the terminal takes any of it for a command."""
    return Text(printable(text), style)


def print_json(document: Any) -> None:
    # Escaped, because a C1 control character, which JSON allows as it is, is a command to some terminals.
    out.print_json(data=document, ensure_ascii=True)


def print_table(console: Console, table: Table) -> None:
    """Print each row whole and on one line, however narrow the terminal is: half an id is of no use."""
    table.width = console.measure(table, options=console.options.update_width(_WIDER_THAN_ANY_ROW)).maximum
    console.print(table)


def fail(message: str, exit_code: int) -> NoReturn:
    """End the command with one line that says why."""
    err.print(plain(f"code-executor: {' '.join(message.splitlines())}"))
    raise typer.Exit(exit_code)


def warn(message: str) -> None:
    err.print(plain(f"code-executor: warning: {message}"))


def load_settings(env_file: Path | None = ENV_FILE) -> Settings:
    """Read what make reads: the environment, then .env, unless only another user may read that."""
    readable = env_file is not None and os.access(env_file, os.R_OK)
    if env_file is not None:  # the daemon and its launcher have a log for it
        for unknown in unknown_settings(env_file):
            warn(str(unknown))
    try:
        return Settings(_env_file=env_file if readable else None)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        required = requirement(schema_of(Settings)["properties"].get(name, {}))
        said = f" must be {required}." if required else f": {first['msg']}."
        fail(f"{PREFIX}{name.upper()}{said}", EXIT_BAD_CONFIGURATION)


def find_key_files(settings: Settings) -> list[keys.KeyFile]:
    try:
        return keys.key_files(settings.roles_file, settings.secrets_dir)
    except RolesFileInvalid as error:
        fail(str(error), EXIT_BAD_CONFIGURATION)


def find_key(settings: Settings) -> str:
    """Return the key that was set, else the first that this user may read."""
    if settings.key is not None:
        return settings.key.get_secret_value()
    for file in find_key_files(settings):
        with suppress(OSError):
            return file.read()
    fail(f"No key in {settings.secrets_dir} can be read. Set {PREFIX}KEY, or run 'make up'.", EXIT_CANNOT_CALL)


def ask_daemon(path: str, parameters: list[tuple[str, str]] | None = None) -> Json:
    settings = load_settings()
    try:
        return asyncio.run(ApiClient(settings.url, find_key(settings)).get(path, parameters))
    except CallFailed as error:
        fail(str(error), EXIT_CANNOT_CALL)
