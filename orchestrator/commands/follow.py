"""Executions in the background, from the command line: follow one, or cancel it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.client import ApiClient, CallFailed, ConnectionLost
from orchestrator.commands.executions import newest_program
from orchestrator.commands.run import conclude
from orchestrator.commands.terminal import (
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

EXIT_DETACHED = 130
# Together a minute: a daemon that is restarted is back by then.
PAUSES_SECONDS = (0.5, 1, 2, 4, 8, 15, 30)


def follow(
    execution_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The newest program that you may see, if absent.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Directory for the pictures, if it has not ended yet.")] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Directory for what it leaves in /workspace/out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Stream an execution's output from its beginning; its exit code is this command's. Ctrl-C only stops watching."""
    settings = load_settings()
    chosen = execution_id or newest_program()
    client = ApiClient(settings.url, find_key(settings))
    try:
        result = asyncio.run(_follow(client, chosen, quiet=as_json))
    except CallFailed as error:
        fail(str(error), EXIT_CANNOT_CALL)
    except KeyboardInterrupt:
        err.print(plain(f"code-executor: no longer watching; 'code-executor follow {chosen}' watches it again,"))
        err.print(plain(f"'code-executor cancel {chosen}' ends it."))
        raise typer.Exit(EXIT_DETACHED) from None
    if result["outcome"] is None:
        fail(f"The execution never ran: {(result['error'] or {}).get('detail', result['state'])}", EXIT_CANNOT_CALL)
    conclude(client, result, images, out_dir, as_json=as_json)


def cancel(
    execution_id: Annotated[str, typer.Argument(metavar="ID", help="The execution.")], as_json: AsJson = False
) -> None:
    """End an execution; what it printed until then is kept."""
    settings = load_settings()
    try:
        result = asyncio.run(ApiClient(settings.url, find_key(settings)).cancel(execution_id))
    except CallFailed as error:
        fail(str(error), EXIT_CANNOT_CALL)
    if as_json:
        print_json(result)
    else:
        err.print(plain(f"code-executor: {result['executionId']} is {result['outcome']}"))


async def _follow(client: ApiClient, execution_id: str, *, quiet: bool) -> Json:
    """Pass on what the program prints, each byte once, however often the connection is lost, and return its result."""
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    last_id, pauses = "", iter(PAUSES_SECONDS)
    while True:
        try:
            async for event in client.follow(execution_id, last_id):
                if event.name == "result":
                    return event.fields
                if event.name in streams and not quiet:
                    streams[event.name].write(event.fields["text"])
                    streams[event.name].flush()
                last_id = event.id
                if event.name != "started":
                    pauses = iter(PAUSES_SECONDS)
            lost = ConnectionLost("The daemon ended the stream before the program ended.")
        except ConnectionLost as error:
            lost = error
        pause = next(pauses, None)
        if pause is None:
            raise lost
        await asyncio.sleep(pause)
