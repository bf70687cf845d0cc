"""The files that last from one execution to the next: which there are, getting one, going back, and deleting them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer
from rich.table import Table

from orchestrator.commands.executions import local_time
from orchestrator.commands.files import Output, get_one, ordered, print_files
from orchestrator.commands.terminal import (
    AsJson,
    Json,
    ask_daemon,
    err,
    out,
    plain,
    print_json,
    print_table,
)
from orchestrator.domain.file_words import count_in_words, size_in_words

Name = Annotated[str, typer.Argument(metavar="NAME", help="The workspace's name.")]
Version = Annotated[
    str | None, typer.Option(metavar="ID", help="As the execution with this id left it; else as it is now.")
]

workspaces_app = typer.Typer(help="List workspaces, read them, go back to an earlier version, delete them.")


@workspaces_app.callback(invoke_without_command=True)
def workspaces(context: typer.Context, as_json: AsJson = False) -> None:
    """List the workspaces that you have or share; the commands below do more."""
    if context.invoked_subcommand is not None:
        return
    found = ask_daemon("/workspaces")
    if as_json:
        print_json(found)
    elif found["workspaces"]:
        print_table(out, _table("Workspace", found["workspaces"], "name"))
    else:
        err.print("You have no workspaces. `code-executor run FILE --workspace NAME` makes one.")


def show(name: Name, version: Version = None, as_json: AsJson = False) -> None:
    """Show the versions of a workspace, and the files of one."""
    found = _asked(name, version)
    if as_json:
        print_json(found)
        return
    print_table(out, _table("Version", found["versions"], "version"))
    out.print()
    print_files(found["files"])


def get(
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file's name, with its folders.")],
    output: Output = None,
    version: Version = None,
) -> None:
    """Get a file of a workspace."""
    listed_by = f"code-executor workspaces show {name}{f' --version {version}' if version is not None else ''}"
    get_one(_asked(name, version)["files"], file, output, listed_by=listed_by)


def restore(
    name: Name,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="The execution that left it so; `show` lists them.")
    ],
) -> None:
    """Make an earlier version of a workspace the newest."""
    now = ordered("POST", f"{_path(name)}/restore", {"version": version})
    held = f"{count_in_words(now['fileCount'])}, {size_in_words(now['bytes'])}"
    err.print(plain(f"code-executor: {name} is as execution {now['version']} left it: {held}"))


def delete(name: Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Delete a workspace with all its versions."""
    if not yes:
        typer.confirm(f"Delete the workspace {name} with all its versions?", abort=True, err=True)
    deleted = ordered("DELETE", _path(name))["deleted"]
    err.print(plain(f"code-executor: deleted {name} with {count_in_words(deleted, 'version')}"))


for command in (show, get, restore, delete):
    workspaces_app.command()(command)


def _path(name: str) -> str:
    return f"/workspaces/{quote(name, safe='')}"


def _asked(name: str, version: str | None) -> Json:
    return ask_daemon(_path(name), [("version", version)] if version is not None else None)


def _table(title: str, found: list[Json], first: str) -> Table:
    columns = (title, "Files", "Size", "Changed", *(("Version",) if first == "name" else ("Digest",)))
    table = Table(*columns, box=None, pad_edge=False)
    for each in found:
        changed = local_time(each["madeAt"])
        last = each["version"] if first == "name" else each["digest"][:12]
        table.add_row(plain(each[first]), str(each["fileCount"]), size_in_words(each["bytes"]), changed, plain(last))
    return table
