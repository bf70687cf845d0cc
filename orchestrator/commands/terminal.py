"""What every command shares: where it prints, its settings and key, how it asks the daemon, and how it fails."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.adapters.access_files import RolesFileInvalid
from orchestrator.commands import keys
from orchestrator.commands.client import AddressInvalid, ApiClient, CallFailed, Refused
from orchestrator.domain.chat import printable
from orchestrator.domain.errors import Category, fault_of
from orchestrator.service.complaints import requirement
from orchestrator.service.schemas import schema_of
from orchestrator.settings import ENV_FILE, PREFIX, Settings
from orchestrator.settings_in_effect import unknown_settings

Json = dict[str, Any]
Answer = TypeVar("Answer")
Given = TypeVar("Given", str, str | None, list[str] | None)

# As in sysexits.h.
EXIT_BAD_USE = 64
EXIT_INTERRUPTED = 130
EXIT_BAD_DATA = 65
EXIT_NOT_THERE = 66
EXIT_CANNOT_CALL = 69
EXIT_CANNOT_START = 71
EXIT_CANNOT_WRITE = 73
EXIT_NOT_NOW = 75
EXIT_NOT_ALLOWED = 77
EXIT_BAD_CONFIGURATION = 78
# What the daemon refuses for another reason is its own trouble.
EXIT_OF_CATEGORY = {
    **dict.fromkeys((Category.INVALID, Category.MALFORMED, Category.OUT_OF_RANGE), EXIT_BAD_USE),
    **dict.fromkeys((Category.TOO_LARGE, Category.UNSUPPORTED, Category.CONFLICT), EXIT_BAD_DATA),
    Category.NOT_FOUND: EXIT_NOT_THERE,
    Category.LIMITED: EXIT_NOT_NOW,
    **dict.fromkeys((Category.UNAUTHENTICATED, Category.DENIED), EXIT_NOT_ALLOWED),
}
EXIT_OF_CODE = {
    "digest_mismatch": EXIT_BAD_DATA,
    # Waiting does not help: something must be deleted first.
    **dict.fromkeys(("quota_exceeded", "too_many_uploads", "too_many_workspaces"), EXIT_CANNOT_WRITE),
    "workspace_busy": EXIT_NOT_NOW,
}
_WIDER_THAN_ANY_ROW = 100_000


def directory_named(text: str) -> Path:
    """Take the name of a directory; an empty one, as a variable that is not set leaves, would be this one."""
    if not text:
        fail("The name of a directory must not be empty; this directory is '.'.", EXIT_BAD_USE)
    return Path(text)


def not_empty(param: typer.CallbackParam, value: Given) -> Given:
    """Refuse an empty argument, as a variable that is not set leaves: it would mean something else than it names."""
    words = [value] if isinstance(value, str) else value or ()
    if not all(word.strip() for word in words):
        name = param.opts[0] if param.opts[0].startswith("-") else param.metavar
        fail(f"{name} must not be empty. Is it a shell variable that is not set?", EXIT_BAD_USE)
    return value


def positive_time(seconds: float | None) -> float | None:
    """Refuse a time that nothing can take; JSON has no word for some of them."""
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        fail("--timeout must be a number of seconds greater than 0.", EXIT_BAD_USE)
    return seconds


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutDirectory = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", parser=directory_named, help="Directory for what it leaves in /workspace/out."
    ),
]

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
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().split("\n")
    console.print(Text("\n".join(line.rstrip(" ") for line in lines)), end="")  # nobody sees its width there


def fail(message: str, exit_code: int) -> NoReturn:
    """End the command with one line that says why."""
    err.print(plain(f"code-executor: {' '.join(message.splitlines())}"))
    raise typer.Exit(exit_code)


def fail_to_call(error: CallFailed) -> NoReturn:
    """End the command, with an exit code that tells a refusal from a daemon that could not be called."""
    match error:
        case Refused():
            exit_code = exit_of_refusal(error.code)
        case AddressInvalid():
            exit_code = EXIT_BAD_CONFIGURATION
        case _:
            exit_code = EXIT_CANNOT_CALL
    fail(str(error), exit_code)


def exit_of_refusal(code: str) -> int:
    """Return the exit code for the code of an error of the daemon's."""
    return EXIT_OF_CODE.get(code) or EXIT_OF_CATEGORY.get(fault_of(code, "").category, EXIT_CANNOT_CALL)


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
    fail(f"No key in {settings.secrets_dir} can be read. Set {PREFIX}KEY, or run 'make up'.", EXIT_NOT_ALLOWED)


def api_client() -> ApiClient:
    settings = load_settings()
    return ApiClient(settings.url, find_key(settings))


def call_daemon(work: Callable[[ApiClient], Coroutine[Any, Any, Answer]]) -> Answer:
    """Have something done with the daemon; a refusal ends the command."""
    try:
        return asyncio.run(work(api_client()))
    except CallFailed as error:
        fail_to_call(error)


def ask_daemon(path: str, parameters: list[tuple[str, str]] | None = None) -> Json:
    return call_daemon(lambda client: client.get(path, parameters))
