"""Executions in the background, from the command line: follow one, or cancel it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.client import ApiClient, CallFailed
from orchestrator.commands.executions import ExecutionId, newest_program
from orchestrator.commands.feed import taken_up
from orchestrator.commands.files import require_writable_directories
from orchestrator.commands.run import conclude
from orchestrator.commands.terminal import (
    EXIT_INTERRUPTED,
    AsJson,
    Json,
    OutDirectory,
    api_client,
    call_daemon,
    directory_named,
    err,
    exit_of_refusal,
    fail,
    fail_to_call,
    plain,
    print_json,
)


def follow(
    execution_id: ExecutionId = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=directory_named, help="Directory for the pictures, if it has not ended yet."
        ),
    ] = None,
    out_dir: OutDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Stream an execution's output from its beginning; its exit code is this command's. Ctrl-C only stops watching."""
    require_writable_directories(images, out_dir)
    chosen = execution_id or newest_program()
    client = api_client()
    try:
        result = asyncio.run(_follow(client, chosen, quiet=as_json))
    except CallFailed as error:
        fail_to_call(error)
    except KeyboardInterrupt:
        err.print(plain(f"code-executor: no longer watching; 'code-executor follow {chosen}' watches it again,"))
        err.print(plain(f"'code-executor cancel {chosen}' ends it."))
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if result["outcome"] is None:
        reason = result["error"] or {"code": "", "detail": result["state"]}
        fail(f"The execution never ran: {reason['detail']}", exit_of_refusal(reason["code"]))
    conclude(client, result, images, out_dir, as_json=as_json)


def cancel(
    execution_id: Annotated[str, typer.Argument(metavar="ID", help="The execution.")], as_json: AsJson = False
) -> None:
    """End an execution; what it printed until then is kept."""
    result = call_daemon(lambda client: client.cancel(execution_id))
    if as_json:
        print_json(result)
    else:
        err.print(plain(f"code-executor: {result['executionId']} is {result['outcome']}"))


async def _follow(client: ApiClient, execution_id: str, *, quiet: bool) -> Json:
    """Pass on what the program prints, each byte once, however often the connection is lost, and return its result."""
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    async with aclosing(taken_up(lambda last_id: client.follow(execution_id, last_id), ("started",))) as events:
        async for event in events:
            if event.name == "result":
                return event.fields
            if event.name in streams and not quiet:
                streams[event.name].write(event.fields["text"])
                streams[event.name].flush()
    raise AssertionError("a stream that is taken up has no end")
