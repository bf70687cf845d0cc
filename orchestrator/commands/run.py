"""Runs one program on the daemon, as if it ran here: its output is ours, and so is its exit code."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64decode
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_CANNOT_CALL,
    AsJson,
    Json,
    err,
    fail,
    find_key,
    load_settings,
    plain,
    print_json,
)
from orchestrator.domain.execution import Check, Language, Outcome

# An outcome without an exit code of the program gets the one that shells use for the like.
EXIT_OF_OUTCOME = {
    Outcome.TIMED_OUT: 124,
    Outcome.OUT_OF_MEMORY: 137,
    Outcome.OUTPUT_LIMIT: 141,
    Outcome.REJECTED: 65,
    Outcome.CANCELLED: 130,
    Outcome.SANDBOX_ERROR: 70,
}
LANGUAGE_OF_SUFFIX = {suffix: language for language in Language for suffix in language.suffixes}
STDIN = "-"


def run(
    file: Annotated[str, typer.Argument(help="The program's file, or - for standard input.")],
    language: Annotated[Language | None, typer.Option(help="Else by the file's ending; - is TypeScript.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for the program, at most 300.")] = None,
    check: Annotated[Check, typer.Option(help="Reject what surely fails, explain what failed, or do not look.")] = (
        Check.STRICT
    ),
    images: Annotated[Path | None, typer.Option(help="Directory for the pictures that the program shows.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a program; its output is streamed and its exit code is this command's."""
    settings = load_settings()
    try:
        code = sys.stdin.read() if file == STDIN else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}.", EXIT_BAD_USE)
    chosen = language or LANGUAGE_OF_SUFFIX.get(Path(file).suffix, Language.TYPESCRIPT)
    client = ApiClient(settings.url, find_key(settings))
    try:
        result = asyncio.run(_follow(client, code, chosen, timeout, check, quiet=as_json))
    except CallFailed as error:
        fail(str(error), EXIT_CANNOT_CALL)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_OF_OUTCOME[Outcome.CANCELLED]) from None
    outcome = Outcome(result["outcome"])
    if pictures := result.get("images"):
        try:
            err.print(plain(f"code-executor: {_kept(pictures, images)}"))
        except OSError as error:
            fail(f"The pictures cannot be saved: {error}.", EXIT_BAD_USE)
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


async def _follow(
    client: ApiClient, code: str, language: Language, seconds: float | None, check: Check, *, quiet: bool
) -> Json:
    """Pass on what the program prints, byte for byte, and return its result."""
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    result: Json = {}
    async for event in client.execute(code, language.value, seconds, check.value):
        if event.name == "result":
            result = event.fields
        elif event.name in streams and not quiet:
            streams[event.name].write(event.fields["text"])
            streams[event.name].flush()
    if not result:
        raise CallFailed("The daemon went away before the program ended. Run the program again.")
    return result


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
