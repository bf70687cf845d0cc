"""Runs one program on the daemon, as if it ran here: its output is ours, and so is its exit code."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64decode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from orchestrator.commands.client import ApiClient, CallFailed, Event
from orchestrator.commands.files import require_writable_directories, save_files
from orchestrator.commands.own_files import (
    NotAFile,
    NotAnInput,
    OwnFile,
    TooMuch,
    given_files,
    in_words,
    own_files,
    tell_left_out,
)
from orchestrator.commands.program_file import STDIN, LanguageUnknown, language_of, read_program
from orchestrator.commands.terminal import (
    EXIT_BAD_DATA,
    EXIT_BAD_USE,
    EXIT_CANNOT_WRITE,
    EXIT_NOT_THERE,
    AsJson,
    Json,
    OutDirectory,
    api_client,
    directory_named,
    err,
    fail,
    fail_to_call,
    out,
    plain,
    positive_time,
    print_json,
)
from orchestrator.domain.execution import Check, Language, Outcome
from orchestrator.domain.file_words import count_in_words
from orchestrator.domain.files import Keep


@dataclass(slots=True)
class Started:
    """The execution that a command waits for, once the daemon has told its id."""

    execution_id: str | None = None


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
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=positive_time,
            help="Seconds for the program, at most 300; with --background, what your role may.",
        ),
    ] = None,
    check: Annotated[Check, typer.Option(help="Reject what surely fails, explain what failed, or do not look.")] = (
        Check.STRICT
    ),
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=directory_named, help="Directory for the pictures that the program shows."),
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Print its id and return; see 'follow'.")] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--in", metavar="[NAME=]PATH", help="A file or directory for /workspace/in; may be repeated."),
    ] = None,
    out_dir: OutDirectory = None,
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
    if workspace is None and (no_wait or keep is not Keep.SUCCESS):
        fail("--keep and --no-wait say how a workspace is used. Name it with --workspace.", EXIT_BAD_USE)
    code, chosen = program_in(file, language)
    use = {} if workspace is None else {"workspace": workspace, "keep": keep.value, "wait": not no_wait}
    started = Started()
    try:
        given = own_files(inputs or ())
        require_writable_directories(images, out_dir)
        client = api_client()
        if background:
            reply = asyncio.run(_start(client, code, chosen, timeout, check, given, use))
            print_json(reply) if as_json else out.print(plain(reply["executionId"]))
            return
        result = asyncio.run(_follow(client, code, chosen, timeout, check, given, use, started, quiet=as_json))
    except NotAnInput as error:
        fail(str(error), EXIT_BAD_USE)
    except TooMuch as error:
        fail(str(error), EXIT_BAD_DATA)
    except NotAFile as error:
        fail(str(error), EXIT_NOT_THERE)
    except CallFailed as error:
        fail_to_call(error)
    except KeyboardInterrupt:
        exit_interrupted(started, in_background=background)
    conclude(client, result, images, out_dir, as_json=as_json)


def conclude(client: ApiClient, result: Json, images: Path | None, out_dir: Path | None, *, as_json: bool) -> NoReturn:
    """Say what is worth saying of how a program ended, and exit with its code."""
    outcome = Outcome(result["outcome"])
    saved = [_keep_pictures(result.get("images") or [], images), _keep_files(client, result, out_dir)]
    if as_json:
        print_json(result)
    else:
        for mistake in result["mistakes"]:
            err.print(plain(f"line {mistake['line']}: {mistake['message']}"))
        if outcome not in (Outcome.COMPLETED, Outcome.FAILED):
            err.print(plain(f"code-executor: {_explanation(outcome, result)}"))
        elif result["truncated"]:
            err.print(plain(f"code-executor: {_left_out(result)}"))
    if not all(saved):
        raise typer.Exit(EXIT_CANNOT_WRITE)
    raise typer.Exit(EXIT_OF_OUTCOME[outcome] if outcome in EXIT_OF_OUTCOME else int(result["exitCode"]))


def program_in(file: str, language: Language | None) -> tuple[str, Language]:
    """Read the program and find out its language; what keeps it from being run ends the command."""
    try:
        code = read_program(file, sys.stdin.read() if file == STDIN else None)
        chosen = language or language_of(file, code)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.", EXIT_NOT_THERE)
    except UnicodeDecodeError as error:
        fail(f"{file} cannot be read: {error}.", EXIT_BAD_DATA)
    except LanguageUnknown as error:
        fail(str(error), EXIT_BAD_USE)
    if not code:
        fail(f"{'Standard input' if file == STDIN else file} is empty: there is no program to run.", EXIT_BAD_DATA)
    return code, chosen


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
    async with given_files(client, inputs) as files:
        more = {**use, "files": files} if files else use
        return await client.execute_in_background(code, language.value, seconds, check.value, more)


async def _follow(
    client: ApiClient,
    code: str,
    language: Language,
    seconds: float | None,
    check: Check,
    inputs: Sequence[OwnFile],
    use: Json,
    started: Started,
    *,
    quiet: bool,
) -> Json:
    async with given_files(client, inputs) as files:
        more = {**use, "files": files} if files else use
        return await passed_on(client.execute(code, language.value, seconds, check.value, more), started, quiet=quiet)


async def passed_on(happening: AsyncGenerator[Event, None], started: Started, *, quiet: bool) -> Json:
    """Pass on what a program prints, byte for byte, and return its result."""
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    result: Json = {}
    async with aclosing(happening) as events:
        async for event in events:
            if event.name == "started":
                started.execution_id = event.fields["executionId"]
            elif event.name == "result":
                result = event.fields
            elif event.name in streams and not quiet:
                streams[event.name].write(event.fields["text"])
                streams[event.name].flush()
    if not result:
        raise CallFailed("The daemon went away before the program ended. Run the program again.")
    return result


def exit_interrupted(started: Started, *, in_background: bool = False) -> NoReturn:
    """Say what became of an execution whose command was ended by Ctrl-C: the daemon ends it when nobody waits."""
    execution_id = started.execution_id
    if in_background:
        err.print("code-executor: interrupted; 'code-executor executions' shows whether the program was started")
    elif execution_id is None:
        err.print("code-executor: cancelled before the program began")
    else:
        shows = f"'code-executor show {execution_id}' shows what it did,"
        err.print(plain(f"code-executor: cancelled {execution_id}; {shows}"))
        err.print(plain(f"'code-executor files {execution_id}' lists the files that it left."))
    raise typer.Exit(EXIT_OF_OUTCOME[Outcome.CANCELLED]) from None


def _keep_files(client: ApiClient, result: Json, directory: Path | None) -> bool:
    """Save the files if they are wanted, say what there is and what there is not, and return whether all are saved."""
    files, saved = result.get("files", []), True
    if directory is not None:
        saved = save_files(client, files, directory, result["executionId"])
    elif files:
        err.print(plain(f"code-executor: {count_in_words(len(files))}; --out DIRECTORY saves what it left"))
    tell_left_out(result.get("filesLeftOut", []), result.get("filesLeftOutCount", 0))
    if workspace := result.get("workspace"):
        tell_left_out(workspace["leftOut"], len(workspace["leftOut"]), f" in {workspace['name']}")
        if not workspace["kept"]:
            err.print(plain(f"code-executor: {workspace['name']} was not changed: {workspace['whyNot']}"))
    return saved


def _keep_pictures(pictures: list[Json], directory: Path | None) -> bool:
    """Save the pictures if they are wanted, say how many there are, and return whether all are saved."""
    if not pictures:
        return True
    count = count_in_words(len(pictures), "picture")
    if directory is None:
        err.print(plain(f"code-executor: {count}; --images DIRECTORY saves them"))
        return True
    try:
        for number, picture in enumerate(pictures, 1):
            suffix = picture["mimeType"].removeprefix("image/")
            (directory / f"{number}.{suffix}").write_bytes(b64decode(picture["data"]))
    except OSError as error:
        err.print(plain(f"code-executor: {count} cannot be saved in {directory}: {in_words(error)}"))
        return False
    err.print(plain(f"code-executor: {count} in {directory}"))
    return True


def _left_out(result: Json) -> str:
    kept = result["limits"]["maxOutputBytes"]
    return f"{result['metrics']['droppedBytes']} bytes of output were dropped: {kept} bytes a stream are kept"


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
