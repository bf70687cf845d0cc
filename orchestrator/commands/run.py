"""Runs one program on the daemon, as if it ran here: its output is ours, and so is its exit code."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.files import transferred
from orchestrator.commands.own_files import NotAFile, OwnFile, give, own_files, save_all, tell_left_out
from orchestrator.commands.program_file import STDIN, LanguageUnknown, language_of, read_program
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_CANNOT_CALL,
    AsJson,
    Json,
    err,
    fail,
    find_key,
    load_settings,
    out,
    plain,
    print_json,
)
from orchestrator.domain.execution import Check, Language, Outcome
from orchestrator.domain.file_words import count_in_words
from orchestrator.domain.files import Keep

# An outcome without an exit code of the program gets the one that shells use for the like.
EXIT_OF_OUTCOME = {
    Outcome.TIMED_OUT: 124,
    Outcome.OUT_OF_MEMORY: 137,
    Outcome.OUTPUT_LIMIT: 141,
    Outcome.REJECTED: 65,
    Outcome.CANCELLED: 130,
    Outcome.SANDBOX_ERROR: 70,
}


def run(
    file: Annotated[str, typer.Argument(help="The program's file, or - for standard input.")],
    language: Annotated[
        Language | None, typer.Option(help="Else by the file's ending or its #! line; - is TypeScript.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds for the program, at most 300; with --background, what your role may.")
    ] = None,
    check: Annotated[Check, typer.Option(help="Reject what surely fails, explain what failed, or do not look.")] = (
        Check.STRICT
    ),
    images: Annotated[Path | None, typer.Option(help="Directory for the pictures that the program shows.")] = None,
    background: Annotated[bool, typer.Option("--background", help="Print its id and return; see 'follow'.")] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--in", metavar="[NAME=]PATH", help="A file or directory for /workspace/in; may be repeated."),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Directory for what it leaves in /workspace/out.")
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Files that last: what is in /workspace/files is kept for the next."),
    ] = None,
    keep: Annotated[Keep, typer.Option(help="Keep the workspace's files after a success, or always.")] = Keep.SUCCESS,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Fail if another execution has the workspace, instead of waiting.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a program; its output is streamed and its exit code is this command's."""
    if background and (images or out_dir) is not None:
        fail(
            "Pictures and files come at the end: 'code-executor follow ID --images DIRECTORY --out DIRECTORY'.",
            EXIT_BAD_USE,
        )
    settings = load_settings()
    try:
        code = read_program(file, sys.stdin.read() if file == STDIN else None)
        chosen = language or language_of(file, code)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}.", EXIT_BAD_USE)
    except LanguageUnknown as error:
        fail(str(error), EXIT_BAD_USE)
    client = ApiClient(settings.url, find_key(settings))
    if workspace is None and (no_wait or keep is not Keep.SUCCESS):
        fail("--keep and --no-wait say how a workspace is used. Name it with --workspace.", EXIT_BAD_USE)
    use = {} if workspace is None else {"workspace": workspace, "keep": keep.value, "wait": not no_wait}
    try:
        given = own_files(inputs or ())
        if background:
            started = asyncio.run(_start(client, code, chosen, timeout, check, given, use))
            print_json(started) if as_json else out.print(plain(started["executionId"]))
            return
        result = asyncio.run(_follow(client, code, chosen, timeout, check, given, use, quiet=as_json))
    except NotAFile as error:
        fail(str(error), EXIT_BAD_USE)
    except OSError as error:
        fail(f"A file cannot be read: {error}.", EXIT_BAD_USE)
    except CallFailed as error:
        fail(str(error), EXIT_CANNOT_CALL)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_OF_OUTCOME[Outcome.CANCELLED]) from None
    conclude(client, result, images, out_dir, as_json=as_json)


def conclude(client: ApiClient, result: Json, images: Path | None, out_dir: Path | None, *, as_json: bool) -> NoReturn:
    """Say what is worth saying of how a program ended, and exit with its code."""
    outcome = Outcome(result["outcome"])
    if pictures := result.get("images"):
        try:
            err.print(plain(f"code-executor: {_kept(pictures, images)}"))
        except OSError as error:
            fail(f"The pictures cannot be saved: {error}.", EXIT_BAD_USE)
    _keep_files(client, result, out_dir)
    if as_json:
        print_json(result)
    else:
        for mistake in result["mistakes"]:
            err.print(plain(f"line {mistake['line']}: {mistake['message']}"))
        if outcome not in (Outcome.COMPLETED, Outcome.FAILED):
            err.print(plain(f"code-executor: {_explanation(outcome, result)}"))
        elif result["truncated"]:
            err.print(plain(f"code-executor: {_left_out(result)}"))
    raise typer.Exit(EXIT_OF_OUTCOME[outcome] if outcome in EXIT_OF_OUTCOME else int(result["exitCode"]))


async def _start(
    client: ApiClient,
    code: str,
    language: Language,
    seconds: float | None,
    check: Check,
    inputs: Sequence[OwnFile],
    use: Json,
) -> Json:
    """Start a program in the background, and return where to read about it."""
    more = {**use, "files": await give(client, inputs)} if inputs else use
    return await client.execute_in_background(code, language.value, seconds, check.value, more)


async def _follow(
    client: ApiClient,
    code: str,
    language: Language,
    seconds: float | None,
    check: Check,
    inputs: Sequence[OwnFile],
    use: Json,
    *,
    quiet: bool,
) -> Json:
    """Pass on what the program prints, byte for byte, and return its result."""
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    result: Json = {}
    more = {**use, "files": await give(client, inputs)} if inputs else use
    async for event in client.execute(code, language.value, seconds, check.value, more):
        if event.name == "result":
            result = event.fields
        elif event.name in streams and not quiet:
            streams[event.name].write(event.fields["text"])
            streams[event.name].flush()
    if not result:
        raise CallFailed("The daemon went away before the program ended. Run the program again.")
    return result


def _keep_files(client: ApiClient, result: Json, directory: Path | None) -> None:
    """Save the files if they are wanted, and say what there is and what there is not."""
    files = result.get("files", [])
    if directory is not None:
        err.print(plain(f"code-executor: {transferred(save_all(client, files, directory))}"))
    elif files:
        err.print(plain(f"code-executor: {count_in_words(len(files))}; --out DIRECTORY saves them"))
    tell_left_out(result.get("filesLeftOut", []), result.get("filesLeftOutCount", 0))
    if workspace := result.get("workspace"):
        tell_left_out(workspace["leftOut"], len(workspace["leftOut"]), f" in {workspace['name']}")
        if not workspace["kept"]:
            err.print(plain(f"code-executor: {workspace['name']} was not changed: {workspace['whyNot']}"))


def _left_out(result: Json) -> str:
    kept = result["limits"]["maxOutputBytes"]
    return f"{result['metrics']['droppedBytes']} bytes of output were dropped: {kept} bytes a stream are kept"


def _kept(pictures: list[Json], directory: Path | None) -> str:
    """Save the pictures if they are wanted, and say how many there are."""
    count = "1 picture" if len(pictures) == 1 else f"{len(pictures)} pictures"
    if directory is None:
        return f"{count}; --images DIRECTORY saves them"
    directory.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures, 1):
        suffix = picture["mimeType"].removeprefix("image/")
        (directory / f"{number}.{suffix}").write_bytes(b64decode(picture["data"]))
    return f"{count} in {directory}"


def _explanation(outcome: Outcome, result: Json) -> str:
    limits = result["limits"]
    match outcome:
        case Outcome.TIMED_OUT:
            return f"timed out after {limits['timeoutSeconds']:g} s"
        case Outcome.OUT_OF_MEMORY:
            return f"out of memory: the limit is {limits['memoryBytes'] // 1024**2} MiB"
        case Outcome.OUTPUT_LIMIT:
            return f"output limit: more than {limits['floodBytes']} bytes to one stream"
        case Outcome.REJECTED:
            return "rejected before it called a tool; --check warn runs it all the same"
        case Outcome.SANDBOX_ERROR:
            return f"the sandbox failed, not the program: {result['error']['detail']} ({result['error']['code']})"
        case _:
            return outcome.value
