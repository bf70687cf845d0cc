"""What executions left: the list of files, and getting them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.table import Table

from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.executions import local_time, newest_program
from orchestrator.commands.own_files import fetch, save, save_all
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_CANNOT_CALL,
    EXIT_CANNOT_WRITE,
    AsJson,
    Json,
    ask_daemon,
    err,
    fail,
    find_key,
    load_settings,
    out,
    plain,
    print_json,
    print_table,
)
from orchestrator.domain.file_words import size_in_words

STDOUT = "-"

Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output. Else its own name, here."),
]


def files(
    execution_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The newest program that you may see, if absent.")
    ] = None,
    get: Annotated[str | None, typer.Option(metavar="NAME", help="Get this file.")] = None,
    output: Output = None,
    out_dir: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Get all files, into DIR.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the files that a program left in /workspace/out, or get them."""
    found: list[Json] = ask_daemon(f"/executions/{quote(execution_id or newest_program(), safe='')}/files")["files"]
    if get is not None:
        get_one(found, get, output)
    elif output is not None:
        fail("--output needs --get NAME.", EXIT_BAD_USE)
    elif out_dir is not None:
        client = api_client()
        err.print(plain(f"code-executor: {transferred(save_all(client, found, out_dir))}"))
    elif as_json:
        print_json({"files": found})
    elif found:
        print_files(found)
    else:
        err.print("It left no files, or they are no longer kept.")


def uploads(
    delete: Annotated[str | None, typer.Option(metavar="SHA256", help="Delete this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the files that you have sent in advance, or delete one."""
    if delete is not None:
        ordered("DELETE", f"/files/{quote(delete, safe='')}")
        err.print(plain(f"code-executor: deleted {delete}"))
        return
    found = ask_daemon("/files")
    if as_json:
        print_json(found)
    elif found["files"]:
        table = Table("SHA-256", "Size", "Sent", box=None, pad_edge=False)
        for file in found["files"]:
            table.add_row(plain(file["sha256"]), size_in_words(file["bytes"]), local_time(file["uploadedAt"]))
        print_table(out, table)
    else:
        err.print("You have sent no files, or they are no longer kept.")


def get_one(found: list[Json], name: str, output: str | None) -> None:
    """Save one of the files that there are, or write it to standard output."""
    file = next((each for each in found if each["name"] == name), None)
    if file is None:
        fail(f"There is no file {name!r}. Without --get, the command lists what there is.", EXIT_CANNOT_CALL)
    client = api_client()
    if output == STDOUT:
        sys.stdout.flush()
        transferred(fetch(client, file, sys.stdout.fileno()))
        return
    target = Path(output) if output is not None else Path(name.rpartition("/")[2])
    transferred(save(client, file, target.parent, target.name))
    err.print(plain(f"code-executor: {size_in_words(file['bytes'])} in {target}"))


def print_files(found: list[Json]) -> None:
    table = Table("Name", "Size", "Type", "SHA-256", box=None, pad_edge=False)
    for file in found:
        size = size_in_words(file["bytes"])
        table.add_row(plain(file["name"]), size, plain(file["mediaType"]), plain(file["sha256"][:12]))
    print_table(out, table)


def api_client() -> ApiClient:
    settings = load_settings()
    return ApiClient(settings.url, find_key(settings))


def ordered(method: str, path: str, body: Json | None = None) -> Json:
    """Have the daemon do something; a refusal ends the command."""
    try:
        return asyncio.run(api_client().order(method, path, body))
    except CallFailed as error:
        fail(str(error), EXIT_CANNOT_CALL)


def transferred(work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for a transfer; what keeps it from being done ends the command."""
    try:
        return asyncio.run(work)
    except CallFailed as error:
        fail(str(error), EXIT_CANNOT_CALL)
    except OSError as error:
        fail(f"The file cannot be saved: {os.strerror(error.errno or 0)}.", EXIT_CANNOT_WRITE)
