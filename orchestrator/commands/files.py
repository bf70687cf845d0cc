"""What executions left: the list of files, and getting them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.table import Table

from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.executions import ExecutionId, local_time, newest_program
from orchestrator.commands.own_files import MAX_TOLD, fetch, in_words, require_writable, save, save_all
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_CANNOT_WRITE,
    EXIT_NOT_THERE,
    AsJson,
    Json,
    api_client,
    ask_daemon,
    call_daemon,
    directory_named,
    err,
    fail,
    fail_to_call,
    out,
    plain,
    print_json,
    print_table,
)
from orchestrator.domain.file_words import count_in_words, size_in_words

STDOUT = "-"

Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output. Else its own name, here."),
]


def files(
    execution_id: ExecutionId = None,
    get: Annotated[str | None, typer.Option(metavar="NAME", help="Get this file.")] = None,
    output: Output = None,
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", parser=directory_named, help="Get all files, or the one of --get, into DIR."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the files that a program left in /workspace/out, or get them: one with --get, all with --out."""
    if output is not None and get is None:
        fail("--output needs --get NAME.", EXIT_BAD_USE)
    if output is not None and out_dir is not None:
        fail("--output and --out both say where the file goes. Use one of them.", EXIT_BAD_USE)
    chosen = execution_id or newest_program()
    found: list[Json] = ask_daemon(f"/executions/{quote(chosen, safe='')}/files")["files"]
    if get is not None:
        get_one(found, get, output, out_dir, listed_by=f"code-executor files {chosen}")
    elif out_dir is not None:
        if not save_files(api_client(), found, out_dir, chosen):
            raise typer.Exit(EXIT_CANNOT_WRITE)
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
    page = ask_daemon("/files")
    found: list[Json] = page["files"]
    while page["next"] is not None:
        page = ask_daemon(f"/files?before={quote(page['next'], safe='')}")
        found += page["files"]
    if as_json:
        print_json({"files": found})
    elif found:
        table = Table("SHA-256", "Size", "Sent", box=None, pad_edge=False)
        for file in found:
            table.add_row(plain(file["sha256"]), size_in_words(file["bytes"]), local_time(file["uploadedAt"]))
        print_table(out, table)
    else:
        err.print("You have sent no files, or they are no longer kept.")


def get_one(found: list[Json], name: str, output: str | None, out_dir: Path | None = None, *, listed_by: str) -> None:
    """Save one of the files that there are, or write it to standard output."""
    file = next((each for each in found if each["name"] == name), None)
    if file is None:
        fail(f"There is no file {name!r}. '{listed_by}' lists what there is.", EXIT_NOT_THERE)
    if output == "":
        fail("--output must be the name of a file, or - for standard output.", EXIT_BAD_USE)
    client = api_client()
    target = Path(output or name.rpartition("/")[2]) if out_dir is None else out_dir / name
    try:
        if output == STDOUT:
            sys.stdout.flush()
            asyncio.run(fetch(client, file, sys.stdout.fileno()))
            return
        directory, below = (target.parent, target.name) if out_dir is None else (out_dir, name)
        asyncio.run(save(client, file, directory, below))
    except CallFailed as error:
        fail_to_call(error)
    except OSError as error:
        where = "standard output" if output == STDOUT else str(target)
        fail(f"{name} cannot be written to {where}: {in_words(error)}.", EXIT_CANNOT_WRITE)
    err.print(plain(f"code-executor: {size_in_words(file['bytes'])} in {target}"))


def save_files(client: ApiClient, files: list[Json], directory: Path, execution_id: str) -> bool:
    """Save what an execution left, say what was saved and what was not, and return whether that is all."""
    failures = asyncio.run(save_all(client, files, directory))
    for failure in failures[:MAX_TOLD]:
        err.print(plain(f"code-executor: {failure.name} was not saved in {directory}: {failure.why}"))
    if len(failures) > MAX_TOLD:
        err.print(plain(f"code-executor: {len(failures) - MAX_TOLD} more were not saved in {directory}"))
    lost = {failure.name for failure in failures}
    saved = [file for file in files if file["name"] not in lost]
    if saved:
        size = size_in_words(sum(int(file["bytes"]) for file in saved))
        err.print(plain(f"code-executor: {count_in_words(len(saved))} ({size}) in {directory}"))
    elif not files:
        err.print("code-executor: no files were left")
    if failures:
        err.print(
            plain(
                "code-executor: the daemon still keeps what was not saved; "
                f"'code-executor files {execution_id} --out DIRECTORY' saves it"
            )
        )
    return not failures


def require_writable_directories(*directories: Path | None) -> None:
    """End the command if nothing could be saved in a directory, before there is something to lose."""
    for directory in directories:
        try:
            if directory is not None:
                require_writable(directory)
        except FileExistsError:
            fail(f"Nothing can be saved in {directory}: it is not a directory.", EXIT_CANNOT_WRITE)
        except OSError as error:
            fail(f"Nothing can be saved in {directory}: {in_words(error)}.", EXIT_CANNOT_WRITE)


def print_files(found: list[Json]) -> None:
    table = Table("Name", "Size", "Type", "SHA-256", box=None, pad_edge=False)
    for file in found:
        size = size_in_words(file["bytes"])
        table.add_row(plain(file["name"]), size, plain(file["mediaType"]), plain(file["sha256"][:12]))
    print_table(out, table)


def ordered(method: str, path: str, body: Json | None = None) -> Json:
    """Have the daemon do something; a refusal ends the command."""
    return call_daemon(lambda client: client.order(method, path, body))
